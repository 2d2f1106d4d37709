"""Both tables of a data folder as gateway and settle job write them; ``messages`` by its owner, or through delta-rs.

The latter stands for tables of older versions, whose committer was Delta for Spark. For tests of readers that need
history in chosen steps, without a JVM: commit to the journal, settle up to any row, apply limits late or at once,
truncate the journal.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from conf.clock import SystemClock
from conf.data_location import DataLocation
from delta_store.config.stream_config import StreamConfig
from delta_store.entries.batch_layout import told_by
from delta_store.entries.batch_report import BatchReport
from delta_store.entries.settled_entry import APP_ID
from delta_store.entries.settled_file import decode
from delta_store.entries.staged_file import StagedFile, Writing
from delta_store.journal.journal import Journal
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.state_at import EventRow, cut_at
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settling.base_rows import with_bases
from delta_store.settling.staging import Staging
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Storage
from delta_store.streams.catalog import Catalog
from delta_store.streams.event_rows import event_row, stream_data
from delta_store.streams.removal_rows import read_removal, removal_data
from delta_store.values.records import Kind, Position, Removal, Row, checksum
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER, MESSAGES_PARTITION_COLUMNS, MESSAGES_SCHEMA
from delta_store.values.watermark import Claim, CommitNote, Op, Watermark
from tests.groups import columns, open_journal_on
from tests.staged import open_owner, place_of, settled_values, stage

START_NS = 1_750_000_000_000_000_000


def marks_of(catalog: Catalog) -> dict[str, Watermark]:
    """Return the position of each stream, as in a commit's metadata."""
    streams = catalog.streams.items()
    return {name: Watermark(*state.position, first_seq=state.index.first_seq) for name, state in streams}


