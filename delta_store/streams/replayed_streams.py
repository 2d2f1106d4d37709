"""Streams that follow the rows that recorded what was decided about them."""

from collections.abc import Mapping, Sequence

from delta_store.streams.replay import replay, restore_watermarks
from delta_store.streams.stream_directory import StreamDirectory
from delta_store.values.records import Row, RowColumns
from delta_store.values.watermark import Watermark


class ReplayedStreams(StreamDirectory):
    """A directory to which rows are applied; applying decides nothing."""

    def apply(self, row: Row) -> None:
        """Replay one row; one that was applied before is passed over."""
        columns = RowColumns()
        columns.append(row)
        replay(self, columns)

    def apply_columns(self, rows: RowColumns, *, sizes: Sequence[int] | None = None) -> None:
        """Replay rows, see :func:`delta_store.streams.replay.replay`."""
        replay(self, rows, sizes=sizes)

    def apply_watermarks(self, watermarks: Mapping[str, Watermark]) -> None:
        """Take over how far settled rows went, see :func:`delta_store.streams.replay.restore_watermarks`."""
        restore_watermarks(self, watermarks)
