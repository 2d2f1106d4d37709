"""Every process reads the journal by the same rules: what the gateway refuses, no reader serves past."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conf.clock import SystemClock
from conf.data_location import DataLocation
from delta_store.entries.log_entry import entry_name
from delta_store.log.log_follower import LogFollower
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import multi_last
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER
from tests.groups import open_journal
from tests.tables import History, Tables

COMMITS = 12
Harm = Callable[[Path], str]


def _cut(log: Path) -> str:
    """The last five entries are gone; their files give it away."""
    for version in range(COMMITS - 3, COMMITS + 2):
        (log / entry_name(version)).unlink()
    return LOG_FOLDER


def _altered(log: Path) -> str:
    """One digit of an entry that is still JSON."""
    path = log / entry_name(7)
    path.write_bytes(path.read_bytes().replace(b'"rows\\":1', b'"rows\\":2'))
    return entry_name(7)


def _wrong_crc(log: Path, version: int) -> str:
    """One digit of an entry's checksum; all else of it is as it was written."""
    path = log / entry_name(version)
    raw = bytearray(path.read_bytes())
    place = raw.index(b'"crc":"') + len(b'"crc":"')
    raw[place] = ord("1" if raw[place] != ord("1") else "2")
    path.write_bytes(raw)
    return path.name


def _wrong_crc_of_the_newest(log: Path) -> str:
    return _wrong_crc(log, COMMITS + 1)


def _wrong_crc_in_the_middle(log: Path) -> str:
    return _wrong_crc(log, 7)


def _wrong_crc_behind_a_checkpoint(log: Path) -> str:
    """Who opens the log does not need the entry any more, the settle job does."""
    open_journal(log.parent).checkpoint()
    return _wrong_crc(log, 7)


def _holed(log: Path) -> str:
    (log / entry_name(7)).unlink()
    return entry_name(7)


def _foreign(log: Path) -> str:
    DeltaTable(str(log.parent)).alter.set_table_properties({"delta.logRetentionDuration": "interval 2 days"})
    return entry_name(COMMITS + 2)


def _filled(folder: Path) -> Path:
    """A stream and single messages, one a commit; returns the journal's log folder."""
    tables, history = Tables(folder), History(max_msgs=5)
    tables.commit([history.create()])
    for _ in range(COMMITS - 1):
        tables.commit([history.publish("s.1")])
    return folder / "journal" / LOG_FOLDER


def _opened(folder: Path) -> None:
    async def run() -> None:
        threads = ReadThreads(1, timeout_seconds=20)
        try:
            await Replica(str(folder), threads, clock=SystemClock()).open()
        finally:
            threads.close()

    asyncio.run(run())


WRONG_CRC = [_wrong_crc_of_the_newest, _wrong_crc_in_the_middle, _wrong_crc_behind_a_checkpoint]


@pytest.mark.parametrize("harm", [_cut, _altered, _holed, _foreign, *WRONG_CRC])
def test_what_the_gateway_refuses_no_reader_serves(tmp_path: Path, harm: Harm) -> None:
    """A reader of HTTP and Direct Get, a reader of the past, and Spark's workers all name the file that is wrong."""
    named = harm(_filled(tmp_path))
    with pytest.raises(DamagedData, match=named):
        open_journal(tmp_path / "journal")
    readers: list[Callable[[], object]] = [
        lambda: _opened(tmp_path),
        lambda: JournalTail(str(tmp_path / "journal")).refresh(),
        lambda: multi_last(DataLocation(str(tmp_path)), "S", ["s.>"]),
    ]
    for read in readers:
        with pytest.raises(DamagedData) as caught:
            read()
        assert named in caught.value.file


def test_one_entry_less_is_what_a_crash_before_the_ack_leaves(tmp_path: Path) -> None:
    """The file is there and its entry is not: nobody was told that it is stored, so it is not."""
    (_filled(tmp_path) / entry_name(COMMITS + 1)).unlink()
    _opened(tmp_path)
    assert open_journal(tmp_path / "journal").reader.version == COMMITS + 1


@pytest.mark.parametrize("harm", [_cut, _altered, _holed, *WRONG_CRC[:2]])
def test_a_running_reader_ends_at_the_damage(tmp_path: Path, harm: Harm) -> None:
    """What it showed before was whole; what comes after the damage is never shown."""
    tables, history = Tables(tmp_path), History()
    log = tmp_path / "journal" / LOG_FOLDER
    tables.commit([history.create()])
    follower = JournalTail(str(tmp_path / "journal"))
    if harm is not _cut:
        follower.refresh()
    for _ in range(COMMITS - 1):
        tables.commit([history.publish("s.1")])
    if harm is _cut:
        follower.refresh()
    named, seen = harm(log), follower.snapshot.version
    for _ in range(2):
        with pytest.raises(DamagedData, match=named):
            follower.refresh()
    assert follower.snapshot.version == seen


def test_a_messages_log_that_lost_entries_is_damage(tmp_path: Path) -> None:
    """Neither a hole ahead of a running reader nor an end that was further on before is passed over."""
    tables, history = Tables(tmp_path), History()
    tables.commit([history.create()])
    tables.settle()
    follower = LogFollower(str(tmp_path / "messages"))
    seen = follower.refresh().version
    log = tmp_path / "messages" / LOG_FOLDER
    for _ in range(3):
        tables.commit([history.publish("s.1")])
        tables.settle()
    whole = (log / entry_name(seen + 2)).read_bytes()
    (log / entry_name(seen + 2)).unlink()
    for _ in range(2):
        with pytest.raises(DamagedData, match=entry_name(seen + 2)):
            follower.refresh()
    (log / entry_name(seen + 2)).write_bytes(whole)
    assert follower.refresh().version == seen + 3
    for version in (seen + 3, seen + 2):
        (log / entry_name(version)).unlink()
    with pytest.raises(DamagedData, match=f"ends at version {seen + 1}, and was at {seen + 3} before"):
        follower.refresh()
