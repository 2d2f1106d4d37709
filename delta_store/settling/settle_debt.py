"""Counts of dead rows that are not deleted yet, which tell when deleting pays. Pure.

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
    front: int = 0
    scattered: int = 0
    consumer_rows: int = 0
    """Rows of consumers that were appended since the superseded ones were last deleted."""
    consumer_bytes: int = 0

    def note_batch(self, rows: int, *, scattered: int, watermarks: Watermarks) -> None:
        """Count an appended batch of ``rows`` that removes ``scattered`` messages one by one."""
        self.rows += rows
        self.scattered += scattered
        self.front = 0
        for stream, mark in watermarks.items():
            stream_id, first = self.firsts.setdefault(stream, (mark.stream_id, mark.first_seq))
            same = stream_id == mark.stream_id
            self.front += mark.first_seq - first if same else FRONT_ROWS_MIN

    def note_consumers(self, rows: int, size: int) -> None:
        """Count appended rows of consumers, of ``size`` bytes."""
        self.consumer_rows += rows
        self.consumer_bytes += size

    def note_consumers_rewritten(self) -> None:
        """Reset the count of rows of consumers: the superseded ones were deleted."""
        self.consumer_rows = self.consumer_bytes = 0

    def note_dropped(self, rows: int, watermarks: Watermarks) -> None:
        """Subtract the rows of dropped files."""
        self.rows -= rows
        self.front = 0
        self.firsts = {stream: (mark.stream_id, mark.first_seq) for stream, mark in watermarks.items()}

    def note_rewritten(self, rows: int) -> None:
        """Reset the scattered dead rows, which were deleted; ``rows`` are left."""
        self.rows, self.scattered = rows, 0

    @property
    def front_pays(self) -> bool:
        """Whether dead files should be dropped before the next round."""
        return self.front >= FRONT_ROWS_MIN

    @property
    def consumers_pay(self) -> bool:
        """Whether superseded rows of consumers should be deleted before the next round."""
        return self.consumer_rows >= CONSUMER_ROWS_MIN or self.consumer_bytes >= CONSUMER_BYTES_MIN

    @property
    def scattered_pays(self) -> bool:
        """Whether the scattered dead rows should be deleted before the next round."""
        return self.scattered >= max(SCATTERED_ROWS_MIN, self.rows * SCATTERED_SHARE)
