"""Log entries: what goes in comes out, damage is named, and a state takes only what follows."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_store.entries import checkpoint_file, checkpoint_table, log_entry
from delta_store.entries.checkpoint_table import DamagedCheckpoint
from delta_store.entries.journal_file import Span
from delta_store.entries.journal_state import JournalState, settled_files
from delta_store.entries.log_entry import JournalEntry, JournalFile, JournalNote, LogEntry, Removed, Stamp, file_name
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import Position

APP = "silt/0"
_texts = st.text(st.characters(codec="utf-8"), max_size=12)
_longs = st.integers(0, 2**40 - 1)
_spans = st.builds(Span, _texts, _longs, _longs, _longs, _longs, _longs)
_marks = st.dictionaries(_texts, st.fixed_dictionaries({"id": _longs, "seq": _longs, "event": _longs, "first": _longs}))


def _file(version: int, *spans: Span, counter: int | None = None) -> JournalFile:
    stamp = Stamp(1, version if counter is None else counter)
    return JournalFile(file_name(version, stamp), version, 1_000 + version, 10, 12_345, spans, '{"numRecords":10}', 17)


def _entry(version: int, *spans: Span) -> JournalEntry:
    added = (_file(version, *spans),) if spans else ()
    return LogEntry(version, 17, JournalNote(Stamp(1, version), "writer", "WRITE"), added)


def _first() -> JournalEntry:
    return LogEntry(0, 5, JournalNote(Stamp(0, 0), "writer", "CREATE", metadata=log_entry.new_metadata("id", 5)))


def _span(last: int, event: int = 0, *, stream: str = "S", stream_id: int = 1) -> Span:
    return Span(stream, stream_id, max(1, last - 9), 0, last, event)


@given(
    version=_longs, epoch=st.integers(0, 2**20), counter=_longs, writer=_texts, spans=st.lists(_spans), marks=_marks,
    removed=st.lists(st.builds(Removed, _texts, _longs, _longs)),
)  # fmt: skip
def test_entries_survive_the_round_trip(  # noqa: PLR0917  # hypothesis passes by keyword
    version: int, epoch: int, counter: int, writer: str, spans: list[Span], marks: dict[str, dict[str, int]],
    removed: list[Removed],
) -> None:  # fmt: skip
    """Any entry is read back equal, whatever streams and writers are called."""
    stamp = Stamp(epoch, counter)
    file = JournalFile(file_name(version, stamp), version, 5, 6, 7, tuple(spans), '{"numRecords":6}', 8)
    entry = LogEntry(version, 9, JournalNote(stamp, writer, "WRITE", marks), (file,), tuple(removed))
    assert log_entry.decode(version, log_entry.encode(entry, APP), APP, file="") == entry


def test_an_entry_is_delta_json() -> None:
    """One action a line, with what Delta's protocol asks of each."""
    lines = log_entry.encode(_entry(3, _span(10)), APP).decode().splitlines()
    actions = {name: body for line in lines for name, body in json.loads(line).items()}
    assert list(actions) == ["commitInfo", "txn", "add"]
    assert actions["txn"] == {"appId": APP, "version": (1 << 40) + 3, "lastUpdated": 17}
    assert actions["add"]["dataChange"] is True
    assert actions["add"]["partitionValues"] == {}
    first = log_entry.encode(_first(), APP).decode().splitlines()
    assert [next(iter(json.loads(line))) for line in first] == ["commitInfo", "protocol", "metaData", "txn"]


def test_no_altered_byte_is_read_as_an_entry() -> None:
    """A flipped bit anywhere, a cut anywhere, and a NUL anywhere are reported."""
    raw = log_entry.encode(_entry(3, _span(10)), APP)
    dice = random.Random(1)
    for at in range(len(raw)):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << dice.randrange(8)
        for bad in (bytes(flipped), raw[:at], raw[:at] + b"\0" * (len(raw) - at)):
            with pytest.raises(DamagedData, match=r"3\.json"):
                log_entry.decode(3, bad, APP, file="3.json")


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"", "empty"), (b"\0" * 300, "NUL"), (b"{}\n", "not written by Silt"), (b'{"commitInfo":{}', "cut short")],
)
def test_damage_is_described(raw: bytes, why: str) -> None:
    """The reason says what is to be seen in the file."""
    with pytest.raises(DamagedData, match=why):
        log_entry.decode(3, raw, APP, file="3.json")


def test_another_shards_entry_is_not_ours() -> None:
    """A log copied into the wrong folder is refused."""
    with pytest.raises(DamagedData, match="silt/1"):
        log_entry.decode(3, log_entry.encode(_entry(3), "silt/1"), APP, file="3.json")


