"""Cuts: named points over all streams, each a message of the stream :data:`CUTS` whose subject is the name.

A cut is one instant of the journal's total order, namely its own message's place in it: for each stream it records the
place of the last row before. So a reader sees of every stream just what was committed before the cut, and never an
effect without its cause. Nothing waits for a cut, and nothing is kept for it: reads at it end at the horizon as others.
"""

from typing import Final

from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import last_by_subject
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.cut_record import CUTS, cut_data
from delta_store.values.records import RowColumns

_CONFIG: Final = StreamConfig(CUTS, description="Points over all streams (silt cut)", allow_direct=True)


def take(catalog: Catalog, name: str, *, now_ns: int, rows: RowColumns) -> int:
    """Record where all streams stand, what is too old removed before; return the time of the cut, ns.

    Raises ``ApiRefusal`` when there is a cut of this name.
    """
    if sequence_of(catalog, name):
        raise api_errors.cut_exists(name)
    catalog.require_change()
    catalog.expire(now_ns=now_ns, rows=rows)
    data = cut_data({one: state.position for one, state in catalog.streams.items()})
    state = catalog.streams.get(CUTS) or catalog.create(_CONFIG, now_ns=now_ns, rows=rows)
    return state.store((name, state.index.table.intern(name), None, data, None), now_ns=now_ns, rows=rows)


def drop(catalog: Catalog, name: str, *, now_ns: int, rows: RowColumns) -> None:
    """Forget a cut. Raises ``ApiRefusal`` when there is none of this name."""
    seq = sequence_of(catalog, name)
    if not seq:
        raise api_errors.no_such_cut(name)
    catalog.remove(CUTS, seq, now_ns=now_ns, rows=rows)
    catalog.tidy(catalog.streams[CUTS])


def taken(state: StreamState | None) -> list[tuple[str, int]]:
    """Return the cuts with their times, ns, oldest first; ``state`` is that of the stream, if it exists."""
    if state is None:
        return []
    index = state.index
    seqs = index.live.sequences(1, index.last_seq).tolist()
    return [(index.subject_of(seq) or "", index.live.ts_of(seq)) for seq in seqs]


def sequence_of(catalog: Catalog, name: str) -> int:
    """Return the sequence of a cut's message, 0 when there is none."""
    state = catalog.streams.get(CUTS)
    return last_by_subject(state.index, name) if state is not None else 0
