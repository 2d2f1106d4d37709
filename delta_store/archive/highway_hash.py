"""HighwayHash of 64 bits, of many contents at a time: the checksum of records in nats-server's file store.

A hash takes its content in packets of 32 bytes, one after the other, each by some twenty operations on four lanes. All
contents are taken through their packets side by side, so that what numpy costs is shared by as many as there are:
hundreds of megabytes a second for a block of small records, two for one content alone. Source: J. Alakuijala, B. Cox,
J. Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply and permute" (arXiv 1612.06257).
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

HASH_BYTES: Final = 8
PACKET_BYTES: Final = 32
_LANES: Final = 4
_ROUNDS_AT_END: Final = 4
_INIT_0: Final = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_INIT_1: Final = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_MERGED: Final = np.array((3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7))
"""Where each byte of two merged lanes comes from."""
_CROSSED: Final = np.array((2, 3, 0, 1))
_PADDING: Final = tuple(bytes(-size % PACKET_BYTES) for size in range(PACKET_BYTES))

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


def key_of(name: str) -> bytes:
    """Return the key that nats-server makes of a name."""
    return sha256(name.encode()).digest()


def padding(size: int) -> bytes:
    """Return what fills a content of this size up to whole packets."""
    return _PADDING[size % PACKET_BYTES]


def hashes(contents: bytes, sizes: Sequence[int] | Ints, key: bytes) -> Words:
    """Return the hash of each content; ``contents`` has them one after the other, each with its :func:`padding`."""
    lengths = np.asarray(sizes, np.int64)
    packets = np.frombuffer(contents, np.uint64).reshape(-1, _LANES)
    spans = -(-lengths // PACKET_BYTES)
    starts, whole, rest = np.cumsum(spans) - spans, lengths // PACKET_BYTES, lengths % PACKET_BYTES
    order = np.argsort(-whole, kind="stable")
    starts, whole, rest = starts[order], whole[order], rest[order]
    state = _State.begun(key, len(order))
    active = len(order) - np.cumsum(np.bincount(whole)) if len(order) else whole
    for step, count in enumerate(active[:-1].tolist()):
        state.first(count).update(packets[starts[:count] + step])
    ends = np.flatnonzero(rest)
    if len(ends):
        _end(state, ends, packets[starts[ends] + whole[ends]], rest[ends])
    found = np.empty(len(order), np.uint64)
    found[order] = state.finished()
    return found


class _State(NamedTuple):
    """The states of some hashes: a row of lanes for each."""

    v0: Words
    v1: Words
    mul0: Words
    mul1: Words

    @classmethod
    def begun(cls, key: bytes, number: int) -> Self:
        """Begin so many with one key."""
        lanes, init_0, init_1 = (
            np.frombuffer(key, np.uint64),
            np.array(_INIT_0, np.uint64),
            np.array(_INIT_1, np.uint64),
        )
        turned = lanes >> _HALF | lanes << _HALF
        return cls(*(np.tile(one, (number, 1)) for one in (init_0 ^ lanes, init_1 ^ turned, init_0, init_1)))

    def first(self, number: int) -> "_State":
        """Return the first of them, to be changed in place."""
        return self if number == len(self.v0) else _State(*(one[:number] for one in self))

    def update(self, packets: Words) -> None:
        """Take a packet each."""
        v0, v1, mul0, mul1 = self
        v1 += mul0
        v1 += packets
        mul0 ^= (v1 & _LOW) * (v0 >> _HALF)
        v0 += mul1
        mul1 ^= (v0 & _LOW) * (v1 >> _HALF)
        v0 += _merged(v1)
        v1 += _merged(v0)

    def finished(self) -> Words:
        """Return the hashes."""
        for _ in range(_ROUNDS_AT_END):
            crossed = self.v0.take(_CROSSED, axis=1)
            self.update(crossed >> _HALF | crossed << _HALF)
        return sum(one[:, 0] for one in self[1:]) + self.v0[:, 0]


def _merged(lanes: Words) -> Words:
    """Return pairs of lanes with their bytes in another order ("zipper merge")."""
    return lanes.view(np.uint8).reshape(-1, 16).take(_MERGED, axis=1).view(np.uint64).reshape(-1, _LANES)


def _end(state: _State, places: Ints, packets: Words, sizes: Ints) -> None:
    """Take the last packets of those at ``places``, which are not whole: ``sizes`` bytes."""
    mine = _State(*(one[places] for one in state))
    turns = sizes.astype(np.uint64)[:, None]
    lanes = mine.v0
    lanes += turns << _HALF | turns
    low, high = (half << turns | half >> _HALF - turns for half in (mine.v1 & _LOW, mine.v1 >> _HALF))
    mine.v1[:] = (low & _LOW) | high << _HALF
    mine.update(_last_packets(packets, sizes))
    for one, changed in zip(state, mine, strict=True):
        one[places] = changed


def _last_packets(packets: Words, sizes: Ints) -> Words:
    """Return packets as the hash has them that are filled in part: the words that are whole, and the bytes behind."""
    raw = packets.view(np.uint8).reshape(-1, PACKET_BYTES)
    behind = sizes % 4
    kept = np.where(np.arange(PACKET_BYTES) < (sizes - behind)[:, None], raw, np.uint8(0))
    large = np.flatnonzero(sizes >= 16)
    kept[large, 28:] = raw[large[:, None], sizes[large, None] + np.arange(-4, 0)]
    few = np.flatnonzero((sizes < 16) & (behind > 0))
    firsts = sizes[few] - behind[few]
    for place, offset in ((16, 0), (17, behind[few] >> 1), (18, behind[few] - 1)):
        kept[few, place] = raw[few, firsts + offset]
    return kept.view(np.uint64)
