"""The archive of a backup as bytes: S2 frames and entries, there and back, and whatever a hostile one holds."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_store.archive import s2_block, s2_frames
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entries import END, MAGIC, ArchiveEntry, ArchiveHead, encode
from delta_store.archive.entry_reader import EntryReader
from delta_store.archive.entry_run import EntryRun, entries_of, joined_entries
from delta_store.archive.message_entries import encode_run
from delta_store.archive.s2_frames import masked
from delta_store.values.stream_message import MessageRun, StreamMessage
from tests.old_backups import uvarint

MESSAGES = st.builds(
    ArchiveEntry,
    st.text(min_size=1, max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(1, 2**64 - 1),
    st.binary(max_size=300),
    st.binary(max_size=300),
)
USUAL = st.builds(
    ArchiveEntry,
    st.sampled_from(("orders.1", "orders.2", "s" * 200)),
    st.integers(1_700_000_000_000_000_000, 1_900_000_000_000_000_000),
    st.integers(1, 2**22),
    st.sampled_from((b"", b"NATS/1.0\r\nA: b\r\n\r\n", bytes(200))),
    st.binary(max_size=300),
)
TOKENS = st.one_of(
    st.tuples(st.just("literal"), st.binary(min_size=1, max_size=400)),
    st.tuples(st.sampled_from(("near", "far", "farthest")), st.integers(1, 5000), st.integers(1, 64)),
    st.tuples(st.just("again"), st.integers(4, 70_000)),
)


def s2_of(tokens: list[tuple[object, ...]]) -> tuple[bytes, bytes]:
    """A block of these tags, as far as they are possible, and its content, found by copying byte by byte."""
    tags, content, offset = bytearray(), bytearray(), 0
    for kind, *said in tokens:
        if kind == "literal":
            body = bytes(said[0])  # type: ignore[call-overload]
            length = len(body)
            if length <= 60:
                tags.append((length - 1) << 2)
            else:
                tags += bytes((61 << 2,)) + (length - 1).to_bytes(2, "little")
            tags += body
            content += body
            continue
        if kind == "again":
            (length,) = said
            if not offset:
                continue
            tags += _repeat(int(length))  # type: ignore[call-overload]
        else:
            back, length = (int(one) for one in said)  # type: ignore[call-overload]
            offset = min(back, len(content), 2047 if kind == "near" else 5000)
            if not offset:
                continue
            if kind == "near":
                length = 4 + length % 8
                tags += bytes(((offset >> 8) << 5 | (length - 4) << 2 | 1, offset & 0xFF))
            else:
                width, code = (2, 2) if kind == "far" else (4, 3)
                tags += bytes(((length - 1) << 2 | code,)) + offset.to_bytes(width, "little")
        for _ in range(int(length)):  # type: ignore[call-overload]
            content.append(content[-offset])
    return uvarint(len(content)) + bytes(tags), bytes(content)


def _repeat(length: int) -> bytes:
    if length < 9 - 1:
        return bytes(((length - 4) << 2 | 1, 0)) if length - 4 < 5 else bytes((5 << 2 | 1, 0, length - 8))
    if length < 260:
        return bytes((5 << 2 | 1, 0, length - 8))
    if length < 65_540:
        return bytes((6 << 2 | 1, 0)) + (length - 260).to_bytes(2, "little")
    return bytes((7 << 2 | 1, 0)) + (length - 65_540).to_bytes(3, "little")


def read(stream: bytes, size: int = 1 << 20) -> tuple[list[ArchiveEntry], bool]:
    """The entries of a stream that comes in parts of this size, and whether it ended well."""
    frames, entries, found = s2_frames.FrameReader(), EntryReader(lambda _: None), []
    for start in range(0, len(stream), size):
        for content in frames.feed(stream[start : start + size]):
            found += entries.feed(content)
    return found, entries.ended


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"", 0), (b"a", 0xC1D04330), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_known_checksums(data: bytes, crc: int) -> None:
    """Frames have the checksums that RFC 3720 gives, rotated by 15 bits, and 0xA282EAD8 more."""
    assert masked(data) == ((crc >> 15 | (crc & 0x7FFF) << 17) + 0xA282EAD8) % 2**32


@given(st.lists(TOKENS, max_size=40))
def test_blocks_with_repeats_are_decoded(tokens: list[tuple[object, ...]]) -> None:
    """Each kind of tag, also S2's own, gives what copying byte by byte gives."""
    block, content = s2_of(tokens)
    assert s2_block.decode(block) == content


