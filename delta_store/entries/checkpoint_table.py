"""A Delta checkpoint as a Parquet file, of either table: its name, its columns, the pointer to it. Pure.

Ours and not delta-rs's: it costs the number of live files, not the length of the log since the last one, and it can be
fsynced and checksummed like all else (``_last_checkpoint`` carries the CRC-32 of the file in its ``tags``).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

LAST_CHECKPOINT: Final = "_last_checkpoint"
LAST_FILES: Final = "_last_files"
"""Names the newest list of live files, as :data:`LAST_CHECKPOINT` does the newest checkpoint."""
_SUFFIX: Final = ".checkpoint.parquet"
_FILES_SUFFIX: Final = ".files.parquet"
_CHUNK: Final = 128
"""Actions that are converted to Arrow at once: the interpreter lock is held for so long."""
_ROWS: Final = 2_048
"""The same for files that are given by columns, which cost less."""
_TEXTS: Final = pa.map_(pa.string(), pa.string())
_SCHEMA: Final = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
                "tags": _TEXTS,
            }
        ),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "extendedFileMetadata": pa.bool_(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
    }
)


class DamagedCheckpoint(ValueError):
    """The bytes are not those of a checkpoint as it was written; the text gives the reason."""


def checkpoint_name(version: int) -> str:
    """Return the name of a version's checkpoint inside the log folder."""
    return f"{version:020d}{_SUFFIX}"


def checkpoint_version(name: str) -> int | None:
    """Return the version of a checkpoint's name; None for any other file of the log folder."""
    digits = name.removesuffix(_SUFFIX)
    return int(digits) if name.endswith(_SUFFIX) and len(digits) == 20 and digits.isdecimal() else None


def files_name(version: int) -> str:
    """Return the name of the list of a version's live files inside the log folder; other engines pass it over."""
    return f"{version:020d}{_FILES_SUFFIX}"


def is_files_name(name: str) -> bool:
    """Whether a file of the log folder is a list of live files."""
    return name.endswith(_FILES_SUFFIX)


def by_rows(actions: Sequence[Mapping[str, Any]]) -> list[pa.Table]:
    """Return these actions as parts of a checkpoint."""
    parts = (actions[at : at + _CHUNK] for at in range(0, len(actions), _CHUNK))
    return [pa.Table.from_pylist([_with_maps(action) for action in part], schema=_SCHEMA) for part in parts]


def by_columns(action: str, shared: Mapping[str, Any], own: Mapping[str, Sequence[Any]], number: int) -> list[pa.Table]:
    """Return so many actions of one kind as parts of a checkpoint: there may be tens of thousands.

    ``own`` has the fields in which they differ, maps as lists of pairs; the others are in ``shared``, or null.
    """
    parts = range(0, number, _ROWS)
    return [
        _columns(
            action, shared, {name: values[at : at + _ROWS] for name, values in own.items()}, min(_ROWS, number - at)
        )
        for at in parts
    ]


def _columns(action: str, shared: Mapping[str, Any], own: Mapping[str, Sequence[Any]], number: int) -> pa.Table:
    fields, same = _SCHEMA.field(action).type, _with_maps(shared)
    columns = [
        pa.array(own[field.name], field.type)
        if field.name in own
        else pa.repeat(pa.scalar(same.get(field.name), field.type), number)
        for field in fields
    ]
    whole = pa.StructArray.from_arrays(columns, fields=list(fields))
    return pa.table(
        [whole if field.name == action else pa.nulls(number, field.type) for field in _SCHEMA], schema=_SCHEMA
    )


def encode(parts: Iterable[pa.Table]) -> bytes:
    """Encode a checkpoint as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.concat_tables(parts),
        sink,
        compression="zstd",
        write_page_checksum=True,
        store_schema=False,
    )
    return bytes(sink.getvalue())


def decode(body: bytes, *, checksum: str | None, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a checkpoint's actions (those of ``columns``), a column each; raise :class:`DamagedCheckpoint`."""
    if checksum is not None and f"{crc32(body):08x}" != checksum:
        raise DamagedCheckpoint("its content does not match its checksum")
    try:
        with pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
            return file.read(columns=columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedCheckpoint(f"not a checkpoint: {error}") from error


def pointer(version: int, body: bytes, *, actions: int, files: int) -> bytes:
    """Return the content of ``_last_checkpoint`` for a checkpoint with so many actions, of them files."""
    content = {
        "version": version,
        "size": actions,
        "sizeInBytes": len(body),
        "numOfAddFiles": files,
        "tags": {"silt.crc": f"{crc32(body):08x}"},
    }
    return json.dumps(content, separators=(",", ":")).encode()


def pointed(raw: bytes) -> tuple[int, str] | None:
    """Return version and checksum of ``_last_checkpoint``; None when it can't be read: it is only a hint."""
    try:
        content = json.loads(raw)
        return int(content["version"]), str(content["tags"]["silt.crc"])
    except (ValueError, KeyError, TypeError):
        return None


def metadata_of(read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``metaData`` action as :func:`decode` has read it, with its maps as mappings."""
    told = {name: value for name, value in read.items() if value is not None}
    layout = read["format"]
    return told | {
        "configuration": dict(read["configuration"]),
        "format": {"provider": layout["provider"], "options": dict(layout["options"] or ())},
    }


def _with_maps(value: Any, name: str = "") -> Any:
    """Convert maps to lists of pairs, as Arrow takes them."""
    if not isinstance(value, Mapping):
        return value
    if name in {"partitionValues", "tags", "configuration", "options"}:
        return list(value.items())
    return {key: _with_maps(inner, key) for key, inner in value.items()}
