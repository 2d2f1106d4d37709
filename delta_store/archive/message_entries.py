"""Many messages of an archive at a time: their heads as columns of numbers, the rest as slices.

Where the next entry begins only the sizes of this one say. So a loop goes from entry to entry with what the heads of
messages have in common, and what it assumed is checked for all of them at once.
"""

from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from delta_store.values.stream_message import MessageRun

_TIME_BYTES: Final = 9
"""Of times from 1971 to 2116."""
_SEQ_BYTES_MAX: Final = 9
_HEAD_BYTES_MAX: Final = 64
RUN_MESSAGES_MAX: Final = 4_000
"""Messages of a run: as many as may hold up whoever decodes them."""

Ints = npt.NDArray[np.int64]
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


def split_run(held: bytes, at: int) -> tuple[MessageRun, int]:
    """Return the messages whose entries are whole from ``at`` on, and where the first that is left begins.

    The last ones, and all where one is unusual or wrong, are left to be read one by one.
    """
    nothing = MessageRun(((), (), (), (), ()))
    places = _places(held, at)
    if not places.ends:
        return nothing, at
    raw = np.frombuffer(held, np.uint8)
    times, seq_ends = np.array(places.times, np.int64), np.array(places.seq_ends, np.int64)
    seq_starts = times + _TIME_BYTES
    shifted = _uvarints(raw, times, np.full(len(times), _TIME_BYTES, np.int64))
    seqs = _uvarints(raw, seq_starts, seq_ends - seq_starts)
    if shifted is None or seqs is None:
        return nothing, at
    subjects = _Subjects()
    _, _, bodies, name_ends, header_ends, ends = places
    try:
        names = [subjects[held[start:end]] for start, end in zip(bodies, name_ends, strict=True)]
    except UnicodeDecodeError:
        return nothing, at
    headers = [held[start:end] or None for start, end in zip(name_ends, header_ends, strict=True)]
    data = [held[start:end] for start, end in zip(header_ends, ends, strict=True)]
    ts_ns = (shifted >> np.uint64(1)).view(np.int64) ^ -(shifted & np.uint64(1)).view(np.int64)
    return MessageRun((names, seqs.tolist(), ts_ns.tolist(), headers, data)), ends[-1]


class _Subjects(dict[bytes, str]):
    """Subjects by their bytes."""

    def __missing__(self, name: bytes) -> str:
        self[name] = subject = name.decode()
        return subject


class _Places(NamedTuple):
    """Where the parts of entries begin or end, if their times and sequences have the bytes that are assumed."""

    times: list[int]
    seq_ends: list[int]
    bodies: list[int]
    name_ends: list[int]
    header_ends: list[int]
    ends: list[int]


def _places(held: bytes, at: int) -> _Places:
    places = _Places([], [], [], [], [], [])
    add_time, add_seq_end, add_body, add_name_end, add_header_end, add_end = (known.append for known in places)
    end, seq_bytes = len(held), 1
    while at < end - _HEAD_BYTES_MAX and len(places.ends) < RUN_MESSAGES_MAX:
        name, time = held[at], at + 1
        if name > 0x7F:
            name, time = _number(held, at)
        seq_end = time + _TIME_BYTES + seq_bytes
        while held[seq_end - 1] > 0x7F and seq_bytes < _SEQ_BYTES_MAX:
            seq_end += 1
            seq_bytes += 1
        header, place = held[seq_end], seq_end + 1
        if header > 0x7F:
            header, place = _number(held, seq_end)
        payload, body = held[place], place + 1
        if payload > 0x7F and held[body] <= 0x7F:
            payload, body = payload & 0x7F | held[body] << 7, body + 1
        elif payload > 0x7F:
            payload, body = _number(held, place)
        name_end = body + name
        header_end = name_end + header
        at = header_end + payload
        if not name or at > end:
            break
        add_time(time)
        add_seq_end(seq_end)
        add_body(body)
        add_name_end(name_end)
        add_header_end(header_end)
        add_end(at)
    return places


def _number(held: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = shift = 0
    while held[at] > 0x7F and shift < 7 * _SEQ_BYTES_MAX:
        value |= (held[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | held[at] << shift, at + 1


def _uvarints(raw: npt.NDArray[np.uint8], starts: Ints, widths: Ints) -> Numbers | None:
    """Return numbers of so many bytes; None where one has more or fewer."""
    numbers = np.zeros(len(starts), np.uint64)
    for place in range(int(widths.max())):
        byte = raw[starts + place]
        within = widths > place
        if ((byte < 0x80) != (widths == place + 1))[within].any():
            return None
        numbers |= np.where(within, (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place), np.uint64(0))
    return numbers
