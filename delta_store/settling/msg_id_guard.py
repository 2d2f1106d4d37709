"""The settle job's memory of message ids: cheap enough to ask for each batch, exact enough to be worth it.

Ids are remembered as 64-bit hashes, so the answer "none is repeated" is certain and "one may be" calls for the exact
rule, :func:`delta_store.transforms.msg_id_window.dedup_window`. Pure.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from conf.limits import SETTLE_MSG_IDS_MAX

Int64s = npt.NDArray[np.int64]


class MsgIdGuard:
    """Hashes of the message ids of the last while, over all streams; bounded, the oldest are forgotten first."""

    def __init__(self) -> None:
        self._hashes: Int64s = np.empty(0, dtype=np.int64)
        self._times: Int64s = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._hashes)

    def may_repeat(self, hashes: Int64s) -> bool:
        """Whether some id of a batch may be in it twice, or may be remembered."""
        if len(np.unique(hashes)) < len(hashes):
            return True
        return bool(np.isin(hashes, self._hashes).any())

    def remember(self, hashes: Int64s, ts_ns: Int64s, *, window_ns: int) -> None:
        """Take in a batch's ids, and forget those that no window reaches any more.

        ``window_ns`` is the longest window of all streams: remembering an id too long costs only a closer look.
        """
        times = np.concatenate((self._times, ts_ns))
        known = np.concatenate((self._hashes, hashes))
        recent = times > times.max(initial=0) - window_ns
        self._hashes, self._times = known[recent][-SETTLE_MSG_IDS_MAX:], times[recent][-SETTLE_MSG_IDS_MAX:]


def as_int64s(column: Any) -> Int64s:
    """An Arrow column of integers as numpy has them."""
    values: Int64s = column.to_numpy()
    return values
