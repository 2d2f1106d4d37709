"""The settle job's memory of message ids, for a quick check of each batch. Pure.

Ids are kept as 64-bit hashes, so "no duplicate" is certain and "maybe one" calls for the exact rule,
:func:`delta_store.transforms.msg_id_window.dedup_window`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from conf.limits import SETTLE_MSG_IDS_MAX

Int64s = npt.NDArray[np.int64]


class MsgIdGuard:
    """Hashes of recent message ids over all streams; bounded, the oldest are dropped first."""

    def __init__(self) -> None:
        self._hashes: Int64s = np.empty(0, dtype=np.int64)
        self._times: Int64s = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._hashes)

    def may_repeat(self, hashes: Int64s) -> bool:
        """Whether some id of a batch may occur in it twice, or may be remembered."""
        if len(np.unique(hashes)) < len(hashes):
            return True
        return bool(np.isin(hashes, self._hashes).any())

    def remember(self, hashes: Int64s, ts_ns: Int64s, *, window_ns: int) -> None:
        """Add a batch's ids, and drop those that are older than every window.

        ``window_ns`` is the longest window of all streams: an id that is kept too long costs only an exact check.
        """
        times = np.concatenate((self._times, ts_ns))
        known = np.concatenate((self._hashes, hashes))
        recent = times > times.max(initial=0) - window_ns
        self._hashes, self._times = known[recent][-SETTLE_MSG_IDS_MAX:], times[recent][-SETTLE_MSG_IDS_MAX:]


def as_int64s(column: Any) -> Int64s:
    """Convert an Arrow column of integers to numpy."""
    values: Int64s = column.to_numpy()
    return values
