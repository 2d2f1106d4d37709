"""The settle job's access to ``messages``: it creates the table, reads its position from it, and commits to it.

Spark is the only committer, one process at a time. Each commit carries a :class:`CommitNote`, complete for all streams.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_store.entries.settled_log import parse_entry
from delta_store.log.settled_durability import make_durable
from delta_store.transforms.row_order import ROW_KEY
from delta_store.values.schemas import (
    CONSUMERS_PARTITION,
    EVENTS_PARTITION,
    MESSAGES_COLUMNS,
    MESSAGES_PARTITION_COLUMNS,
)
from delta_store.values.watermark import Claim, CommitNote, Op

STATISTICS = "stream_id,seq,event_no,kind,subject,ts_ns,msg_id,first_seq,evicts,size"
"""Columns with file statistics: payloads have none, or the log would hold copies of them."""
APP_ID = "silt-settle"
CHECKPOINT_EVERY_COMMITS = 50
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
LONG_FOLDERS = "delta.randomizeFilePrefixes"
NoteOf = Callable[[int], CommitNote]
"""The note of a commit that deletes so many rows."""


class PositionLost(Exception):
    """Another process committed to ``messages``, or a commit's outcome is unknown: the position must be read again."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files and rows of one folder, counted."""

    stream: str
    subject_partition: str
    files: int
    small_files: int
    rows: int
    newest_ns: int