@dataclass(slots=True)
class Tables:
    """The tables of one data folder, or of an object store."""

    data: Path
    """Not used where ``store`` is given."""
    rows: list[Row] = field(default_factory=list)
    marks: dict[str, Watermark] = field(default_factory=dict)
    kept: set[tuple[str, Position]] = field(default_factory=set)
    """The rows in ``messages``."""
    claims: bool = True
    """Whether commit notes have a claim, which older ones lack."""
    by_delta_rs: bool = False
    """Whether ``messages`` is a table of an older version."""
    horizon_seconds: float = 86_400.0
    based: int = 0
    """Files that branches have begun with."""
    store: DataLocation | None = None
    """The place in an object store."""
    _journal: Journal | None = None
    _owner: SettledOwner | None = None
    _batch: int = 0
    """The newest batch that went through delta-rs."""
    _rows_in: dict[str, list[Row]] = field(default_factory=dict)
    """The rows of each file of ``messages`` that its owner committed."""

    def commit(self, rows: Sequence[Row]) -> None:
        """Commit rows to the journal."""
        self.rows.extend(rows)
        self.journal.commit(columns(rows))

    @property
    def journal(self) -> Journal:
        """The claimed journal."""
        if self._journal is None:
            self._journal = open_journal_on(self._storage(JOURNAL_FOLDER), SystemClock())
        return self._journal

    @property
    def location(self) -> DataLocation:
        """Where the tables are."""
        return self.store or DataLocation(str(self.data))

    def settle(self, rows: Sequence[Row] | None = None) -> None:
        """Append the rows above the watermark to ``messages``, of ``rows`` or of all committed ones."""
        new = [row for row in (self.rows if rows is None else rows) if not self._settled(row)]
        if not new:
            return
        for row in new:
            self.marks[row.stream] = Watermark(row.stream_id, row.seq, row.event_no, row.first_seq)
            self.kept.add((row.stream, row.position))
        if not self.by_delta_rs:
            batch, added = self.owner.note.batch + 1, Counter(row.stream for row in new)
            files = self._staged(new, batch)
            based = self._based(new, batch)
            for file in based:
                added[file.stream] += file.rows
            self.owner.append([*files, *based], self._note(Op.APPEND, added, batch))
            return
        gathered = list(zip(*map(settled_values, new), strict=True))
        table = pa.table(
            [pa.array(column, one.type) for column, one in zip(gathered, MESSAGES_SCHEMA, strict=True)],
            schema=MESSAGES_SCHEMA,
        )
        write_deltalake(
            str(self.data / "messages"),
            table,
            mode="append",
            partition_by=list(MESSAGES_PARTITION_COLUMNS),
            commit_properties=_properties(self._note(Op.APPEND, Counter(row.stream for row in new), self._batch + 1)),
        )

        self._batch += 1

    def apply_limits(self) -> None:
        """Delete from ``messages`` what the recorded effects up to the watermark remove."""
        for stream, mark in self.marks.items():
            rows = [row for row in self.rows if row.stream == stream and self._settled(row)]
            live = live_sequences([row for row in rows if row.stream_id == mark.stream_id])
            dead = [row for row in rows if row.kind == Kind.MESSAGE and row.seq not in live]
            if dead:
                self.kept -= {(stream, row.position) for row in dead}
                self._delete(stream, {row.seq for row in dead})

    def compact(self) -> None:
        """Rewrite small files into larger ones."""
        if self.by_delta_rs:
            note = _properties(self._note(Op.COMPACT))
            DeltaTable(str(self.data / "messages")).optimize.compact(commit_properties=note)
            return
        folders = Counter((file.stream, file.subject_partition) for file in self.owner.snapshot.files.values())
        small = {
            path for path, file in self.owner.snapshot.files.items() if folders[file.stream, file.subject_partition] > 1
        }
        if small:
            rows = [row for path in sorted(small) for row in self._rows_in[path]]
            self.owner.rewrite(Op.COMPACT, small, self._staged(rows, self.owner.note.batch))

    def truncate(self) -> None:
        """Remove files whose rows are all settled from the journal and the disk."""
        self.journal.truncate({stream: mark.position for stream, mark in self.marks.items()})
        self.journal.delete_removed(grace_seconds=0)

    @property
    def owner(self) -> SettledOwner:
        """The claimed owner of ``messages``."""
        if self._owner is None:
            storage = self._storage(MESSAGES_FOLDER)
            self._owner = open_owner(storage, SystemClock(), horizon_seconds=self.horizon_seconds)
        return self._owner

    def _storage(self, table: str) -> Storage:
        return open_storage(self.location.table(table), self.location.options)

    def _staged(self, rows: Sequence[Row], batch: int) -> list[StagedFile]:
        files = stage(self.owner.storage, rows, Writing(self.owner.epoch, batch))
        for file in files:
            self._rows_in[file.path] = [row for row in rows if place_of(row) == (file.stream, file.subject_partition)]
        return files

    def _based(self, new: Sequence[Row], batch: int) -> list[StagedFile]:
        """Write the files that branches among new rows begin with, as the settle job does."""
        told = tuple(told_by(row.position, row.stream, row.data) for row in new if row.kind == Kind.STREAM)
        if not any(one.base for one in told):
            return []
        writing = Writing(self.owner.epoch, batch)
        storage = self.owner.storage
        staging = Staging(storage.uri, storage.options, writing, frozenset(), str(self.data))
        files = with_bases(BatchReport(told=told), staging, storage, self.owner.snapshot.files).files
        for file in files:
            table = decode(storage.read(file.path), file.stream, file.subject_partition).select(Row._fields)
            self._rows_in[file.path] = rows = [Row(*values) for values in zip(*table.to_pydict().values(), strict=True)]
            self.rows += rows
            self.kept.update((row.stream, row.position) for row in rows)
            self.based += 1
        return list(files)

    def _delete(self, stream: str, dead: AbstractSet[int]) -> None:
        """Delete messages of one stream in one commit."""
        if self.by_delta_rs:
            chosen = ",".join(map(str, sorted(dead)))
            DeltaTable(str(self.data / "messages")).delete(
                f"stream = '{stream}' AND kind = 'message' AND seq IN ({chosen})",
                commit_properties=_properties(self._note(Op.LIMITS)),
            )
            return

        def is_dead(row: Row) -> bool:
            return row.stream == stream and row.kind == Kind.MESSAGE and row.seq in dead

        held = {path: self._rows_in[path] for path in self.owner.snapshot.files}
        touched = {path for path, rows in held.items() if any(map(is_dead, rows))}
        rows = [row for path in sorted(touched) for row in held[path]]
        alive = [row for row in rows if not is_dead(row)]
        if touched:
            files = self._staged(alive, self.owner.note.batch)
            self.owner.rewrite(Op.LIMITS, touched, files, deleted=len(rows) - len(alive))

    def _settled(self, row: Row) -> bool:
        mark = self.marks.get(row.stream)
        return mark is not None and row.position <= mark.position

    def _note(self, op: Op, added: Mapping[str, int] | None = None, batch: int | None = None) -> CommitNote:
        claim = Claim(len(self.kept), added or {}) if self.claims else None
        return CommitNote(op, dict(self.marks), self._batch if batch is None else batch, claim)


def _properties(note: CommitNote) -> CommitProperties:
    done = [Transaction(APP_ID, note.batch)] if note.op is Op.APPEND else None
    return CommitProperties(custom_metadata={"userMetadata": note.as_json()}, app_transactions=done)


def sequence_before(past: PointInTime, stream: str, ts_ns: int) -> int:
    """The last sequence stored before a time, removed messages included; 0 for none."""
    return past.with_view(stream, lambda view: past.sequence_before(view, ts_ns))


def live_sequences(rows: Iterable[Row], up_to_seq: int = 1 << 62) -> set[int]:
    """Return the live sequences of one incarnation at a point, row by row: slow and obvious."""
    rows = list(rows)
    events = [
        EventRow(row.seq, row.event_no, row.kind, row.first_seq, row.data, row.ts_ns)
        for row in rows
        if row.kind != Kind.MESSAGE
    ]
    live: set[int] = set()
    for row in rows:
        if row.seq > up_to_seq or (row.seq == up_to_seq and row.kind != Kind.MESSAGE):
            continue
        if row.kind == Kind.MESSAGE:
            live.add(row.seq)
            live.discard(row.evicts)
        for low, high in cut_at(row.seq + 1, first_seq=0, events=[e for e in events if e[:2] == row[2:4]]).removed:
            live -= set(range(low, high + 1))
        live = {seq for seq in live if seq >= row.first_seq}
    for low, high in cut_at(0, first_seq=0, events=events).removed:
        live -= set(range(low, high + 1))
    return live


