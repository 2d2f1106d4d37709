"""Counts of dead rows that are not deleted yet, which tell when deleting pays; also of those dead at a version. Pure.

Messages below a stream's first sequence leave with their files, at the price of a log entry. Messages that were removed
one by one are scattered among live ones, so their files are rewritten: that pays when they are many. Rows of consumers
are superseded by later ones, and all of them are read at each start.
"""

from dataclasses import dataclass, field

from delta_store.values.watermark import Watermarks

FRONT_ROWS_MIN = 100_000
"""Rows below their stream's first sequence that are worth a commit between two rounds."""
SCATTERED_ROWS_MIN = 50_000
"""Fewer scattered dead rows wait for the next round."""
SCATTERED_SHARE = 0.5
"""Share of dead rows at which a table is rewritten early: reads then cost at most about twice the live rows."""

CONSUMER_ROWS_MIN = 20_000
CONSUMER_BYTES_MIN = 64 * 1024 * 1024
"""Rows of consumers, and their bytes, that do not wait for the next round."""


@dataclass(slots=True)
class Debt:
    """The dead rows since this process started; the first round finds those of an earlier one."""

    rows: int
    """Rows in the table, dead ones included."""
    firsts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per stream (stream_id, first_seq) when dead files were last dropped."""
    removals: dict[int, int] = field(default_factory=dict)
    """By the version that told of them: messages that were removed one by one and are not deleted yet."""
    consumer_rows: int = 0
    """Rows of consumers that were appended since the superseded ones were last deleted."""
    consumer_bytes: int = 0

    def note_batch(self, rows: int, *, scattered: int, version: int, watermarks: Watermarks) -> None:
        """Count a batch of ``rows`` that ``version`` has and that removes ``scattered`` messages one by one."""
        self.rows += rows
        if scattered:
            self.removals[version] = scattered
        for stream, mark in watermarks.items():
            self.firsts.setdefault(stream, (mark.stream_id, mark.first_seq))

    def note_consumers(self, rows: int, size: int) -> None:
        """Count appended rows of consumers, of ``size`` bytes."""
        self.consumer_rows += rows
        self.consumer_bytes += size

    def note_consumers_rewritten(self) -> None:
        """Reset the count of rows of consumers: the superseded ones were deleted."""
        self.consumer_rows = self.consumer_bytes = 0

    def note_dropped(self, rows: int, watermarks: Watermarks) -> None:
        """Subtract the rows of dropped files, which these watermarks let go."""
        self.rows -= rows
        self.firsts = {stream: (mark.stream_id, mark.first_seq) for stream, mark in watermarks.items()}

    def note_rewritten(self, rows: int, *, version: int) -> None:
        """Forget the scattered rows that were dead at a version, which were deleted; ``rows`` are left."""
        self.rows = rows
        self.removals = {later: number for later, number in self.removals.items() if later > version}

    def scattered(self, version: int) -> int:
        """Return how many messages were removed one by one up to a version and are not deleted yet."""
        return sum(number for told, number in self.removals.items() if told <= version)

    def front_pays(self, watermarks: Watermarks) -> bool:
        """Whether the files that are dead by these watermarks should be dropped before the next round."""
        front = 0
        for stream, mark in watermarks.items():
            stream_id, first = self.firsts.get(stream, (mark.stream_id, mark.first_seq))
            front += mark.first_seq - first if stream_id == mark.stream_id else FRONT_ROWS_MIN
        return front >= FRONT_ROWS_MIN

    def scattered_pays(self, version: int) -> bool:
        """Whether what was dead at a version should be deleted before the next round."""
        return self.scattered(version) >= max(SCATTERED_ROWS_MIN, self.rows * SCATTERED_SHARE)

    @property
    def consumers_pay(self) -> bool:
        """Whether superseded rows of consumers should be deleted before the next round."""
        return self.consumer_rows >= CONSUMER_ROWS_MIN or self.consumer_bytes >= CONSUMER_BYTES_MIN
