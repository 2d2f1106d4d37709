"""A store whose journal is filled by the gateway's own decisions and settled by the settle job's own parts."""

from itertools import count
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

from conf.clock import SystemClock
from delta_store.config.stream_config import StreamConfig
from delta_store.journal.journal import Journal
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settling.journal_source import JournalSource
from delta_store.settling.journal_stream import JournalStreamReader
from delta_store.settling.maintenance import Maintenance
from delta_store.settling.settle_batch import SettleBatch
from delta_store.settling.settle_query import start_settling
from delta_store.settling.upkeep_pace import Schedule
from delta_store.storage.open_storage import open_storage
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import NewMessage
from delta_store.values.records import Position, RowColumns
from tests.tables import marks_of

SECOND = 1_000_000_000
START_NS = 1_760_000_000 * SECOND
_checkpoints = count()


class Publisher:
    """Fills a journal's rows by deciding what a gateway would."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.rows = RowColumns()
        self.now_ns = START_NS

    def create(self, name: str, **config: object) -> None:
        """Create a stream that takes ``<name>.>``, with other fields of its configuration as given."""
        self.catalog.create(self.config(name, **config), now_ns=self.tick(), rows=self.rows)

    @staticmethod
    def config(name: str, **config: object) -> StreamConfig:
        """A configuration of a stream that takes ``<name>.>``, or the subjects given."""
        return StreamConfig(**{"name": name, "subjects": (f"{name}.>",), **config})

    def tick(self, ns: int = SECOND) -> int:
        """Let time pass."""
        self.now_ns += ns
        return self.now_ns

    def publish(
        self, name: str, token: str, data: bytes = b"x", *, msg_id: str | None = None, headers: bytes | None = None
    ) -> int:
        """Store one message of subject ``<name>.<token>`` (or ``token`` if it begins with $); returns its sequence."""
        state = self.catalog.streams[name]
        headers = f"NATS/1.0\r\nNats-Msg-Id: {msg_id}\r\n\r\n".encode() if msg_id else headers
        message = self._message(name, token, data, headers)._replace(msg_id=msg_id)
        state.store(message, now_ns=self.now_ns, rows=self.rows)
        return state.index.last_seq

    def roll_up(
        self, name: str, token: str, data: bytes = b"x", *, headers: bytes | None = None, whole: bool = False
    ) -> None:
        """Store a message in the place of all others of its subject, or of the ``whole`` stream."""
        message = self._message(name, token, data, headers)
        self.catalog.streams[name].roll_up(message, whole=whole, now_ns=self.tick(), rows=self.rows)

    def _message(self, name: str, token: str, data: bytes, headers: bytes | None) -> NewMessage:
        subject = token if token.startswith("$") else f"{name}.{token}"
        return NewMessage(subject, self.catalog.streams[name].index.table.intern(subject), headers, data, None)

    def live(self, name: str) -> list[int]:
        """The sequences that JetStream would show, by the in-memory rules."""
        index = self.catalog.streams[name].index
        return index.live.sequences(index.first_seq, index.last_seq).tolist()


class Store(Publisher):
    """A publisher with a data folder, and all that settles it."""

    def __init__(self, spark: SparkSession, data: Path, *, horizon_seconds: float = 7 * 24 * 3600.0) -> None:
        super().__init__()
        self.spark, self.data = spark, data
        data.mkdir(parents=True, exist_ok=True)
        self.journal = Journal.open(open_storage(str(data / "journal")), shard="0", clock=SystemClock())
        self.journal.claim()
        self.schedule = Schedule(compact_interval_seconds=0, vacuum_interval_seconds=0)
        self.horizon_seconds = horizon_seconds
        self.start()

    def start(self) -> None:
        """Make the settle job's parts, as a process that has just been started."""
        self.sink = SettleBatch(str(self.data / "messages"), horizon_seconds=self.horizon_seconds)
        self.maintenance = Maintenance(self.spark, self.sink, schedule=self.schedule, clock=SystemClock())

    @property
    def owner(self) -> SettledOwner:
        """The owner of ``messages``."""
        with self.sink.lock:
            return self.sink.progress().owner

    def all_rows(self, *, where: str = "true") -> DataFrame:
        """The rows of ``messages``, as Spark reads them."""
        return self.sink.rows(self.spark).where(where)

    def consumer_rows(self) -> DataFrame:
        """The settled rows of consumers."""
        return self.all_rows(where="subject_partition = '$consumers'")

    def folders(self) -> set[tuple[str | None, str | None]]:
        """Stream and subject partition of the files of ``messages``."""
        return {(file.stream, file.subject_partition) for file in self.owner.snapshot.files.values()}

    def commit(self) -> int:
        """Make what was decided durable, as one group; returns the journal's version."""
        rows, self.rows = self.rows, RowColumns()
        marks = {
            name: {"id": mark.stream_id, "seq": mark.seq, "event": mark.event_no, "first": mark.first_seq}
            for name, mark in marks_of(self.catalog).items()
        }
        return self.journal.commit(rows, marks)

    def settle(self, *, fresh: bool = False) -> None:
        """Commit what is open, then settle all there is; ``fresh`` as a process that has just been started.

        Without the query around the batch, which takes seconds to start.
        """
        if len(self.rows):
            self.commit()
        if fresh:
            self.start()
        marks = self.sink.progress().watermarks
        reader = JournalStreamReader(self.source.reader_options(marks, ends=True))
        start, end = reader.initialOffset(), reader.latestOffset()
        for number, partition in enumerate(reader.partitions(start, end)):
            files = pa.Table.from_batches(reader.read(partition))
            if files.num_rows:
                self.sink(self.spark.createDataFrame(files), number)

    def files(self) -> DataFrame:
        """The files of the journal, as the source of a query has them."""
        reader = JournalStreamReader(self.source.reader_options({}, ends=True))
        [partition] = reader.partitions(reader.initialOffset(), reader.latestOffset())
        return self.spark.createDataFrame(pa.Table.from_batches(reader.read(partition)))

    def settle_by_query(self) -> None:
        """Do the same by a query of the settle job's."""
        checkpoint = (self.data / "checkpoints" / str(next(_checkpoints))).as_uri()
        start_settling(self.source, self.sink, checkpoint=checkpoint, interval_seconds=None).awaitTermination()

    @property
    def source(self) -> JournalSource:
        """The journal as the settle job reads it."""
        return JournalSource(self.spark, str(self.data / "journal"))

    def truncate(self) -> int:
        """Take settled files out of the journal and delete them at once."""
        marks = self.owner.note.watermarks
        settled = {name: Position(mark.stream_id, mark.seq, mark.event_no) for name, mark in marks.items()}
        taken = self.journal.truncate(settled)
        self.journal.delete_removed(grace_seconds=0)
        return taken

    def settled(self, name: str, *columns: str) -> list[SparkRow]:
        """Rows of a stream in ``messages``, events first, in order of sequence."""
        rows = self.all_rows(where=f"stream = '{name}'").orderBy("seq", "event_no")
        return rows.select(*columns).collect()

    def settled_seqs(self, name: str) -> list[int]:
        """Sequences of the settled message rows, in order."""
        rows = self.all_rows(where=f"stream = '{name}' AND kind = 'message'")
        return [row["seq"] for row in rows.select("seq").orderBy("seq").collect()]
