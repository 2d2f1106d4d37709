"""Streams made of a backup or of another one: begun out of sight, shown when whole, deleted where they are not."""

from collections.abc import Mapping
from typing import Any

from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.streams.catalog import Catalog
from delta_store.streams.event_rows import BEGUN, CARRIED, DONE, event_row, stream_data
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Kind, RowColumns


def begin(  # all that a stream begins with
    catalog: Catalog,
    config: StreamConfig,
    *,
    now_ns: int,
    rows: RowColumns,
    resume: str = "",
    limits_later: bool = False,
) -> StreamState:
    """Begin a stream that nobody sees until :func:`show`; raise 10130, 10065 or a limit's error.

    ``resume`` is a word of its sender, by which it may go on if it breaks off. ``limits_later``: the limits that remove
    messages are not applied before it is shown.
    """
    if config.name in catalog.streams or config.name in catalog.restoring:
        raise api_errors.STREAM_NAME_EXISTS_RESTORE.error
    catalog.routes.refuse_overlap(config)
    catalog.account.admit(config)
    catalog.require_change()
    give_up(catalog, config.name, now_ns=now_ns, rows=rows)
    catalog.newest_id = max(now_ns, catalog.newest_id + 1)
    begun = config.without_limits() if limits_later else config
    state = catalog.restoring[config.name] = StreamState(begun, stream_id=catalog.newest_id, created_ns=now_ns)
    state.resume = resume
    _record(state, BEGUN, now_ns=now_ns, rows=rows)
    return state


def rest_on(
    state: StreamState, base: Mapping[str, Any], bounds: tuple[int, int], *, now_ns: int, rows: RowColumns
) -> None:
    """Record the settled rows that a stream without messages begins with; they end with, or before, ``bounds``.

    The settle job adds them to ``messages`` in the commit that settles the row. Until then the index lacks them.
    """
    first_seq, last_seq = bounds
    state.event_no += 1
    state.restored = CARRIED
    data = stream_data(state.config, state.created_ns, restored=BEGUN, base=base)
    place, ts_ns = (last_seq, state.event_no, first_seq), state.tick(now_ns)
    rows.append(event_row(Kind.STREAM, (state.name, state.stream_id), place=place, ts_ns=ts_ns, data=data))
    state.index.restore_bounds(first_seq=first_seq, last_seq=last_seq, last_ts=0)


def show(
    catalog: Catalog, state: StreamState, *, now_ns: int, rows: RowColumns, config: StreamConfig | None = None
) -> None:
    """Show a restored stream, under this configuration where it is another one than that of its messages.

    Raises 10065 when its subjects have been taken meanwhile, or a limit's error; then it is still being restored.
    """
    config = config or state.config
    catalog.routes.refuse_overlap(config)
    catalog.account.admit(config)
    if not catalog.account.has_room(config.storage, 0):
        raise api_errors.ACCOUNT_EXCEEDED.error
    catalog.require_change()
    _record(state, CARRIED if state.restored == CARRIED else DONE, now_ns=now_ns, rows=rows)
    catalog.streams[state.name] = catalog.restoring.pop(state.name)
    catalog.reconfigure(state, state.config, ts_ns=state.clock_ns)
    if state.config != config:
        catalog.update(config, now_ns=now_ns, rows=rows)


def drop(catalog: Catalog, state: StreamState, *, now_ns: int, rows: RowColumns) -> None:
    """Delete a stream whose restore has failed."""
    del catalog.restoring[state.name]
    state.record(Kind.STREAM_DELETE, b"", now_ns=now_ns, rows=rows)
    catalog.close(state.name, state.position)


def park(catalog: Catalog, state: StreamState, *, now_ns: int) -> None:
    """Keep a stream whose sender is gone, for when it goes on."""
    del catalog.restoring[state.name]
    catalog.parked.add(state, now_ns=now_ns)


def resumed(catalog: Catalog, config: StreamConfig, resume: str) -> StreamState | None:
    """Take up a stream that broke off, by its sender's word and with the same configuration; None without one."""
    state = catalog.parked.take(config, resume)
    if state is not None:
        catalog.restoring[config.name] = state
    return state


def give_up(catalog: Catalog, name: str, *, now_ns: int, rows: RowColumns) -> None:
    """Delete a stream that broke off, if there is one of this name."""
    if (position := catalog.parked.give_up(name, now_ns=now_ns, rows=rows)) is not None:
        catalog.close(name, position)


def give_up_late(catalog: Catalog, *, now_ns: int, rows: RowColumns) -> bool:
    """Delete the streams that nobody has gone on with for too long; return whether there were any."""
    late = [] if catalog.held else catalog.parked.late(now_ns)
    for name in late:
        give_up(catalog, name, now_ns=now_ns, rows=rows)
    return bool(late)


def drop_unfinished(catalog: Catalog, *, now_ns: int, rows: RowColumns) -> None:
    """Delete the streams whose restores ended with the process before, or hide those that may go on."""
    for name in [name for name, state in catalog.streams.items() if state.restored == BEGUN]:
        state = catalog.streams[name]
        if state.resume:
            catalog.close(name, state.position)
            catalog.parked.add(state, now_ns=now_ns)
        else:
            catalog.delete(name, now_ns=now_ns, rows=rows)


def _record(state: StreamState, restored: str, *, now_ns: int, rows: RowColumns) -> None:
    state.restored = restored
    resume = state.resume if restored == BEGUN else ""
    data = stream_data(state.config, state.created_ns, restored=restored, resume=resume)
    state.record(Kind.STREAM, data, now_ns=now_ns, rows=rows)
