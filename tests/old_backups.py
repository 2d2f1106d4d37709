"""Backups as nats-server wrote them before 2.15, made by hand: a tar of blocks, a state and consumers, as S2 frames."""

import io
import json
import struct
import tarfile
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from delta_store.archive import s2_frames
from tests.highway import highway_hash

STREAM: Final = "S"
ERASED: Final = 1 << 63
DELETED: Final = 1 << 62


class Record(NamedTuple):
    """A message of a block; ``mark`` is 0, or says that it is erased, or that this sequence is deleted."""

    seq: int
    ts_ns: int
    subject: str = ""
    headers: bytes = b""
    data: bytes = b""
    mark: int = 0


def hash_of(content: bytes, key: str = STREAM) -> bytes:
    """The hash of what a server stores, by the key that it makes of a name."""
    return highway_hash(content, sha256(key.encode()).digest())


def block(records: Sequence[Record], number: int = 1) -> bytes:
    """A block of these records."""
    parts = []
    for record in records:
        subject = record.subject.encode()
        place = struct.pack("<Qq", record.seq | record.mark, record.ts_ns)
        said = hash_of(place + subject + record.headers + record.data, f"{STREAM}-{number}")
        headers = struct.pack("<I", len(record.headers)) + record.headers if record.headers else b""
        body = subject + headers + record.data + said
        length = 22 + len(body) | (1 << 31 if headers else 0)
        parts.append(struct.pack("<I", length) + place + struct.pack("<H", len(subject)) + body)
    return b"".join(parts)


def uvarint(value: int) -> bytes:
    """A number as Go writes it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def state(
    messages: int,
    first: int,
    last: int,
    deleted: Sequence[int] = (),
    *,
    last_block: int = 1,
    last_hash: bytes = bytes(8),
    version: int = 3,
    subjects: Sequence[tuple[str, int]] = (("s", 1), ("t", 2)),
) -> bytes:
    """The file ``index.db`` of a stream whose deleted sequences are told by two blocks."""
    parts = [bytes((11, version)), *map(uvarint, (messages, 1, first, 0, last, 0, len(subjects)))]
    for name, total in subjects:
        parts += [uvarint(len(name)), name.encode(), uvarint(total), uvarint(1)]
        parts += [uvarint(1)] if total > 1 or version >= 4 else []
    parts.append(uvarint(2))
    for gone in (deleted[::2], deleted[1::2]):
        parts += map(uvarint, (1, 1, first, 0, last, 0, len(gone), *[0] * (min(version, 3) - 1)))
        parts += [_sequence_set(gone)] if gone else []
    content = b"".join((*parts, uvarint(last_block), last_hash))
    return content + hash_of(content)


def _sequence_set(seqs: Sequence[int]) -> bytes:
    bases = sorted({seq // 2048 * 2048 for seq in seqs})
    nodes = []
    for base in bases:
        bits = sum(1 << seq - base for seq in seqs if base <= seq < base + 2048)
        nodes.append(struct.pack("<Q", base) + bits.to_bytes(256, "little") + struct.pack("<H", 1))
    return bytes((22, 2)) + struct.pack("<II", len(bases), len(seqs)) + b"".join(nodes)


def consumer_state(floor: tuple[int, int], delivered: tuple[int, int], pending: dict[int, tuple[int, int]]) -> bytes:
    """The file ``o.dat``: ``pending`` are sequences, with the consumer's and the time in seconds."""
    base = max((seconds for _, seconds in pending.values()), default=0)
    parts = [bytes((22, 2)), *map(uvarint, (*floor, *delivered, len(pending)))]
    if pending:
        parts.append(uvarint(base << 1))
    for seq, (consumer_seq, seconds) in pending.items():
        parts += map(uvarint, (seq - floor[1], consumer_seq - floor[0], (base - seconds) << 1))
    return b"".join((*parts, uvarint(0)))


Files = Sequence[tuple[str, bytes]]


def files(
    name: str, blocks: Sequence[bytes], index: bytes | None, consumers: Sequence[tuple[str, Any, bytes]] = ()
) -> list[tuple[str, bytes]]:
    """The files of a backup; ``consumers`` are names, configurations and states."""
    meta = json.dumps({"Created": "2026-01-01T00:00:00Z", "name": name}).encode()
    found = [("meta.inf", meta), ("meta.sum", hash_of(meta, name).hex().encode())]
    found += [(f"msgs/{number}.blk", content) for number, content in enumerate(blocks, 1)]
    found += [("msgs/index.db", index)] if index is not None else []
    for consumer, config, progress in consumers:
        folder, shown = f"obs/{consumer}", json.dumps(config).encode()
        found += [
            (f"{folder}/meta.inf", shown),
            (f"{folder}/meta.sum", hash_of(shown, f"{name}/{consumer}").hex().encode()),
            (f"{folder}/o.dat", progress),
        ]
    return found


def tar(content: Files) -> bytes:
    """A tar of these files, with PAX records as Go writes them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in content:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_764_000_000.123456  # so a record is written
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def framed(content: bytes) -> bytes:
    """Content as S2 frames."""
    return s2_frames.BEGIN + s2_frames.encode(content)
