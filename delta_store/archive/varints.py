"""Go's variable-length integers, read one after another. Source: encoding/binary."""

from typing import Final

from delta_store.archive.bad_archive import BadArchive

_UINT64: Final = 1 << 64
_BYTES_MAX: Final = 10


class VarintReader:
    """A reader of numbers, and of bytes between them."""

    def __init__(self, content: bytes, at: int, fault: str) -> None:
        """Begin at ``at``; ``fault`` is the text of :class:`BadArchive` where the content ends too early."""
        self._content = content
        self._at = at
        self._fault = fault

    def unsigned(self) -> int:
        """Read a number without a sign."""
        value = 0
        for place, byte in enumerate(self._content[self._at : self._at + _BYTES_MAX]):
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80 and value < _UINT64:
                self._at += place + 1
                return value
        raise BadArchive(self._fault)

    def signed(self) -> int:
        """Read a number with a sign."""
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)

    def take(self, size: int) -> bytes:
        """Read so many bytes."""
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise BadArchive(self._fault)
        self._at += size
        return taken
