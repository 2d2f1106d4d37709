"""CRC-32C (Castagnoli) of a block, by numpy: lanes of 64 bytes side by side, then joined in pairs.

A CRC is linear: that of ``a + b`` is that of ``a``, moved over as many zero bytes as ``b`` has, xor that of ``b``. So
all lanes advance by two bytes a step, and neighbours are joined by tables for a move over 64 bytes, 128, and so on.
"""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

_POLYNOMIAL: Final = 0x82F63B78
_LANE: Final = 64
_START: Final = np.full(4, 0xFF, np.uint8)

Words = npt.NDArray[np.uint32]


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of ``data``."""
    size = len(data)
    if size < len(_START):
        return _bytewise(data)
    padded = np.zeros(-(-size // _LANE) * _LANE, np.uint8)
    front = len(padded) - size
    padded[front:] = np.frombuffer(data, np.uint8)
    padded[front : front + 4] ^= _START
    table = _double()
    state: Words = np.zeros(len(padded) // _LANE, np.uint32)
    for words in np.ascontiguousarray(padded.view("<u2").reshape(-1, _LANE // 2).T):
        state = table[(state & 0xFFFF) ^ words] ^ (state >> 16)
    level = 0
    while len(state) > 1:
        if len(state) % 2:
            state = np.concatenate((np.zeros(1, np.uint32), state))
        state = _moved(_tables(level), state[::2]) ^ state[1::2]
        level += 1
    return int(state[0]) ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """Return the checksum of a frame: the CRC-32C, rotated and shifted, as the framing format asks."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _bytewise(data: bytes) -> int:
    table, crc = _single(), 0xFFFFFFFF
    for byte in data:
        crc = int(table[(crc ^ byte) & 0xFF]) ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@lru_cache(maxsize=1)
def _single() -> Words:
    """Return the state after one more byte, by the lowest byte of the state before."""
    table: Words = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = ((table >> 1) ^ (table & 1) * _POLYNOMIAL).astype(np.uint32)
    return table


@lru_cache(maxsize=1)
def _double() -> Words:
    """Return the state after two more bytes, by the lowest two of the state before."""
    table = _single()
    low = table[np.arange(65536) & 0xFF] ^ (np.arange(65536, dtype=np.uint32) >> 8)
    moved: Words = table[low & 0xFF] ^ (low >> 8)
    return moved


@lru_cache(maxsize=32)
def _tables(level: int) -> tuple[Words, ...]:
    """Return four tables, one a byte of the state, that move it over ``64 << level`` zero bytes."""
    bits: Words = np.uint32(1) << np.arange(32, dtype=np.uint32)
    if level:
        before = _tables(level - 1)
        columns = _moved(before, _moved(before, bits))
    else:
        columns = bits
        for _ in range(_LANE):
            columns = _single()[columns & 0xFF] ^ (columns >> 8)
    spread = (np.arange(256)[:, None] >> np.arange(8)) & 1
    parts = (np.bitwise_xor.reduce(np.where(spread, columns[at : at + 8], 0), axis=1) for at in range(0, 32, 8))
    return tuple(part.astype(np.uint32) for part in parts)


def _moved(tables: tuple[Words, ...], state: Words) -> Words:
    first, second, third, fourth = tables
    moved: Words = first[state & 0xFF] ^ second[(state >> 8) & 0xFF] ^ third[(state >> 16) & 0xFF] ^ fourth[state >> 24]
    return moved
