"""A store whose typed tables are kept as the settle job keeps them, without Spark, for tests."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable

from conf.clock import SystemClock
from conf.data_location import DataLocation
from delta_store.entries.batch_layout import told_by
from delta_store.entries.batch_report import BatchReport, Told
from delta_store.entries.settled_file import decode, encode
from delta_store.entries.staged_file import StagedFile, Writing, staged_path
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settling.staging import Staging
from delta_store.settling.typed_staging import TypedPlace
from delta_store.settling.typed_tables import TypedTables
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Blob
from delta_store.typed.table_folders import table_folder
from delta_store.values.records import Row, RowColumns
from delta_store.values.schemas import JOURNAL_SCHEMA, MESSAGES_FOLDER
from delta_store.values.watermark import Op
from tests.spark.store import Publisher
from tests.staged import append_note, open_owner

NUMBERS = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
WORDS = {**NUMBERS, "properties": {"n": {"type": "integer"}, "word": {"type": ["string", "null"]}}}


class TypedStore(Publisher):
    """A publisher, the owner of ``messages``, and its typed tables."""

    def __init__(self, data: Path, *, store: DataLocation | None = None) -> None:
        """Open all in a folder, or in an object store (``data`` is not used then)."""
        super().__init__()
        self.data = data
        self.location = store or DataLocation(str(data))
        self.start()

    def start(self) -> None:
        """Open all as a process that has just been started."""
        location = self.location
        messages = open_storage(location.table(MESSAGES_FOLDER), location.options)
        self.owner: SettledOwner = open_owner(messages, SystemClock())
        place = TypedPlace(location.uri, location.options)
        self.typed = TypedTables(self.owner, place, clock=SystemClock())
        for name, state in self.catalog.streams.items():
            if name in self.owner.note.watermarks:
                self.typed.learn(self._told(name, state.stream_id, dict(state.config.metadata)))

    def typed_stream(self, name: str, schema: object, **metadata: str) -> None:
        """Create a stream with a schema."""
        self.create(name, metadata={"silt.schema": json.dumps(schema), **_keys(metadata)}, allow_rollup_hdrs=True)

    def update(self, name: str, schema: object | None, **metadata: str) -> None:
        """Give a stream another schema, or none."""
        said = {} if schema is None else {"silt.schema": json.dumps(schema), **_keys(metadata)}
        config = replace(self.catalog.streams[name].config, metadata=said)
        self.catalog.update(config, now_ns=self.tick(), rows=self.rows)

    def stage(self) -> tuple[list[Row], BatchReport]:
        """Write the files of all rows that were decided since the last time."""
        rows, self.rows = list(self.rows.rows()), RowColumns()
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, one.type) for column, one in zip(columns, JOURNAL_SCHEMA, strict=True)]
        table = pa.table(arrays, schema=JOURNAL_SCHEMA)
        writing = Writing(self.owner.epoch, self.owner.note.batch + 1)
        staging = Staging(
            self.owner.storage.uri, self.location.options, writing, frozenset(), "", typed=self.typed.place()
        )
        [said] = staging(table.to_batches())
        return rows, BatchReport.from_row(*(column[0].as_py() for column in said.columns))

    def settle(self, *, ends_before_typed: bool = False) -> None:
        """Settle what was decided; the process may end before typed tables have it."""
        if not len(self.rows):
            return
        rows, report = self.stage()
        self.typed.learn(report.told)
        self.owner.append(report.files, append_note(self.owner, rows))
        if ends_before_typed:
            self.start()
        else:
            self.typed.settled(report)

    def caught_up(self) -> None:
        """Let the tables catch up for as long as it takes, and clean them."""
        self.typed._round_at = 0.0
        for _ in range(100):
            self.typed.maintain()

    def clean(self, name: str) -> None:
        """Delete from ``messages`` what is not live."""
        live = np.array(self.live(name), dtype=np.int64) if name in self.catalog.streams else np.empty(0, np.int64)
        gone, added, deleted = set(), [], 0
        for file in self.owner.snapshot.of_stream(name):
            if not file.has_messages:
                continue
            rows = decode(self.owner.storage.read(file.path), name, str(file.subject_partition))
            mask = np.isin(rows["seq"].to_numpy(), live)
            if not mask.all():
                gone.add(file.path)
                deleted += int((~mask).sum())
                added += self._written(rows.filter(pa.array(mask)), name, str(file.subject_partition), len(added))
        if gone:
            self.owner.rewrite(Op.LIMITS, gone, added, deleted=deleted)

    def _written(self, rows: pa.Table, name: str, partition: str, number: int) -> Iterable[StagedFile]:
        if rows.num_rows:
            writing = Writing(self.owner.epoch, self.owner.note.batch)
            path = staged_path(writing, name, partition, number=number, unique=f"{self.owner.snapshot.version:016x}")
            file = encode(rows)
            self.owner.storage.write(Blob(path, file.body))
            yield StagedFile(path, name, partition, file.body.size, file.rows, file.checksum, file.stats)

    def folder(self, name: str, *, dead_letters: bool = False) -> Path:
        """The folder of a table."""
        return self.data / table_folder(name, dead_letters=dead_letters)

    def table(self, name: str, *, dead_letters: bool = False) -> pa.Table:
        """A table as delta-rs reads it, by sequence."""
        place = self.location.table(table_folder(name, dead_letters=dead_letters))
        found = DeltaTable(place, storage_options=dict(self.location.options)).to_pyarrow_table()
        return found.sort_by("seq")

    def rejected(self, name: str) -> list[int]:
        """The sequences of the dead letters."""
        seqs: list[int] = self.table(name, dead_letters=True)["seq"].to_pylist()
        return seqs

    def _told(self, name: str, stream_id: int, metadata: dict[str, str]) -> list[Told]:
        data = json.dumps({"config": {"name": name, "metadata": metadata}}).encode()
        return [told_by((stream_id, 0, 1), name, data)]


def _keys(metadata: dict[str, str]) -> dict[str, str]:
    return {f"silt.{key}": value for key, value in metadata.items()}


def flights_schema(frame: pd.DataFrame) -> dict[str, object]:
    """A JSON Schema of the flights, by the types that pandas has."""
    kinds = {"i": {"type": "integer"}, "f": {"type": ["number", "null"]}}
    properties = {name: kinds.get(kind.kind, {"type": ["string", "null"]}) for name, kind in frame.dtypes.items()}
    properties["time_hour"] = {"type": "string", "format": "date-time"}
    return {"type": "object", "required": ["year", "carrier"], "properties": properties}
