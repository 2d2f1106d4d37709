"""Batch and streaming readers: plans on the driver, files read by the tasks, Arrow batches out.

Nothing is kept on the driver but how far a query has read: a task opens the tables' files by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition

from api.spark.columns import batches_of, sources_of
from api.spark.offsets import BatchStep, Offset, Place, advanced, initial, steps
from api.spark.pushdown import Pushed, pushed
from api.spark.read_options import ReadOptions
from conf.data_location import DataLocation
from delta_store.reading.message_scan import scan
from delta_store.reading.message_slice import MessagesLost, SlicePart, divided
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.reading.state_at import END
from delta_store.values.read_errors import NoSuchStream


class DataLost(Exception):
    """Messages that the query was to read are no longer there."""

    def __init__(self, lost: MessagesLost) -> None:
        super().__init__(
            f"{lost}. To go on without them set the option failOnDataLoss to false; to read them in time, "
            "run the query more often, or let the stream keep more"
        )


PLANNED_BY_SCAN: Final = hasattr(DataSourceReader, "pushLimit")
"""Whether Spark plans each scan of a Python source by itself.

Spark 4.1 keeps the newest plan, with the filters that were pushed into it, for all scans of a loaded frame: there a
filter of one query would be applied to the next. What came with the pushdown of limits keeps them apart.
"""


class SiltBatchReader(DataSourceReader):
    """Reads the live messages at a point, or the log."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names
        self._pushed = Pushed(options.bounds)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the query; each partition is one task's files."""
        planner, wanted = SlicePlanner.of(self._options.data), self._pushed.streams
        streams = self._options.streams or planner.streams(self._options.filters)
        chosen = [stream for stream in streams if wanted is None or stream in wanted]
        return [InputPartition((part,)) for stream in chosen for part in self._parts(planner, stream)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Return a partition's messages as Arrow batches."""
        return _batches(self._options.data, partition, self._names)

    def _parts(self, planner: SlicePlanner, stream: str) -> list[SlicePart]:
        options, bounds = self._options, self._pushed.bounds
        start = options.start
        if start.ts_ns is not None:
            bounds = bounds._replace(times=(max(bounds.times[0], start.ts_ns), bounds.times[1]))
        if options.live:
            bounds = bounds.within(start.seq or 1, END)
            return planner.live(stream, bounds, options.as_of).parts
        last, before_ns, cut = options.as_of
        if before_ns is not None:
            bounds = bounds._replace(times=(bounds.times[0], min(bounds.times[1], before_ns - 1)))
        if cut is not None:
            last = planner.then(stream, bounds, options.as_of).seq
        first = start.seq or planner.begins(stream)[1]
        bounds = bounds.within(first, END if last is None else last)
        with _losses(fail=options.fail_on_data_loss):
            return planner.log(stream, None, bounds, complete=options.fail_on_data_loss).parts
        return []


class PruningReader(SiltBatchReader):
    """Takes over filters of Spark's, which then reads less and applies less."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take over the filters on sequence, time, subject and stream."""
        self._pushed, left = pushed(self._pushed, filters)
        return left


class SiltStreamReader(DataSourceStreamReader):
    """Reads on from where the query's checkpoint ends."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names
        self._initial: Offset | None = None
        self._reached: Offset | None = None
        """The end of the newest batch; after a restart Spark tells the one in its checkpoint by ``partitions``."""
        self._takes: dict[tuple[str, int], bool] = {}
        """Whether an incarnation of a stream takes subjects that are asked for."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return where a new query begins."""
        if self._initial is None:
            planner = SlicePlanner.of(self._options.data)
            self._initial = initial(
                {name: self._begin(planner, name, end) for name, end in self._ends(planner).items()}
            )
        return dict(self._initial)

    def latestOffset(  # noqa: N802  # Spark's name
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return the end of the next batch: all that is there, or maxMessagesPerTrigger.

        Spark 4.1 gives no arguments; 4.2 tells where the batch starts, and a limit that is not above the option's.
        """
        del limit
        begin: Offset = start or self._reached or self.initialOffset()
        ends = self._ends(SlicePlanner.of(self._options.data))
        return dict(advanced(begin, ends, most=self._options.max_messages))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan a batch; planned again after a restart it has the same messages, and each in the same partition."""
        self._reached = end
        planner, most = SlicePlanner.of(self._options.data), self._options.partition_messages
        return [
            InputPartition(parts)
            for step in steps(start, end)
            for parts in divided(self._parts(planner, step), step.after, step.last, most)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return a partition's messages as Arrow batches."""
        return _batches(self._options.data, partition, self._names)

    def _ends(self, planner: SlicePlanner) -> dict[str, Place]:
        """Return how far each stream that is asked for reaches."""
        ends = {name: Place(*end) for name, end in planner.ends().items()}
        if self._options.streams:
            missing = [name for name in self._options.streams if name not in ends]
            if missing and self._options.fail_on_data_loss:
                raise NoSuchStream(missing[0])
            return {name: ends[name] for name in self._options.streams if name in ends}
        if any((name, end.stream_id) not in self._takes for name, end in ends.items()):
            taking = frozenset(planner.streams(self._options.filters))
            self._takes = {(name, end.stream_id): name in taking for name, end in ends.items()}
        return {name: end for name, end in ends.items() if self._takes[name, end.stream_id]}

    def _begin(self, planner: SlicePlanner, stream: str, end: Place) -> Place:
        start = self._options.start
        if start.latest:
            return end
        stream_id, first = planner.begins(stream, start.ts_ns)
        return Place(stream_id, (start.seq or first) - 1)

    def _parts(self, planner: SlicePlanner, step: BatchStep) -> list[SlicePart]:
        bounds, fail = self._options.bounds.within(step.after + 1, step.last), self._options.fail_on_data_loss
        with _losses(fail=fail):
            if fail and step.before_id not in (None, step.stream_id):
                raise MessagesLost(step.stream, 1, "the stream has been deleted and created anew")
            if self._options.live:
                return planner.live_in_log(step.stream, step.stream_id, bounds).parts
            return planner.log(step.stream, step.stream_id, bounds, complete=fail).parts
        return []


@contextmanager
def _losses(*, fail: bool) -> Iterator[None]:
    """Turn lost messages into the query's error, or pass over them."""
    try:
        yield
    except MessagesLost as lost:
        if fail:
            raise DataLost(lost) from lost


def _batches(data: DataLocation, partition: InputPartition | None, names: Sequence[str]) -> Iterator[Any]:
    if partition is None:  # a query that nothing can match has one task all the same
        return
    parts: tuple[SlicePart, ...] = partition.value
    for part in parts:
        for table in scan(data, part, sources_of(names)):
            yield from batches_of(part.stream, names, table)
