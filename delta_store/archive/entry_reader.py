"""The reading of an archive's entries from content that comes in parts."""

from collections.abc import Callable, Iterator
from typing import Final

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entries import END, MAGIC, ArchiveEntry, ArchiveHead
from delta_store.archive.entry_run import EntryRun
from delta_store.archive.message_entries import RUN_MESSAGES_MAX, SubjectsRead, split_run

_INVALID: Final = "archive: invalid archive stream"
_NAME_BYTES_MAX: Final = 1024 * 1024
_UINT64: Final = 1 << 64
_INT63: Final = (1 << 63) - 1
_VARINT_BYTES_MAX: Final = 10
_FIELDS: Final = len(ArchiveHead._fields)


class EntryReader:
    """A reader of entries; it holds one entry and one part at most."""

    def __init__(self, check: Callable[[ArchiveHead], None]) -> None:
        """``check`` raises :class:`BadArchive` for an entry that is not to be waited for, such as one too large."""
        self._check = check
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._begun = False
        self._head: ArchiveHead | None = None
        self._left = 0
        self._subjects = SubjectsRead()
        self._most = RUN_MESSAGES_MAX
        """Messages that are looked for at once: few behind unusual ones."""
        self.in_runs = False
        """Whether messages may come as runs, which the check does not see; it may be set between two entries."""
        self.ended = False
        """Whether the last entry has been read; whatever follows it is dropped."""

    def feed(self, part: bytes) -> Iterator[ArchiveEntry | EntryRun]:
        """Take the next part; iterate over the entries that it completes, all of them. Raises :class:`BadArchive`."""
        if self.ended:
            return
        self._parts.append(part)
        self._held_bytes += len(part)
        if self._held_bytes < self._left:
            return
        held = part if len(self._parts) == 1 else b"".join(self._parts)
        at = 0 if self._begun else self._begin(held)
        while self._begun:
            while self.in_runs and self._head is None:
                run, at = self._run(held, at)
                if run is None:
                    break
                yield run
            entry, at = self._next(held, at)
            if entry is None:
                break
            if entry == END:
                self.ended = True
                self._parts.clear()
                return
            yield entry
        self._parts = [held[at:]]
        self._held_bytes = len(held) - at

    def _run(self, held: bytes, at: int) -> tuple[EntryRun | None, int]:
        """Return messages that are read at once, None for none, and where the next entry begins."""
        run, end, is_usual = split_run(held, at, self._most, self._subjects)
        found = run.messages if run is not None else 0
        self._most = min(RUN_MESSAGES_MAX, self._most * 4 if is_usual else max(16, 4 * found))
        return run, end

    def _begin(self, held: bytes) -> int:
        """Return where the first entry begins."""
        if not (held.startswith(MAGIC) or MAGIC.startswith(held)):
            raise BadArchive(_INVALID)
        self._begun = len(held) >= len(MAGIC)
        return len(MAGIC) if self._begun else 0

    def _next(self, held: bytes, at: int) -> tuple[ArchiveEntry | None, int]:
        """Return the next entry, None where more is needed, and where the one behind it begins."""
        if self._head is None:
            numbers, body = _numbers(held, at)
            if len(numbers) < _FIELDS:
                return None, at
            self._head, at = _checked(numbers), body
            self._check(self._head)
        name_size, ts_ns, seq, header_size, payload_size = self._head
        name_end = at + name_size
        headers_end = name_end + header_size
        end = headers_end + payload_size
        if end > len(held):
            self._left = end - at
            return None, at
        try:
            name = held[at:name_end].decode()
        except UnicodeDecodeError:
            raise BadArchive(_INVALID) from None
        self._head, self._left = None, 0
        return ArchiveEntry(name, ts_ns, seq, held[name_end:headers_end], held[headers_end:end]), end


def _numbers(held: bytes, at: int) -> tuple[list[int], int]:
    """Return the numbers of a head, as many as are there whole, and where they end."""
    numbers: list[int] = []
    end = len(held)
    while len(numbers) < _FIELDS:
        value = shift = 0
        while True:
            if at >= end:
                return numbers, at
            byte = held[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= 7 * _VARINT_BYTES_MAX:
                raise BadArchive(_INVALID)
        if value >= _UINT64:
            raise BadArchive(_INVALID)
        numbers.append(value)
    return numbers, at


def _checked(numbers: list[int]) -> ArchiveHead:
    name_size, ts_ns, seq, header_size, payload_size = numbers
    if name_size > _NAME_BYTES_MAX or header_size + payload_size > _INT63:
        raise BadArchive(_INVALID)
    return ArchiveHead(name_size, ts_ns >> 1 ^ -(ts_ns & 1), seq, header_size, payload_size)