@given(st.binary(max_size=3000), st.integers(1, 50))
def test_blocks_come_back(content: bytes, times: int) -> None:
    """What is encoded is decoded, and has nothing that Snappy does not know."""
    block = s2_block.encode(content * times)
    assert s2_block.decode(block) == content * times
    size, start = s2_block._content_size(block)
    assert s2_block._as_snappy(block, start, size) == block


@given(st.binary(max_size=200))
def test_any_block_is_decoded_or_refused(block: bytes) -> None:
    """No bytes lead to another error, or to more content than they declare."""
    try:
        content = s2_block.decode(block)
    except BadArchive:
        return
    assert len(content) == s2_block._content_size(block)[0]


@settings(max_examples=50)
@given(st.lists(TOKENS, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_damaged_blocks_are_decoded_or_refused(tokens: list[tuple[object, ...]], dice: random.Random) -> None:
    """A block with a changed byte gives content of the declared length, or our error."""
    block = bytearray(s2_of(tokens)[0])
    block[dice.randrange(len(block))] = dice.randrange(256)
    try:
        content = s2_block.decode(bytes(block))
    except BadArchive:
        return
    assert len(content) == s2_block._content_size(bytes(block))[0]


@settings(max_examples=50)
@given(st.lists(MESSAGES, max_size=30), st.integers(1, 500))
def test_entries_come_back(entries: list[ArchiveEntry], size: int) -> None:
    """An archive gives the entries that it was made of, in parts of any size, and says that it ended."""
    content = MAGIC + b"".join(map(encode, entries)) + encode(END)
    stream = s2_frames.BEGIN + s2_frames.encode(content)
    assert read(stream, size) == (entries, True)
    assert read(stream[:-1], size)[1] is False


def as_run(entries: list[ArchiveEntry]) -> MessageRun:
    """Messages in columns."""
    return MessageRun.of(
        [StreamMessage(one.name, one.seq, one.ts_ns, one.headers or None, one.payload) for one in entries]
    )


def plain(run: EntryRun) -> tuple[list[object], ...]:
    """The columns as lists."""
    subjects, seqs, times, headers, data, sizes = run
    return subjects, seqs.tolist(), times.tolist(), headers or [None] * len(data), data, sizes.tolist()  # type: ignore[return-value]


@settings(max_examples=100)
@given(st.lists(st.one_of(MESSAGES, USUAL), min_size=1, max_size=60), st.integers(1, 500), st.integers(1, 4000))
def test_runs_are_read_as_single_entries(entries: list[ArchiveEntry], first: int, size: int) -> None:
    """Messages in columns are written, and read back in runs, as one by one, whatever is unusual among them."""
    content = encode_run(as_run(entries))
    assert content == b"".join(map(encode, entries))
    reader = EntryReader(lambda _: None)
    reader.in_runs = True
    parts = [
        MAGIC + content[:first],
        *(content[at : at + size] for at in range(first, len(content), size)),
        encode(END),
    ]
    found = [one for part in parts for one in reader.feed(part)]
    runs = [one if isinstance(one, EntryRun) else entries_of(as_run([one])) for one in found]
    assert plain(joined_entries(runs)) == plain(entries_of(as_run(entries)))
    assert reader.ended


def test_neighbours_are_read_in_one_run() -> None:
    """Messages of today come as runs, but for the last few: another one where a sequence needs one byte more."""
    entries = [ArchiveEntry("s.x", 1_764_000_000_000_000_000 + seq, seq, b"", bytes(50)) for seq in range(1, 300)]
    reader = EntryReader(lambda _: None)
    reader.in_runs = True
    found = list(reader.feed(MAGIC + b"".join(map(encode, entries)) + encode(END)))
    runs = [one for one in found if isinstance(one, EntryRun)]
    assert sum(run.messages for run in runs) + len(found) - len(runs) == 299
    assert len(found) < 8


@settings(max_examples=100)
@given(st.lists(MESSAGES, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_damaged_streams_are_refused_or_do_not_end(entries: list[ArchiveEntry], dice: random.Random) -> None:
    """A changed byte inside is found by the checksum: nothing is read as something else."""
    stream = bytearray(s2_frames.BEGIN + s2_frames.encode(MAGIC + b"".join(map(encode, entries)) + encode(END)))
    place = dice.randrange(len(s2_frames.BEGIN), len(stream))
    stream[place] ^= 1 << dice.randrange(8)
    try:
        found, ended = read(bytes(stream))
    except BadArchive:
        return
    assert not ended or found == entries


def test_chunks_that_say_nothing_are_skipped() -> None:
    """Padding, an index, and a stream that begins again are no content."""
    content = s2_frames.encode(MAGIC + encode(END))
    padding, index = b"\xfe\x03\x00\x00abc", b"\x99\x02\x00\x00xx"
    assert read(s2_frames.BEGIN + padding + s2_frames.BEGIN + index + content) == ([], True)


@pytest.mark.parametrize(
    "stream",
    [
        b"\x01\x05\x00\x00abcda",
        b"\xff\x06\x00\x00sNaPpX",
        b"\xff\x07\x00\x00sNaPpYx",
        s2_frames.BEGIN + b"\x02\x00\x00\x00",
        s2_frames.BEGIN + b"\x00\x03\x00\x00abc",
        s2_frames.BEGIN + b"\x00\xff\xff\xff",
        s2_frames.BEGIN + b"\x01\x05\x00\x00\0\0\0\0a",
    ],
)
def test_wrong_frames_are_refused(stream: bytes) -> None:
    """No begin, an unknown chunk, one too small or too large, and a wrong checksum."""
    with pytest.raises(BadArchive):
        list(s2_frames.FrameReader().feed(stream))


def test_a_bomb_is_refused_by_its_head() -> None:
    """A block that declares more than a block may hold is refused before anything is decoded."""
    bomb = uvarint(1 << 31) + b"\x00a"
    size = (4 + len(bomb)).to_bytes(3, "little")
    with pytest.raises(BadArchive):
        list(s2_frames.FrameReader().feed(s2_frames.BEGIN + b"\x00" + size + masked(b"").to_bytes(4, "little") + bomb))


@pytest.mark.parametrize(
    "numbers",
    [
        (1 << 21, 0, 1, 0, 0),
        (1, 0, 1, 1 << 63, 0),
        (1, 0, 1, (1 << 63) - 1, 1),
        (1, 0, 1 << 64, 0, 0),
    ],
)
def test_impossible_heads_are_refused(numbers: tuple[int, ...]) -> None:
    """Sizes and sequences beyond what the format has are refused before their content comes."""
    reader = EntryReader(lambda _: None)
    with pytest.raises(BadArchive):
        list(reader.feed(MAGIC + b"".join(map(uvarint, numbers))))


def test_endless_numbers_are_refused() -> None:
    """A number that does not end is not waited for."""
    with pytest.raises(BadArchive):
        list(EntryReader(lambda _: None).feed(MAGIC + b"\xff" * 12))


def test_an_entry_is_checked_before_its_content_comes() -> None:
    """The reader's owner sees each head first, and may refuse it."""

    def refuse(head: ArchiveHead) -> None:
        if head.payload_size > 10:
            raise BadArchive("too large")

    reader = EntryReader(refuse)
    assert [one.payload for one in reader.feed(MAGIC + encode(ArchiveEntry("a", 1, 1, b"", b"0123456789")))] == [
        b"0123456789"
    ]
    with pytest.raises(BadArchive, match="too large"):
        list(reader.feed(encode(ArchiveEntry("a", 1, 2, b"", bytes(11)))[:8]))


def test_another_magic_is_refused() -> None:
    """What servers before 2.15 wrote is no archive of this kind."""
    with pytest.raises(BadArchive):
        list(EntryReader(lambda _: None).feed(b"meta.inf\0\0\0\0"))
