"""The log of a table beside ``messages``, verified whole before the table is read."""

from collections.abc import Callable
from typing import TypeVar

from conf.data_location import DataLocation
from delta_store.beside.beside_table import log_of
from delta_store.entries.beside_entry import BesideState
from delta_store.entries.findings import Finding, Seen, Severity, finding
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.read_errors import DamagedData

_Table = TypeVar("_Table")


def seen_of(folder: str, state: BesideState) -> Seen:
    """Return how much of a table was read at this state."""
    return Seen(folder, state.version, state.version + 1, len(state.files), state.rows)


def read_verified(
    data: DataLocation, folder: str, found: list[Finding], read: Callable[[Storage], _Table]
) -> _Table | None:
    """Return what ``read`` gives of a table; None, with a finding more, where that or its log is damaged."""
    storage = open_storage(data.table(folder), data.options)
    log = log_of(storage)
    try:
        log.verify(log.listed().versions)
        return read(storage)
    except DamagedData as error:
        place, what = error.file.removeprefix(f"{storage.uri.rstrip('/')}/"), error.reason
    except NotStored as error:
        place, what = error.name, "missing"
    found.append(finding(Severity.REPAIRABLE, folder, place, what))
    return None
