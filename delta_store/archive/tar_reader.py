"""The files of a tar archive that comes in parts: plain files of POSIX's format, with PAX records for long names.

That is what Go's ``archive/tar`` writes for nats-server; links, folders and older formats are refused. Source: POSIX
pax, "ustar Interchange Format" and "pax Extended Header".
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from delta_store.archive.bad_archive import BadArchive

BLOCK_BYTES: Final = 512
_MAGIC: Final = slice(257, 263)
_CHECKSUM: Final = slice(148, 156)
_PAX_BYTES_MAX: Final = 64 * 1024
_INVALID: Final = "archive: invalid tar archive"


class TarFile(NamedTuple):
    """One file, whole."""

    name: str
    content: bytes


class _Head(NamedTuple):
    """What stands before a file."""

    name: str
    size: int
    is_pax: bool


def is_tar(begin: bytes) -> bool:
    """Whether a tar archive begins so; ``begin`` has :data:`BLOCK_BYTES` at least."""
    return begin[_MAGIC] == b"ustar\0"


class TarReader:
    """A reader of files; it holds one file and one part at most."""

    def __init__(self, bytes_max: Callable[[str], int]) -> None:
        """``bytes_max`` gives the most bytes of the file of a name; it raises :class:`BadArchive` for a wrong name."""
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._head: _Head | None = None
        self._pax: dict[str, str] = {}
        """The PAX records for the next file."""
        self.ended = False
        """Whether the end has been read; whatever follows it is dropped."""

    def feed(self, part: bytes) -> Iterator[TarFile]:
        """Take the next part; iterate over the files that it completes, all of them. Raises :class:`BadArchive`."""
        if self.ended:
            return
        self._parts.append(part)
        self._held_bytes += len(part)
        if self._held_bytes < self._needed:
            return
        held, at = b"".join(self._parts), 0
        while len(held) - at >= self._needed and not self.ended:
            size = self._needed
            if self._head is None:
                self._begin(held[at : at + size])
            else:
                head, self._head = self._head, None
                content = held[at : at + head.size]
                if head.is_pax:
                    self._pax = _pax_records(content)
                else:
                    yield TarFile(head.name, content)
            at += size
        self._parts = [held[at:]]
        self._held_bytes = len(held) - at

    @property
    def _needed(self) -> int:
        """Bytes of what comes next, a head or a file's content."""
        return BLOCK_BYTES if self._head is None else -(-self._head.size // BLOCK_BYTES) * BLOCK_BYTES

    def _begin(self, block: bytes) -> None:
        """Read a head."""
        if not any(block):
            self.ended = True
            return
        if not is_tar(block) or _checksum(block) != _octal(block[_CHECKSUM]):
            raise BadArchive(_INVALID)
        kind, size = block[156:157], _octal(block[124:136])
        if kind == b"x":
            if size > _PAX_BYTES_MAX:
                raise BadArchive("archive: an entry is too large")
            self._head = _Head("", size, is_pax=True)
            return
        if kind not in (b"0", b"\0"):
            raise BadArchive("archive: an entry that is no file")
        pax, self._pax = self._pax, {}
        name = pax.get("path") or "/".join(filter(None, (_text(block[345:500]), _text(block[:100]))))
        size = _decimal(pax["size"]) if "size" in pax else size
        if size > self._bytes_max(name):
            raise BadArchive(f'archive: "{name}" is too large')
        self._head = _Head(name, size, is_pax=False)


def _checksum(block: bytes) -> int:
    return sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ")


def _octal(field: bytes) -> int:
    try:
        return int(field.rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        raise BadArchive(_INVALID) from None


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise BadArchive(_INVALID)
    return int(text)


def _text(field: bytes) -> str:
    try:
        return field.split(b"\0", 1)[0].decode()
    except UnicodeDecodeError:
        raise BadArchive(_INVALID) from None


def _pax_records(content: bytes) -> dict[str, str]:
    r"""Return records of the form ``<length> <key>=<value>\\n``."""
    records: dict[str, str] = {}
    at = 0
    while at < len(content):
        size, blank, _ = content[at : at + 8].partition(b" ")
        end = at + _decimal(_text(size))
        record, place = content[at:end], len(size) + 1
        key, equals, value = record[place:-1].partition(b"=")
        if not blank or not equals or end > len(content) or not record.endswith(b"\n"):
            raise BadArchive(_INVALID)
        records[_text(key)] = _text(value)
        at = end
    return records
