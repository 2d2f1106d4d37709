"""What the writers of a batch add to rows of the journal. Pure.

``size`` and ``subject_partition``, which ``messages`` has; ``whole``, whether the row matches its checksum;
``id_hash``, the hash of a message's id in its stream, null without one.
"""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.entries.batch_report import Int64s
from delta_store.entries.journal_file import whole_rows
from delta_store.values.records import CONSUMER_KINDS, HEADERS_OVERHEAD, MESSAGE_OVERHEAD, Kind
from delta_store.values.schemas import CONSUMERS_PARTITION, EVENTS_PARTITION, RECENT_PARTITION


def completed(rows: pa.Table) -> pa.Table:
    """Return rows of the journal with the columns that writers add."""
    rows = rows.append_column("size", pa.array(stored_sizes(rows)))
    rows = rows.append_column("subject_partition", _partitions(rows["kind"]))
    rows = rows.append_column("whole", pa.array(whole_rows(rows)))
    return rows.append_column("id_hash", _hashes(rows))


def stored_sizes(rows: pa.Table) -> Int64s:
    """Return :func:`delta_store.values.records.stored_size` of each row."""
    headers = _lengths(rows["headers"])
    return (
        MESSAGE_OVERHEAD
        + _lengths(rows["subject"])
        + _lengths(rows["data"])
        + np.where(headers > 0, headers + HEADERS_OVERHEAD, 0)
    )


def id_hashes(streams: Iterable[str], stream_ids: Iterable[int], msg_ids: Iterable[str]) -> list[int]:
    """Return the hash of each message id in its stream: 64 bits, the same in every process."""
    return [
        int.from_bytes(blake2b(f"{stream}\0{stream_id}\0{msg_id}".encode(), digest_size=8).digest(), signed=True)
        for stream, stream_id, msg_id in zip(streams, stream_ids, msg_ids, strict=True)
    ]


def _partitions(kinds: pa.ChunkedArray) -> pa.Array:
    """Return the partition of rows of these kinds before they are spread by subject: events and consumers apart."""
    coded = pc.dictionary_encode(kinds.combine_chunks())
    return pa.array(map(_partition_of, coded.dictionary.to_pylist()), pa.string()).take(coded.indices)


def _partition_of(kind: str) -> str:
    if kind in CONSUMER_KINDS:
        return CONSUMERS_PARTITION
    return RECENT_PARTITION if kind == Kind.MESSAGE else EVENTS_PARTITION


def _hashes(rows: pa.Table) -> pa.Array:
    bearing = pc.and_(pc.equal(rows["kind"], Kind.MESSAGE.value), pc.is_valid(rows["msg_id"])).to_numpy()
    hashes = np.zeros(rows.num_rows, dtype=np.int64)
    if bearing.any():
        of = rows.select(["stream", "stream_id", "msg_id"]).filter(pa.array(bearing))
        hashes[bearing] = id_hashes(*(column.to_pylist() for column in of.columns))
    return pa.array(hashes, mask=~bearing)


def _lengths(column: pa.ChunkedArray) -> Int64s:
    found: Int64s = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return found
