"""Files of which every row belongs to a part of a slice, told by their footers: their rows need not be read."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from delta_store.entries.settled_log import Int64s
from delta_store.reading.message_slice import SlicePart
from delta_store.reading.state_at import inside_ranges
from delta_store.values.records import Kind

_LOOKED_AT: Final = ("stream_id", "kind", "seq", "ts_ns")


def belongs(metadata: pq.FileMetaData, part: SlicePart, evicted: Int64s, read: Callable[[], Int64s]) -> bool:
    """Whether all rows of a settled file belong to a part, of whose messages these are evicted.

    ``read`` returns the file's sequences, where its bounds leave the answer open.
    """
    ends = _ends(metadata)
    if ends is None or not part.bounds.any_subject:
        return False
    (first, last), (early, late) = part.bounds.seqs, part.bounds.times
    low, high = ends["seq"]
    inside = first <= low and high <= last and early <= ends["ts_ns"][0] and ends["ts_ns"][1] <= late
    message = Kind.MESSAGE.value
    if not inside or ends["stream_id"] != (part.stream_id, part.stream_id) or ends["kind"] != (message, message):
        return False
    removed = tuple(one for one in part.removed if one[0] <= high and one[1] >= low)
    gone = evicted[(evicted >= low) & (evicted <= high)]
    if not removed and not len(gone):
        return True
    seqs = read()
    return not bool(np.isin(seqs, gone).any() or (removed and inside_ranges(seqs, removed).any()))


def _ends(metadata: pq.FileMetaData) -> dict[str, tuple[Any, Any]] | None:
    """Return the lowest and highest values of the columns that decide; None where they are not told."""
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    found = {}
    for name in _LOOKED_AT:
        groups = (metadata.row_group(number).column(places[name]) for number in range(metadata.num_row_groups))
        told = [group.statistics for group in groups]
        if not told or not all(one is not None and one.has_min_max and not one.null_count for one in told):
            return None
        found[name] = (min(one.min for one in told), max(one.max for one in told))
    return found
