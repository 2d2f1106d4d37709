"""HighwayHash-64 of one content by plain integers, as the paper writes it down: what the fast one is compared with."""

from typing import Final

_INIT_0: Final = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_INIT_1: Final = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_ORDER: Final = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
_64: Final = 2**64 - 1
_32: Final = 2**32 - 1


def _turned(word: int) -> int:
    return (word >> 32 | word << 32) & _64


def _merged(lanes: list[int]) -> list[int]:
    out = []
    for at in (0, 2):
        raw = lanes[at].to_bytes(8, "little") + lanes[at + 1].to_bytes(8, "little")
        mixed = bytes(raw[place] for place in _ORDER)
        out += [int.from_bytes(mixed[:8], "little"), int.from_bytes(mixed[8:], "little")]
    return out


class _Hash:
    def __init__(self, key: bytes) -> None:
        lanes = [int.from_bytes(key[at : at + 8], "little") for at in range(0, 32, 8)]
        self.mul0, self.mul1 = list(_INIT_0), list(_INIT_1)
        self.v0 = [one ^ lane for one, lane in zip(_INIT_0, lanes, strict=True)]
        self.v1 = [one ^ _turned(lane) for one, lane in zip(_INIT_1, lanes, strict=True)]

    def take(self, packet: list[int]) -> None:
        for lane in range(4):
            self.v1[lane] = self.v1[lane] + self.mul0[lane] + packet[lane] & _64
            self.mul0[lane] ^= (self.v1[lane] & _32) * (self.v0[lane] >> 32)
            self.v0[lane] = self.v0[lane] + self.mul1[lane] & _64
            self.mul1[lane] ^= (self.v0[lane] & _32) * (self.v1[lane] >> 32)
        self.v0 = [one + two & _64 for one, two in zip(self.v0, _merged(self.v1), strict=True)]
        self.v1 = [one + two & _64 for one, two in zip(self.v1, _merged(self.v0), strict=True)]

    def take_rest(self, rest: bytes) -> None:
        size = len(rest)
        self.v0 = [lane + (size << 32) + size & _64 for lane in self.v0]

        def turned(half: int) -> int:
            return (half << size | half >> 32 - size) & _32

        self.v1 = [turned(lane >> 32) << 32 | turned(lane & _32) for lane in self.v1]
        words = size & ~3
        packet = bytearray(rest[:words].ljust(32, b"\0"))
        if size >= 16:
            packet[28:] = rest[-4:]
        elif size & 3:
            packet[16:19] = bytes((rest[words], rest[words + (size & 3) // 2], rest[-1]))
        self.take(_words(bytes(packet)))


def _words(packet: bytes) -> list[int]:
    return [int.from_bytes(packet[at : at + 8], "little") for at in range(0, 32, 8)]


def highway_hash(content: bytes, key: bytes) -> bytes:
    """The hash of a content."""
    hashed = _Hash(key)
    whole = len(content) & ~31
    for at in range(0, whole, 32):
        hashed.take(_words(content[at : at + 32]))
    if content[whole:]:
        hashed.take_rest(content[whole:])
    for _ in range(4):
        hashed.take([_turned(hashed.v0[lane]) for lane in (2, 3, 0, 1)])
    return (hashed.v0[0] + hashed.v1[0] + hashed.mul0[0] + hashed.mul1[0] & _64).to_bytes(8, "little")
