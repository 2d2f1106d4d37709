"""When deleting pays, and what the settle job remembers of message ids."""

import numpy as np

from conf import limits
from delta_store.settling import msg_id_guard
from delta_store.settling.msg_id_guard import MsgIdGuard
from delta_store.settling.settle_debt import (
    CONSUMER_BYTES_MIN,
    CONSUMER_ROWS_MIN,
    FRONT_ROWS_MIN,
    SCATTERED_ROWS_MIN,
    Debt,
)
from delta_store.values.watermark import Watermark


def test_front_pays_by_rows_and_by_incarnation() -> None:
    """A front that moved far is worth a commit, and a stream that was made anew; not before they may be deleted."""
    debt = Debt(0)
    began = {"A": Watermark(1, 10, 1, 1)}
    debt.note_batch(10, scattered=0, version=1, watermarks=began)
    assert not debt.front_pays(began)
    moved = {"A": Watermark(1, 10, 1, FRONT_ROWS_MIN + 1)}
    debt.note_batch(10, scattered=0, version=2, watermarks=moved)
    assert debt.front_pays(moved)
    assert not debt.front_pays(began)
    debt.note_dropped(5, moved)
    assert not debt.front_pays(moved)
    assert debt.rows == 15
    anew = {"A": Watermark(2, 1, 1, 1)}
    debt.note_batch(1, scattered=0, version=3, watermarks=anew)
    assert debt.front_pays(anew)


def test_scattered_pays_by_share() -> None:
    """A rewrite waits until enough is dead, in rows and in proportion, at the version by which rows may be deleted."""
    debt = Debt(10)
    debt.note_batch(10, scattered=SCATTERED_ROWS_MIN - 1, version=1, watermarks={})
    assert not debt.scattered_pays(1)
    debt.note_batch(10, scattered=1, version=2, watermarks={})
    assert debt.scattered_pays(2)
    assert not debt.scattered_pays(1)
    debt.note_rewritten(10, version=1)
    assert debt.scattered(2) == 1
    debt.note_rewritten(10, version=2)
    assert debt.scattered(2) == 0
    debt.note_batch(10 * SCATTERED_ROWS_MIN, scattered=SCATTERED_ROWS_MIN, version=3, watermarks={})
    assert not debt.scattered_pays(3)


def test_consumers_pay_by_rows_and_by_bytes() -> None:
    """Superseded rows about consumers go when they are many, or large."""
    debt = Debt(0)
    debt.note_consumers(CONSUMER_ROWS_MIN - 1, CONSUMER_BYTES_MIN - 1)
    assert not debt.consumers_pay
    debt.note_consumers(1, 0)
    assert debt.consumers_pay
    debt.note_consumers_rewritten()
    assert (debt.consumer_rows, debt.consumers_pay) == (0, False)
    debt.note_consumers(1, CONSUMER_BYTES_MIN)
    assert debt.consumers_pay


def test_guard_suspects_repeats_only(monkeypatch: object) -> None:
    """Ids of the batch and of the window are found again; those beyond the window and the bound are forgotten."""
    guard = MsgIdGuard()
    ids = np.arange(5)
    assert not guard.may_repeat(ids)
    assert guard.may_repeat(np.array([1, 1]))
    guard.remember(ids, ids * 10, window_ns=25)
    assert len(guard) == 3
    assert guard.may_repeat(np.array([4]))
    assert not guard.may_repeat(np.array([1]))
    monkeypatch.setattr(msg_id_guard, "SETTLE_MSG_IDS_MAX", 2)
    guard.remember(np.array([9]), np.array([41]), window_ns=100)
    assert len(guard) == 2
    assert limits.SETTLE_MSG_IDS_MAX > 2