def test_a_state_takes_only_what_follows() -> None:
    """A gap, an older stamp, another table's metaData and an unknown removal are all damage."""
    state = JournalState()
    with pytest.raises(DamagedData, match="metaData"):
        state.apply(_entry(0), file="")
    state.apply(_first(), file="")
    state.apply(_entry(1, _span(10)), file="")
    with pytest.raises(DamagedData, match="does not follow"):
        state.apply(_entry(3), file="")
    with pytest.raises(DamagedData, match="after commit"):
        state.apply(replace(_entry(2), note=replace(_entry(2).note, stamp=Stamp(1, 1))), file="")
    with pytest.raises(DamagedData, match="metaData"):
        state.apply(replace(_entry(2), note=replace(_entry(2).note, metadata={})), file="")
    with pytest.raises(DamagedData, match="not in the table"):
        state.apply(replace(_entry(2), removed=(Removed("other", 1, 1),)), file="")


def test_a_message_is_found_in_its_file() -> None:
    """Each sequence is in the file whose span holds it, before and after older files leave."""
    state = JournalState()
    state.apply(_first(), file="")
    for version in range(1, 6):
        state.apply(_entry(version, _span(version * 10)), file="")
    state.apply(_entry(6, Span("S", 1, 50, 1, 50, 3)), file="")
    held = state.streams[1]
    assert [held.holding(seq).version for seq in (1, 10, 11, 35, 50)] == [1, 1, 2, 4, 5]  # type: ignore[union-attr]
    assert held.holding(51) is None
    names = [name for name, file in state.live.items() if file.version <= 2]
    state.apply(replace(_entry(7), removed=tuple(Removed(name, 1, 1) for name in names)), file="")
    assert held.holding(15) is None
    assert held.holding(21) is state.live[next(iter(state.live))]
    assert sorted(state.removed) == sorted(names)


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        ({}, []),
        ({"S": Position(1, 9, 0)}, []),
        ({"S": Position(1, 10, 0)}, [1]),
        ({"S": Position(1, 20, 0)}, [1]),
        ({"S": Position(1, 20, 2)}, [1, 2]),
        ({"S": Position(1, 30, 0)}, [1, 2]),
        ({"S": Position(1, 30, 0), "T": Position(2, 30, 0)}, [1, 2, 3]),
        ({"S": Position(5, 0, 1), "T": Position(2, 30, 0)}, [1, 2, 3]),
        ({"T": Position(2, 30, 0)}, []),
    ],
)
def test_a_file_is_settled_when_all_its_streams_are(settled: dict[str, Position], expected: list[int]) -> None:
    """Events count; a newer incarnation settles the older one's rows, a stream without a position none."""
    files = [
        _file(1, _span(10)),
        _file(2, _span(20, 2)),
        _file(3, _span(30), _span(30, stream="T", stream_id=2)),
    ]
    assert [file.version for file in settled_files(files, settled)] == expected


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(_spans.filter(lambda span: span.first_seq <= span.last_seq), max_size=2), max_size=6))
def test_checkpoints_survive_the_round_trip(spans: list[list[Span]]) -> None:
    """The state read from a checkpoint is the state it was made of."""
    state = JournalState()
    state.apply(_first(), file="")
    for version, each in enumerate(spans, start=1):
        unique = {span.stream_id: span for span in each}
        state.apply(_entry(version, *unique.values()), file="")
    state.removed["x.parquet"] = Removed("x.parquet", 3, 4)
    snapshot = checkpoint_file.snapshot_of(state)
    body = checkpoint_file.encode(snapshot, APP)
    read = checkpoint_file.decode(state.version, body, app_id=APP, checksum=None)
    assert checkpoint_file.snapshot_of(read) == snapshot


def test_no_altered_checkpoint_is_believed() -> None:
    """With the checksum from ``_last_checkpoint`` every flipped bit is found."""
    state = JournalState()
    state.apply(_first(), file="")
    state.apply(_entry(1, _span(10)), file="")
    snapshot = checkpoint_file.snapshot_of(state)
    body = checkpoint_file.encode(snapshot, APP)
    pointed = checkpoint_table.pointed(checkpoint_file.pointer(snapshot, body))
    assert pointed is not None
    for at in range(0, len(body), 7):
        altered = bytearray(body)
        altered[at] ^= 4
        with pytest.raises(DamagedCheckpoint):
            checkpoint_file.decode(1, bytes(altered), app_id=APP, checksum=pointed[1])
