"""A file in memory, for writers of Arrow that know nothing but files."""

import io
from typing import Any


class ByteSink(io.RawIOBase):
    """A file that gives away what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Keep a copy of the bytes."""
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken
