"""Backups of servers before 2.15, decoded: what is in them, what was deleted, and whatever a hostile one holds."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_store.archive import message_block, stored_consumer, stored_state
from delta_store.archive.archive_checker import ArchiveChecker
from delta_store.archive.archived import ArchivedConsumer, ArchivedDeleted, ArchivedEnd, ArchivedState, Item
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun, joined_entries
from delta_store.values import subjects
from tests import old_backups
from tests.old_backups import DELETED, ERASED, Record, block, files, framed, tar

NOW_NS = 1_764_000_000_000_000_000
RECORDS = st.builds(
    Record,
    st.integers(1, 2**62 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=20),
    st.one_of(st.just(b""), st.binary(min_size=1, max_size=40)),
    st.binary(max_size=60),
    st.sampled_from((0, 0, 0, ERASED, DELETED)),
)
MESSAGES = [
    Record(seq, NOW_NS + seq, f"s.{seq % 3}", b"" if seq % 2 else b"NATS/1.0\r\n\r\n", b"x" * seq)
    for seq in range(3, 40)
]
CONSUMER = ("work", {"durable_name": "work"}, old_backups.consumer_state((1, 3), (3, 5), {5: (3, 1_764_000_000)}))
GONE = block([Record(7, 1, mark=ERASED)])
BLOCKS = block(MESSAGES[:20]), block(MESSAGES[20:], 2)
WHOLE = files("S", BLOCKS, old_backups.state(37, 3, 39, last_block=2, last_hash=BLOCKS[1][-8:]), [CONSUMER])


def items(archive: bytes, step: int = 1 << 20, stream: str = "S") -> tuple[list[Item], bool]:
    """What an archive in parts of this size gives, and whether it ended."""
    checker = ArchiveChecker(stream, message_bytes_max=1000, sequence_max=2**62, valid_subject=subjects.literal)
    found = [item for at in range(0, len(archive), step) for item in checker.feed(archive[at : at + step])]
    return found, checker.ended


def end_of(found: list[Item]) -> ArchivedEnd:
    """The end of the messages."""
    [end] = [item for item in found if isinstance(item, ArchivedEnd)]
    return end


@pytest.mark.parametrize("step", [1 << 20, 100, 7])
def test_a_backup_is_decoded(step: int) -> None:
    """Messages, their end, and a consumer with its pending ack, in parts of any size."""
    found, ended = items(framed(tar(WHOLE)), step)
    run = joined_entries([item for item in found if isinstance(item, EntryRun)])
    assert ended
    assert found[0] == ArchivedState(0, 0, 0, 0)
    columns = zip(run.seqs.tolist(), run.ts_ns.tolist(), run.subjects, run.headers or (), run.data, strict=True)
    assert [Record(seq, ts, name, head or b"", data) for seq, ts, name, head, data in columns] == MESSAGES
    assert end_of(found)[:3] == (37, 3, 39)
    assert isinstance(found[-1], ArchivedConsumer)
    assert b'"pending": {"5": {"Sequence": 3, "Timestamp": 1764000000000000000}}' in found[-1].content


@given(st.lists(RECORDS, max_size=30))
def test_blocks_come_back(records: list[Record]) -> None:
    """Each record of a block is a message or says what is deleted."""
    found = message_block.decode(block(records, 7), "msgs/7.blk", "S")
    kept = [record for record in records if not record.mark]
    assert found.deleted.tolist() == sorted({record.seq for record in records if record.mark == DELETED})
    assert found.last_seq == max((record.seq for record in records), default=0)
    assert found.last_hash == block(records, 7)[-8:]
    if found.run is None:
        assert not kept
        return
    subjects_read, seqs, times, headers, data, sizes = found.run
    assert subjects_read == [record.subject for record in kept]
    assert seqs.tolist() == [record.seq for record in kept]
    assert times.tolist() == [record.ts_ns for record in kept]
    assert [one or b"" for one in headers or [b""] * len(kept)] == [record.headers for record in kept]
    assert data == [record.data for record in kept]
    assert sizes.tolist() == [len(record.headers) + len(record.data) for record in kept]


@given(st.integers(1, 4), st.lists(st.integers(1, 10_000), max_size=20, unique=True), st.integers(0, 2**60))
def test_states_come_back(version: int, deleted: list[int], last: int) -> None:
    """Bounds and deleted sequences are read of each version of the state."""
    found = stored_state.decode(old_backups.state(7, 5, last, deleted, version=version, last_block=300))
    assert found[:3] == (7, 5, last)
    every = np.arange(1, 10_002, dtype=np.uint64)
    assert every[found.deleted.has(every)].tolist() == sorted(deleted)
    assert found[4:] == (300, bytes(8))


def deleted_of(found: list[Item]) -> tuple[list[int], list[int]]:
    """The sequences that are deleted, by blocks, and by the state up to 40."""
    by_blocks = [int(seq) for item in found if isinstance(item, ArchivedDeleted) for seq in item.seqs]
    every = np.arange(1, 41, dtype=np.uint64)
    return by_blocks, every[end_of(found).deleted.has(every)].tolist()


def test_deleted_messages_are_told() -> None:
    """By later records, and by the state where it is that of the last block."""
    records = [*MESSAGES, Record(40, 1, mark=ERASED), Record(5, 1, mark=DELETED), Record(4, 1, mark=DELETED)]
    current = old_backups.state(33, 7, 40, [9, 11], last_block=1, last_hash=block(records)[-8:])
    found, _ = items(framed(tar(files("S", [block(records)], current))))
    assert end_of(found)[:3] == (33, 7, 40)
    assert deleted_of(found) == ([4, 5], [9, 11])


@pytest.mark.parametrize(
    "index",
    [None, old_backups.state(1, 30, 50, [9], last_block=2), old_backups.state(1, 30, 50, [9], last_hash=b"another!")],
)
def test_a_state_of_another_moment_is_left_alone(index: bytes | None) -> None:
    """Nothing then says how many messages are left; what blocks say is deleted counts."""
    records = [*MESSAGES, Record(5, 1, mark=DELETED)]
    found, _ = items(framed(tar(files("S", [block(records)], index))))
    assert end_of(found)[:3] == (None, 0, 39)
    assert deleted_of(found) == ([5], [])


def test_an_old_state_of_a_consumer() -> None:
    """Version 1 counts from the floor, and has no sequences of the consumer."""
    content = bytes((22, 1)) + b"".join(map(old_backups.uvarint, (3, 4, 2, 2, 1, 200, 1, 100, 1, 2, 5)))
    assert stored_consumer.state_of(content, "c") == {
        "delivered": {"consumer_seq": 4, "stream_seq": 5},
        "ack_floor": {"consumer_seq": 3, "stream_seq": 4},
        "pending": {"5": {"Sequence": 0, "Timestamp": 150_000_000_000}},
        "redelivered": {"6": 5},
    }


def test_a_long_name_is_read() -> None:
    """A consumer whose name does not fit into the head of its file has it in a record before it."""
    name = "c" * 200
    found, _ = items(framed(tar(files("S", [], None, [(name, {}, CONSUMER[2])]))))
    assert isinstance(found[-1], ArchivedConsumer)
    assert found[-1].name == name


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (WHOLE[1:], "expected meta.inf"),
        (files("T", [], None), "stream names do not match"),
        ([("meta.inf", b"[]")], "error in meta.inf"),
        ([*WHOLE, ("msgs/3.blk", block(MESSAGES))], "out of order"),
        (files("S", [block(MESSAGES), block(MESSAGES, 2)], None), "message sequence 3 out of order"),
        (files("S", [block([Record(1, 1, "s.>")])], None), "message sequence 1 has an invalid subject"),
        (files("S", [block([Record(1, 1, "s", b"", bytes(1001))])], None), "sequence 1 exceeds maximum message size"),
        (files("S", [b"\x01" * 40], None), "1.blk: a record is cut or damaged, or the block is encrypted"),
        (files("S", [block(MESSAGES)[:-1]], None), "1.blk: a record is cut or damaged"),
        (files("S", BLOCKS[:1], old_backups.state(1, 9, 3, last_hash=BLOCKS[0][-8:])), "the last sequence is beyond"),
        (files("S", [GONE], old_backups.state(1, 1, 2**63, last_hash=GONE[-8:])), "last sequence is beyond"),
        (files("S", [], b"\x0b\x09" + bytes(40)), "index.db: not the state of a stream, or of a version above 4"),
        (files("S", [], old_backups.state(1, 1, 1)[:25]), "index.db: it is cut or damaged"),
        (files("S", [], None, [("c", {}, b"\x16\x03")]), 'failed to decode consumer "c" state'),
        (files("S", [], None, [CONSUMER, CONSUMER]), 'failed to add consumer "work"'),
        (files("S", [], None, [CONSUMER])[:-1], "o.dat of a consumer is missing"),
        ([*files("S", [], None), ("obs/c/o.dat", CONSUMER[2])], "no meta.inf"),
        ([*files("S", [], None), ("msgs/1.idx", b"")], "unexpected file"),
        ([*files("S", [], None), ("../../etc/passwd", b"")], "unexpected file"),
        ([*files("S", [], None), ("meta.inf", b"{}")], "comes twice"),
        ([*files("S", [], None), ("errors.txt", b"no block 1")], "its server could not back up all: no block 1"),
    ],
)  # fmt: skip
def test_wrong_backups_are_refused(content: old_backups.Files, text: str) -> None:
    """What is missing, twice, out of order, damaged or of another stream is told."""
    with pytest.raises(BadArchive, match=text):
        items(framed(tar(content)))


def altered(content: bytes, at: int) -> bytes:
    """Content with one bit changed."""
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


def hashed_places(name: str, content: bytes) -> list[int]:
    """The bytes of a file that a hash covers, or is in: not the lengths within a record, as nats-server has it."""
    places, at = set(range(len(content))), 0
    while name.endswith(".blk") and at < len(content):
        size, subject = int.from_bytes(content[at : at + 3], "little"), at + 22
        places -= {at + 20, at + 21}
        if content[at + 3] >> 7:
            headers = subject + int.from_bytes(content[at + 20 : at + 22], "little")
            places -= set(range(headers, headers + 4))
        at += size
    return sorted(places)


@pytest.mark.parametrize("name", [name for name, _ in WHOLE if not name.endswith("o.dat")])
def test_changed_bytes_are_told(name: str) -> None:
    """What a disk of the origin did to a record, the state or a configuration, long before the backup, is refused."""
    content = dict(WHOLE)[name]
    for at in hashed_places(name, content)[:: 5 if len(content) > 100 else 1]:
        changed = [(each, altered(data, at) if each == name else data) for each, data in WHOLE]
        with pytest.raises(BadArchive):
            items(framed(tar(changed)))


def test_a_damaged_record_is_named() -> None:
    """By its file and sequence; a larger one than is hashed, and a block of another stream, are told apart."""
    damaged = altered(block(MESSAGES), block(MESSAGES).index(b"x" * 17))
    with pytest.raises(BadArchive, match=r"msgs/1\.blk: the record of sequence 17 is damaged: its hash is another one"):
        message_block.decode(damaged, "msgs/1.blk", "S")
    with pytest.raises(BadArchive, match="sequence 3 is damaged"):
        message_block.decode(block(MESSAGES), "msgs/1.blk", "T")
    last = altered(block(MESSAGES), -1)
    with pytest.raises(BadArchive, match="sequence 39 is damaged"):
        message_block.decode(last, "msgs/1.blk", "S")
    assert message_block.decode(last, "msgs/1.blk", "S", compressed=True).last_seq == 39
    with pytest.raises(BadArchive, match="sequence 17 is damaged"):
        message_block.decode(damaged, "msgs/1.blk", "S", compressed=True)
    large = Record(1, 1, "s", b"", bytes(message_block.HASHED_BYTES_MAX))
    raw = altered(block([large, Record(2, 1, "s")]), 1_000)
    run = message_block.decode(raw, "msgs/1.blk", "S").run
    assert run is not None
    assert run.seqs.tolist() == [1, 2]


def test_a_tar_without_files_is_refused() -> None:
    """It has not even the stream's configuration."""
    with pytest.raises(BadArchive, match=r"meta\.inf is missing"):
        items(framed(tar([("meta.inf", b"")])[:1024] + bytes(1024)))


def head_of(name: str, *, size: int = 0, kind: bytes = b"0") -> bytes:
    """What stands before a file."""
    head = bytearray(tar([(name, b"")])[1024:1536])
    head[124:136], head[156:157], head[148:156] = f"{size:011o}\0".encode(), kind, b" " * 8
    head[148:156] = f"{sum(head):06o}\0 ".encode()
    return bytes(head)


@pytest.mark.parametrize(
    ("name", "size"), [("meta.inf", 2**21), ("msgs/1.blk", 2**26), ("msgs/index.db", 2**27), ("obs/c/o.dat", 8**11 - 1)]
)
def test_sizes_are_bounded_by_the_head(name: str, size: int) -> None:
    """A file that says it is too large is refused before it comes."""
    with pytest.raises(BadArchive, match="too large"):
        items(framed(head_of(name, size=size)))


@pytest.mark.parametrize("record", [b"18 size=999999999\n", b"20 size=99999999999\n"])
def test_sizes_in_records_are_bounded(record: bytes) -> None:
    """The same where a record before the file says it."""
    pax = head_of("x", size=len(record), kind=b"x") + record.ljust(512, b"\0")
    with pytest.raises(BadArchive, match="too large"):
        items(framed(pax + head_of("msgs/1.blk")))


@pytest.mark.parametrize(
    "record", [b"5 a=b", b"99 path=x\n", b"x path=y\n", b"7 path\n", b"\xff path=y\n", b"11 size=-1\n"]
)
def test_wrong_records_are_refused(record: bytes) -> None:
    """Wrong lengths, no value, a size that is none."""
    pax = head_of("x", size=len(record), kind=b"x") + record.ljust(512, b"\0")
    with pytest.raises(BadArchive, match="invalid tar"):
        items(framed(pax + head_of("meta.inf")))


@pytest.mark.parametrize("kind", [b"1", b"2", b"5", b"g", b"L"])
def test_what_is_no_file_is_refused(kind: bytes) -> None:
    """Links, folders and other formats' entries."""
    with pytest.raises(BadArchive, match="no file"):
        items(framed(head_of("meta.inf", kind=kind)))


@pytest.mark.parametrize("head", [head_of("meta.inf")[:-1] + b"x", b"\0" * 257 + b"ustar\0".ljust(255, b"\0")])
def test_damaged_heads_are_refused(head: bytes) -> None:
    """A head whose sum is wrong."""
    with pytest.raises(BadArchive, match="invalid tar"):
        items(framed(head))


def test_a_cut_tar_does_not_end() -> None:
    """Wherever it is cut before its end."""
    whole = tar(WHOLE)
    end = len(whole.rstrip(b"\0"))
    for cut in range(512, end, 512):
        assert items(framed(whole[:cut]))[1] is False


@settings(max_examples=200)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_damaged_tars_are_decoded_or_refused(dice: random.Random, times: int) -> None:
    """No changed bytes lead to another error than ours."""
    content = bytearray(tar(WHOLE))
    for _ in range(times):
        content[dice.randrange(len(content) - 8192)] = dice.randrange(256)
    try:
        found, _ = items(framed(bytes(content)))
    except BadArchive:
        return
    for item in found:
        if isinstance(item, EntryRun):
            assert bool(np.all(item.seqs[1:] > item.seqs[:-1]))
