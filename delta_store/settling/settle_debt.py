"""What settling has recorded as dead and not yet deleted: pure bookkeeping that says when deleting pays.

Messages below a stream's first sequence leave with their files, at the price of a log entry. Messages that were
removed one by one lie scattered among live ones, so their files are rewritten: worth it when they are many. Rows about
consumers are superseded by later ones, and all of them are read at each start.
"""

from dataclasses import dataclass, field

from delta_store.values.watermark import Watermarks

FRONT_ROWS_MIN = 100_000
"""Dead rows in front that are worth a commit between two rounds."""
SCATTERED_ROWS_MIN = 50_000
"""Fewer scattered dead rows wait for the next round."""
SCATTERED_SHARE = 0.5
"""Share of dead rows at which a table is rewritten early: what is read is then at most about twice what lives."""

CONSUMER_ROWS_MIN = 20_000
CONSUMER_BYTES_MIN = 64 * 1024 * 1024
"""Rows about consumers, and their bytes, that do not wait for the next round."""


@dataclass(slots=True)
class Debt:
    """Counted since this process started; what an earlier one left is found by the first round."""

    rows: int
    """Rows in the table, dead ones included."""
    firsts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per stream (stream_id, first_seq) as of the last time dead files were dropped."""
    front: int = 0
    scattered: int = 0
    consumer_rows: int = 0
    """Rows about consumers that were appended since the superseded ones were last deleted."""
    consumer_bytes: int = 0

    def note_batch(self, rows: int, *, scattered: int, watermarks: Watermarks) -> None:
        """A batch was appended that removes ``scattered`` messages one by one."""
        self.rows += rows
        self.scattered += scattered
        self.front = 0
        for stream, mark in watermarks.items():
            stream_id, first = self.firsts.setdefault(stream, (mark.stream_id, mark.first_seq))
            same = stream_id == mark.stream_id
            self.front += mark.first_seq - first if same else FRONT_ROWS_MIN

    def note_consumers(self, rows: int, size: int) -> None:
        """A batch was appended that holds rows about consumers, of ``size`` bytes."""
        self.consumer_rows += rows
        self.consumer_bytes += size

    def note_consumers_rewritten(self) -> None:
        """Superseded rows about consumers were deleted."""
        self.consumer_rows = self.consumer_bytes = 0

    def note_dropped(self, rows: int, watermarks: Watermarks) -> None:
        """Files of dead rows have left the table."""
        self.rows -= rows
        self.front = 0
        self.firsts = {stream: (mark.stream_id, mark.first_seq) for stream, mark in watermarks.items()}

    def note_rewritten(self, rows: int) -> None:
        """Scattered dead rows were deleted; ``rows`` are left."""
        self.rows, self.scattered = rows, 0

    @property
    def front_pays(self) -> bool:
        """Whether dead files should be dropped before the next round."""
        return self.front >= FRONT_ROWS_MIN

    @property
    def consumers_pay(self) -> bool:
        """Whether superseded rows about consumers should be deleted before the next round."""
        return self.consumer_rows >= CONSUMER_ROWS_MIN or self.consumer_bytes >= CONSUMER_BYTES_MIN

    @property
    def scattered_pays(self) -> bool:
        """Whether the scattered dead should be deleted before the next round."""
        return self.scattered >= max(SCATTERED_ROWS_MIN, self.rows * SCATTERED_SHARE)
