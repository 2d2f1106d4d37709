"""The check of an archive's entries (ADR-63): order, counts, sizes; nats-server's words for what is wrong."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from delta_store.archive.archived import METADATA_BYTES_MAX, ArchivedConsumer, ArchivedState, Item, read_object
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entries import CONSUMER_PREFIX, STATE_NAME, ArchiveEntry, ArchiveHead
from delta_store.archive.entry_reader import EntryReader
from delta_store.archive.entry_run import EntryRun
from delta_store.archive.message_checker import MessageChecker

_UINT64: Final = 1 << 64


class EntryChecker:
    """A reader of entries that come in parts, which yields what has passed all checks."""

    def __init__(self, messages: MessageChecker, sequence_max: int) -> None:
        """``sequence_max`` bounds the sequences."""
        self._entries = EntryReader(self._check_head)
        self._messages = messages
        self._sequence_max = sequence_max
        self._state: ArchivedState | None = None
        self._consumers_left = 0
        self._names: set[str] = set()

    @property
    def ended(self) -> bool:
        """Whether the archive is whole."""
        return self._entries.ended

    def feed(self, content: bytes) -> Iterator[Item]:
        """Take the next part and iterate over what it completes. Raises :class:`BadArchive`."""
        for entry in self._entries.feed(content):
            yield self._item(entry)
        if self.ended and (self._state is None or self._consumers_left):
            raise BadArchive("expected consumer, found the end" if self._state else "expected state.json first")

    def _check_head(self, head: ArchiveHead) -> None:
        if self._state is None or self._consumers_left:
            if head.header_size + head.payload_size > METADATA_BYTES_MAX:
                raise BadArchive("archive: an entry is too large")
        elif head.seq:
            self._messages.check_head(head.seq, head.header_size + head.payload_size)
        elif any(head):
            raise BadArchive("expected message sequence")

    def _item(self, entry: ArchiveEntry | EntryRun) -> Item:
        if isinstance(entry, EntryRun):
            return self._messages.checked(entry)
        if self._state is None:
            self._state = state = self._read_state(entry)
            self._consumers_left = state.consumers
            self._messages.expect(max(0, state.first_seq - 1), state.last_seq)
            self._entries.in_runs = not state.consumers
            return state
        if self._consumers_left:
            return self._consumer(entry)
        name, ts_ns, seq, headers, payload = entry
        size = len(headers) + len(payload)
        seqs, times, sizes = np.array([seq], np.uint64), np.array([ts_ns], np.int64), np.array([size], np.int64)
        return self._messages.checked(EntryRun([name], seqs, times, [headers] if headers else None, [payload], sizes))

    def _read_state(self, entry: ArchiveEntry) -> ArchivedState:
        if entry.name != STATE_NAME:
            raise BadArchive("expected state.json first")
        shown = read_object(entry.payload, "error in state.json")
        first, last, messages = (_uint64(shown, key) for key in ("first_seq", "last_seq", "messages"))
        consumers = shown.get("consumer_count", 0)
        if type(consumers) is not int or consumers < 0:
            raise BadArchive("invalid stream state: negative consumer count")
        if first > last:
            if first - 1 != last or messages:
                raise BadArchive("invalid stream state: inconsistent message count or sequence range")
        elif first == 0:
            if last or messages:
                raise BadArchive("invalid stream state: inconsistent message count or sequence range")
        elif messages > last - first + 1:
            raise BadArchive("invalid stream state: message count exceeds sequence range")
        if last > self._sequence_max:
            raise BadArchive(f"the last sequence is beyond {self._sequence_max}")
        return ArchivedState(first, last, messages, consumers)

    def _consumer(self, entry: ArchiveEntry) -> ArchivedConsumer:
        name = entry.name.removeprefix(CONSUMER_PREFIX)
        if name == entry.name:
            raise BadArchive(f'expected consumer, found "{entry.name}"')
        if not name or name in self._names:
            raise BadArchive(f'failed to add consumer "{name}": its name is empty or taken')
        self._names.add(name)
        self._consumers_left -= 1
        self._entries.in_runs = not self._consumers_left
        return ArchivedConsumer(name, entry.payload)


def _uint64(shown: dict[str, Any], key: str) -> int:
    value = shown.get(key, 0)
    if type(value) is not int or not 0 <= value < _UINT64:
        raise BadArchive(f"error in state.json: {key} is no sequence or count")
    return value