def live_before(rows: Iterable[Row], ts_ns: int) -> set[int]:
    """Return the live sequences of one incarnation at a time."""
    rows = list(rows)
    return live_after(rows, sum(row.ts_ns < ts_ns for row in rows))


def live_after(rows: Sequence[Row], number: int) -> set[int]:
    """Return the live sequences of one incarnation after its first rows, in order, but for those erased later."""
    live = live_sequences(rows[:number])
    later = [read_removal(row.data)[0] for row in rows[number:] if row.kind == Kind.REMOVE]
    erased = [one for removal in later if removal.erase for one in removal.ranges]
    return {seq for seq in live if not any(low <= seq <= high for low, high in erased)}


@dataclass(slots=True)
class History:
    """A stream whose rows are decided as by the gateway: limits recorded on rows; deletes, purges, expiry as events."""

    stream: str = "S"
    stream_id: int = 0
    """Derived from the name by default."""
    per_subject: int = -1
    max_msgs: int = -1
    rows: list[Row] = field(default_factory=list)
    live: dict[int, str] = field(default_factory=dict)
    seq: int = 0
    event_no: int = 0
    now_ns: int = START_NS

    def __post_init__(self) -> None:
        self.stream_id = self.stream_id or START_NS - (self.stream != "S") * crc32(self.stream.encode())

    def create(self, **fields: object) -> Row:
        """Return the stream's creation event; ``fields`` of its configuration may be given."""
        self.event_no += 1
        config = StreamConfig(**{"name": self.stream, "subjects": ("s.>",), "allow_direct": True, **fields})
        return self._event(Kind.STREAM, stream_data(config, self.stream_id))

    def publish(
        self, subject: str, data: bytes = b"", *, headers: bytes | None = None, msg_id: str | None = None
    ) -> Row:
        """Store a message; the removals by limits are recorded on its row."""
        self.seq += 1
        self.now_ns += 10
        self.live[self.seq] = subject
        mine = [seq for seq, name in self.live.items() if name == subject]
        evicts = mine[0] if 0 < self.per_subject < len(mine) else 0
        self.live.pop(evicts, None)
        while 0 < self.max_msgs < len(self.live):
            self.live.pop(min(self.live))
        data = data or f"{self.stream}/{self.seq}".encode()
        crc = checksum(subject, headers, data)
        row = Row(
            self.stream, self.stream_id, self.seq, self.event_no, Kind.MESSAGE.value, subject, self.now_ns, msg_id,
            self.first_seq, evicts, headers, data, crc,
        )  # fmt: skip
        self.rows.append(row)
        return row

    def remove(self, seqs: Sequence[int], reason: str, *, erase: bool) -> Row:
        """Return the event that removes messages."""
        for seq in seqs:
            self.live.pop(seq, None)
        self.event_no += 1
        data = removal_data(Removal([(seq, seq) for seq in seqs], reason, erase), last_ts=self.now_ns)
        return self._event(Kind.REMOVE, data)

    @property
    def first_seq(self) -> int:
        """The first live sequence, or the next one when none is live."""
        return min(self.live, default=self.seq + 1)

    def step(self, dice: random.Random) -> Row:
        """Return a random row, mostly a message."""
        chance = dice.random()
        if chance < 0.08 and self.live:
            return self.remove([dice.choice(list(self.live))], "delete", erase=dice.random() < 0.7)
        if chance < 0.12 and self.live:
            oldest = sorted(self.live)[: dice.randrange(1, 4)]
            return self.remove(oldest, "age", erase=False)
        return self.publish(f"s.{dice.randrange(5)}")

    def _event(self, kind: Kind, data: bytes) -> Row:
        self.now_ns += 1
        place = (self.seq, self.event_no, self.first_seq)
        row = event_row(kind, (self.stream, self.stream_id), place=place, ts_ns=self.now_ns, data=data)
        self.rows.append(row)
        return row


def grown(tmp_path: Path, seed: int) -> tuple[Tables, History]:
    """A history in many commits, settled in many steps, with limits applied now and then and a tail left over."""
    dice = random.Random(seed)
    history = History(per_subject=dice.choice([-1, 1, 2]), max_msgs=dice.choice([-1, 20]))
    other = History(stream="OTHER")
    tables = Tables(tmp_path)
    tables.commit([history.create(), other.create()])
    for _ in range(9):
        rows = [row for _ in range(dice.randrange(1, 9)) for row in (history.step(dice), other.step(dice))]
        tables.commit(rows)
        if dice.random() < 0.8:
            tables.settle(tables.rows[: len(tables.rows) - dice.randrange(0, 5)])
        if dice.random() < 0.5 and tables.marks:
            tables.apply_limits()
        if dice.random() < 0.3 and tables.marks:
            tables.truncate()
        if dice.random() < 0.2 and tables.marks:
            tables.compact()
    return tables, history