class MessagesTable:
    """The table at ``path``, as one Spark session writes it."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        horizon_seconds: float,
        checkpoint_commits: int = CHECKPOINT_EVERY_COMMITS,
        durable_version: int = -1,
    ) -> None:
        """Take the table as fsynced up to ``durable_version``."""
        self.spark = spark
        self.path = path
        self._checkpoint_commits = checkpoint_commits
        self._durable_version = durable_version
        self._horizon_seconds = int(horizon_seconds)
        self._long_folders = False

    def ensure(self) -> None:
        """Create the table if it is missing; an existing one gets today's properties, such as the horizon."""
        horizon = f"interval {self._horizon_seconds} seconds"
        properties = {
            "delta.enableDeletionVectors": "false",
            "delta.enableChangeDataFeed": "false",
            "delta.checkpointInterval": str(self._checkpoint_commits),
            "delta.enableExpiredLogCleanup": "false",
            "delta.dataSkippingStatsColumns": STATISTICS,
            "delta.logRetentionDuration": horizon,
            "delta.deletedFileRetentionDuration": horizon,
        }
        if DeltaTable.isDeltaTable(self.spark, self.path):
            self._set_changed(properties)
            return
        maker = DeltaTable.create(self.spark).location(self.path).partitionedBy(*MESSAGES_PARTITION_COLUMNS)
        for column in MESSAGES_COLUMNS:
            maker = maker.addColumn(column.name, column.delta_type, comment=column.meaning)
        for name, value in properties.items():
            maker = maker.property(name, value)
        with self._noted(CommitNote(Op.COMPACT, {}, claim=Claim(0, {}))):
            maker.execute()

    def last_note(self, version: int | None = None) -> CommitNote:
        """Return the newest note in the log, up to a version; an empty one without any. Raises ``DamagedData``."""
        log = self._log()
        hadoop = log.newDeltaHadoopConf()
        newest = self.version() if version is None else version
        for older in range(newest, -1, -1):
            path = self._jvm().org.apache.hadoop.fs.Path(log.logPath(), f"{older:020d}.json")
            text = str(log.store().read(path, hadoop).mkString("\n"))
            entry = parse_entry(older, text.encode(), file=str(path.toString()))
            if entry.note is not None:
                return entry.note
        return CommitNote(Op.APPEND, {})

    def version(self) -> int:
        """Return the newest version."""
        return int(self._snapshot().version())

    def rows(self) -> DataFrame:
        """Return all rows of the newest version."""
        return self.spark.read.format("delta").load(self.path)

    def event_rows(self, *, of_consumers: bool = False) -> DataFrame:
        """Return the event rows of the newest version: those of consumers, or all others."""
        return self.rows().where(
            sf.col("subject_partition") == (CONSUMERS_PARTITION if of_consumers else EVENTS_PARTITION)
        )

    def folders(self, small_file_bytes: int = 0) -> list[FolderFiles]:
        """Count each folder's files and rows, from the log alone."""
        grouped = self._files().groupBy(*MESSAGES_PARTITION_COLUMNS)
        counted = grouped.agg(
            sf.count("*").alias("files"),
            sf.count_if(sf.col("size") < small_file_bytes).alias("small_files"),
            sf.sum("rows").alias("rows"),
            sf.coalesce(sf.max("ts_max"), sf.lit(0)).alias("newest_ns"),
        )
        return [FolderFiles(**row.asDict()) for row in counted.collect()]

    def append(self, rows: DataFrame, note: CommitNote) -> None:
        """Append rows in one commit, at most once for the note's batch number.

        Raises :class:`PositionLost` unless exactly this commit is the next version.
        """
        before = self.version()
        writer = rows.write.format("delta").mode("append").option("userMetadata", note.as_json())
        writer = writer.option("txnAppId", APP_ID).option("txnVersion", note.batch)
        writer.partitionBy(*MESSAGES_PARTITION_COLUMNS).save(self.path)
        if self.version() != before + 1:
            raise PositionLost(f"version {before + 1} of {self.path} is not the append of batch {note.batch}")

    def delete_rows(self, keys: DataFrame, note: NoteOf, *, of_consumers: bool = False) -> int:
        """Delete the rows with these (stream, stream_id, seq, event_no) in one commit, rewriting their files.

        Each key occurs once and is in the table. Either all are ``of_consumers`` or none is: the others' files are not
        read. Returns how many there were.
        """
        same = " AND ".join(f"row.{name} = dead.{name}" for name in ROW_KEY)
        same += f" AND row.subject_partition {'=' if of_consumers else '<>'} '{CONSUMERS_PARTITION}'"
        dead = keys.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            number = dead.count()
            if number:
                with self._noted(note(number)):
                    self._delta().alias("row").merge(dead.alias("dead"), same).whenMatchedDelete().execute()
        finally:
            dead.unpersist()
        return number

    def drop_message_files(self, fronts: Mapping[str, tuple[int, int]], note: NoteOf) -> int:
        """Remove whole files from the table without reading them; return how many rows they held.

        ``fronts``: stream to (stream_id, first_seq); files of older incarnations are dead, unless they hold events, and
        so are files of messages below first_seq.
        """
        if not fronts:
            return 0
        values = {stream: {"id": front[0], "first": front[1]} for stream, front in fronts.items()}
        kind = "map<string, struct<id: bigint, first: bigint>>"
        front = sf.from_json(sf.lit(json.dumps(values)), kind)[sf.col("stream")]
        has_messages = sf.col("subject_partition") != CONSUMERS_PARTITION
        dead = (sf.col("stream_id_max") < front["id"]) | ((sf.col("seq_max") < front["first"]) & has_messages)
        named = self._files().where((sf.col("subject_partition") != EVENTS_PARTITION) & dead)
        found = {row["path"]: row["rows"] for row in named.select("path", "rows").collect()}
        if not found:
            return 0
        jvm = self._jvm()
        transaction = self._log().startTransaction()
        removed = jvm.java.util.ArrayList()
        files = transaction.filterFiles().iterator()
        while files.hasNext():
            file = files.next()
            if file.path() in found:
                removed.add(file.remove())
        actions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(removed).toSeq()
        manual = getattr(getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        number: int = sum(found.values())
        with self._noted(note(number)):
            transaction.commit(actions, manual)
        return number

    def compact(self, where: str | None, note: CommitNote) -> None:
        """Merge small files of the folders that ``where`` selects; no row changes."""
        optimizer = self._delta().optimize()
        with self._noted(note):
            (optimizer.where(where) if where else optimizer).executeCompaction()

    def vacuum(self) -> None:
        """Delete files and log entries that no version within the horizon needs, after an fsync of what replaces them.

        Raises :class:`NotDurable`.
        """
        version = self.version()
        make_durable(Path(self.path), self._durable_version, version)
        self._durable_version = version
        self._delta().vacuum(self._horizon_seconds / 3600)
        log, none = self._log(), self._jvm().scala.Option.empty()
        by_day = getattr(log, "cleanUpExpiredLogs$default$4")()
        log.cleanUpExpiredLogs(self._snapshot(), none, none, by_day)

    def allow_long_folders(self) -> None:
        """Randomize folder names from now on: some stream's name is too long for a file system."""
        if not self._long_folders:
            self._set_changed({LONG_FOLDERS: "true"})
            self._long_folders = True

    def _set_changed(self, wanted: dict[str, str]) -> None:
        has = self._delta().detail().select("properties").head()
        changed = {name: value for name, value in wanted.items() if has is None or has[0].get(name) != value}
        if changed:
            pairs = ", ".join(f"'{name}' = '{value}'" for name, value in changed.items())
            last = self.last_note()
            claim = None if last.claim is None else Claim(last.claim.rows, {})
            with self._noted(CommitNote(Op.COMPACT, last.watermarks, last.batch, claim)):
                self.spark.sql(f"ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ({pairs})")

    def _delta(self) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path)

    def _files(self) -> DataFrame:
        """Return a row per file: path, partition values, size (bytes), rows, seq_max, stream_id_max, ts_max."""
        files = DataFrame(self._snapshot().allFiles().toDF(), self.spark)
        stats = sf.from_json(
            "stats", "numRecords bigint, maxValues struct<seq: bigint, stream_id: bigint, ts_ns: bigint>"
        )
        return files.withColumn("said", stats).select(
            "path",
            sf.col("partitionValues")["stream"].alias("stream"),
            sf.col("partitionValues")["subject_partition"].alias("subject_partition"),
            "size",
            sf.coalesce("said.numRecords", sf.lit(0)).alias("rows"),
            sf.col("said.maxValues.seq").alias("seq_max"),
            sf.col("said.maxValues.stream_id").alias("stream_id_max"),
            sf.col("said.maxValues.ts_ns").alias("ts_max"),
        )

    def _jvm(self) -> Any:
        return self.spark._jvm  # noqa: SLF001  # Delta has no Python API for its log

    def _log(self) -> Any:
        session = self.spark._jsparkSession  # noqa: SLF001  # as above
        return self._jvm().org.apache.spark.sql.delta.DeltaLog.forTable(session, self.path)

    def _snapshot(self) -> Any:
        none = self._jvm().scala.Option.empty()
        return self._log().update(False, none, none)

    @contextmanager
    def _noted(self, note: CommitNote) -> Iterator[None]:
        """Add the note to the commits inside; only appends take it as an option."""
        self.spark.conf.set(USER_METADATA, note.as_json())
        try:
            yield
        finally:
            self.spark.conf.unset(USER_METADATA)
