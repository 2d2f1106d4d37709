"""Many messages of an archive at a time: their heads as columns of numbers, the rest as slices.

Where the next entry begins only the sizes of this one say. So a loop goes from entry to entry, taking for granted what
the heads of messages have in common; what it took for granted is checked for all of them at once.
"""

from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from delta_store.archive.entry_run import EntryRun
from delta_store.values.stream_message import MessageRun

_TIME_BYTES: Final = 9
"""Of times from 1971 to 2116."""
_SEQ_BYTES_MAX: Final = 9
_HEADER_SIZE_BYTES_MAX: Final = 2
_PAYLOAD_SIZE_BYTES_MAX: Final = 3
_HEAD_BYTES_MAX: Final = 64
_RUN_MESSAGES_MIN: Final = 4
"""Fewer are read faster one by one."""
RUN_MESSAGES_MAX: Final = 4_000
_RUN_BYTES_MAX: Final = 256 * 1024
"""Messages of a run, and about how many bytes of them: as many as may hold up whoever decodes them."""

_SUBJECTS_MAX: Final = 100_000

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.uint64]


def encode_run(run: MessageRun) -> bytes:
    """Return the entries of messages."""
    subjects, seqs, ts_ns, blocks, data = run.columns
    count = len(seqs)
    if not count:
        return b""
    times = np.array(ts_ns, np.int64)
    known: dict[str, bytes] = {}
    names = [known.get(subject) or known.setdefault(subject, subject.encode()) for subject in subjects]
    headers = [block or b"" for block in blocks]
    columns = (
        np.fromiter(map(len, names), np.uint64, count),
        ((times << 1) ^ (times >> 63)).view(np.uint64),
        np.array(seqs, np.uint64),
        np.fromiter(map(len, headers), np.uint64, count),
        np.fromiter(map(len, data), np.uint64, count),
    )
    return b"".join(chain.from_iterable(zip(_heads(columns), names, headers, data, strict=True)))


def _heads(columns: tuple[Numbers, ...]) -> list[bytes]:
    """Return rows of numbers as uvarints."""
    places, present = [], []
    for column in columns:
        rest = column
        is_there = np.ones(len(column), bool)
        while is_there.any():
            further = rest >> np.uint64(7)
            more = further > 0
            places.append((rest.astype(np.uint8) & 0x7F) | (more.astype(np.uint8) << 7))
            present.append(is_there)
            rest, is_there = further, more
    there = np.stack(present, axis=1)
    flat = np.stack(places, axis=1)[there].tobytes()
    ends = np.cumsum(there.sum(axis=1)).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class Split(NamedTuple):
    """What was read at once."""

    run: EntryRun | None
    end: int
    """Where the first entry begins that is left."""
    is_usual: bool
    """False where that one is of a kind that is read one by one."""


def split_run(held: bytes, at: int, most: int, subjects: "SubjectsRead") -> Split:
    """Read messages whose entries are whole from ``at`` on, ``most`` of them, up to one that is unusual or wrong."""
    starts, seq_bytes = _starts(held, at, most)
    if len(starts) < _RUN_MESSAGES_MIN:
        return Split(None, at, is_usual=True)
    raw = np.frombuffer(held, np.uint8)
    places = np.array(starts, np.int64)
    times, seq_places = places + 1, places + 1 + _TIME_BYTES
    names = raw[places].astype(np.int64)
    shifted, has_time = _fixed(raw, times, _TIME_BYTES)
    seqs, has_seq = _fixed(raw, seq_places, seq_bytes)
    headers, behind, has_headers = _uvarints(raw, seq_places + seq_bytes, _HEADER_SIZE_BYTES_MAX)
    payloads, bodies, has_payload = _uvarints(raw, behind, _PAYLOAD_SIZE_BYTES_MAX)
    usual = _leading(has_time & has_seq & has_headers & has_payload & (names > 0) & (names < 0x80))
    name_ends = bodies + names
    header_ends = name_ends + headers
    ends = header_ends + payloads
    count = _leading(ends[:usual] <= len(held))
    if not count:
        return Split(None, at, is_usual=usual > 0)
    try:
        spans = zip(bodies[:count].tolist(), name_ends[:count].tolist(), strict=True)
        names_read = [subjects[held[start:end]] for start, end in spans]
    except UnicodeDecodeError:
        return Split(None, at, is_usual=False)
    blocks = None
    if headers[:count].any():
        spans = zip(name_ends[:count].tolist(), header_ends[:count].tolist(), strict=True)
        blocks = [held[start:end] or None for start, end in spans]
    data = [held[start:end] for start, end in zip(header_ends[:count].tolist(), ends[:count].tolist(), strict=True)]
    shifted, sizes = shifted[:count], (headers + payloads)[:count]
    ts_ns = (shifted >> np.uint64(1)).view(np.int64) ^ -(shifted & np.uint64(1)).view(np.int64)
    run = EntryRun(names_read, seqs[:count], ts_ns, blocks, data, sizes)
    return Split(run, int(ends[count - 1]), is_usual=usual == len(starts))


class SubjectsRead(dict[bytes, str]):
    """SubjectsRead by their bytes, a bounded number of them."""

    def __missing__(self, name: bytes) -> str:
        if len(self) >= _SUBJECTS_MAX:
            self.clear()
        self[name] = subject = name.decode()
        return subject


def _starts(held: bytes, at: int, most: int) -> tuple[list[int], int]:
    """Return where entries begin, as long as they are usual ones, and the bytes of the first one's sequence."""
    stop = min(len(held) - _HEAD_BYTES_MAX, at + _RUN_BYTES_MAX)
    if at >= stop:
        return [], 0
    seq_place = at + 1 + _TIME_BYTES
    seq_bytes = 1
    while held[seq_place + seq_bytes - 1] > 0x7F and seq_bytes < _SEQ_BYTES_MAX:
        seq_bytes += 1
    sizes = 1 + _TIME_BYTES + seq_bytes
    starts: list[int] = []
    add = starts.append
    for _ in range(most):
        add(at)
        place = at + sizes
        header = held[place]
        if header > 0x7F:
            place += 1
            header = header & 0x7F | held[place] << 7
        place += 1
        payload = held[place]
        if payload > 0x7F:
            place += 1
            payload = payload & 0x7F | held[place] << 7
            if payload > 0x3FFF:
                place += 1
                payload = payload & 0x3FFF | held[place] << 14
        at = place + 1 + held[at] + header + payload
        if at >= stop:
            break
    return starts, seq_bytes


def _fixed(raw: Bytes, places: Ints, width: int) -> tuple[Numbers, Mask]:
    """Return uvarints of so many bytes, and which of them are that long."""
    rows = raw[places[:, None] + np.arange(width)]
    fine: Mask = (rows[:, :-1] > 0x7F).all(axis=1) & (rows[:, -1] < 0x80)
    shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
    numbers: Numbers = np.bitwise_or.reduce((rows & 0x7F).astype(np.uint64) << shifts, axis=1)
    return numbers, fine


def _uvarints(raw: Bytes, places: Ints, width_max: int) -> tuple[Ints, Ints, Mask]:
    """Return uvarints, where they end, and which of them have ``width_max`` bytes at most."""
    numbers, ends = np.zeros(len(places), np.int64), places
    goes_on = np.ones(len(places), bool)
    for step in range(width_max):
        byte = raw[places + step]
        numbers = numbers | np.where(goes_on, (byte & 0x7F).astype(np.int64) << 7 * step, 0)
        ends = ends + goes_on
        goes_on = goes_on & (byte > 0x7F)
        if not goes_on.any():
            break
    return numbers, ends, ~goes_on


def _leading(fine: Mask) -> int:
    """Return how many are fine before the first that is not."""
    return len(fine) if fine.all() else int(fine.argmin())
