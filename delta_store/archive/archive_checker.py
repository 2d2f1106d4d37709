"""The check of a whole archive, entry by entry: order, counts, sizes; nats-server's words for what is wrong."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entries import CONSUMER_PREFIX, STATE_NAME, ArchiveEntry, ArchiveHead
from delta_store.archive.entry_reader import EntryReader
from delta_store.archive.s2_frames import FrameReader
from delta_store.values.stream_message import MessageRun

_METADATA_BYTES_MAX: Final = 64 * 1024 * 1024
_UINT64: Final = 1 << 64


class ArchivedState(NamedTuple):
    """The bounds of an archived stream."""

    first_seq: int
    last_seq: int
    messages: int
    consumers: int


class ArchivedConsumer(NamedTuple):
    """A consumer's entry."""

    name: str
    content: bytes


Item = ArchivedState | ArchivedConsumer | MessageRun
"""What an archive holds, in this order: one state, its consumers, messages."""


class ArchiveChecker:
    """A reader of an archive that comes in parts, which yields what has passed all checks."""

    def __init__(self, *, message_bytes_max: int, sequence_max: int, valid_subject: Callable[[str], bool]) -> None:
        """``message_bytes_max`` bounds headers and payload of a message, ``sequence_max`` the sequences."""
        self._frames = FrameReader()
        self._entries = EntryReader(self._check_head)
        self._message_bytes_max = message_bytes_max
        self._sequence_max = sequence_max
        self._valid_subject = valid_subject
        self._state: ArchivedState | None = None
        self._consumers_left = 0
        self._names: set[str] = set()
        self._last_seq = 0

    @property
    def ended(self) -> bool:
        """Whether the archive is whole."""
        return self._entries.ended

    def feed(self, part: bytes) -> Iterator[Item]:
        """Take the next part and iterate over what it completes. Raises :class:`BadArchive`."""
        if self.ended:
            return
        for content in self._frames.feed(part):
            for entry in self._entries.feed(content):
                yield self._item(entry)
            if self.ended:
                self._check_end()
                return

    def _check_head(self, head: ArchiveHead) -> None:
        if self._state is None or self._consumers_left:
            if head.header_size + head.payload_size > _METADATA_BYTES_MAX:
                raise BadArchive("archive: an entry is too large")
            return
        if not head.seq:
            if any(head):
                raise BadArchive("expected message sequence")
        elif head.header_size + head.payload_size > self._message_bytes_max:
            raise BadArchive(f"message sequence {head.seq} exceeds maximum message size")
        elif head.seq <= self._last_seq:
            raise BadArchive(f"message sequence {head.seq} out of order")
        elif head.seq > self._state.last_seq:
            raise BadArchive(f"message sequence {head.seq} is behind the last sequence, {self._state.last_seq}")

    def _item(self, entry: ArchiveEntry | MessageRun) -> Item:
        if isinstance(entry, MessageRun):
            return self._messages(entry)
        if self._state is None:
            self._state = state = self._read_state(entry)
            self._consumers_left, self._last_seq = state.consumers, max(0, state.first_seq - 1)
            self._entries.in_runs = not state.consumers
            return state
        if self._consumers_left:
            return self._consumer(entry)
        name, ts_ns, seq, headers, payload = entry
        self._check_subject(name, seq)
        self._last_seq = seq
        return MessageRun(((name,), (seq,), (ts_ns,), (headers or None,), (payload,)))

    def _messages(self, run: MessageRun) -> MessageRun:
        """Check messages at once, and one by one where something is wrong, so that the first is what is told."""
        if self._state is None:
            raise BadArchive("expected state.json first")
        subjects, seqs, _, headers, data = run.columns
        order = np.array((self._last_seq, *seqs, self._state.last_seq + 1), np.uint64)
        largest = max(map(len, data)) + max(len(block) if block else 0 for block in headers)
        is_fine = bool((order[1:] > order[:-1]).all()) and largest <= self._message_bytes_max
        if not is_fine or not all(map(self._valid_subject, frozenset(subjects))):
            for subject, seq, ts_ns, block, payload in run:
                self._check_head(ArchiveHead(len(subject), ts_ns, seq, len(block or b""), len(payload)))
                self._check_subject(subject, seq)
                self._last_seq = seq
        self._last_seq = seqs[-1]
        return run

    def _check_subject(self, subject: str, seq: int) -> None:
        if not self._valid_subject(subject):
            raise BadArchive(f"message sequence {seq} has an invalid subject")

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

    def _check_end(self) -> None:
        if self._state is None or self._consumers_left:
            raise BadArchive("expected consumer, found the end" if self._state else "expected state.json first")


def read_object(content: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object. Raises :class:`BadArchive`, whose text begins with ``what``."""
    try:
        shown = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadArchive(f"{what}: {error}") from None
    if not isinstance(shown, dict):
        raise BadArchive(f"{what}: it is no object")
    return shown


def _uint64(shown: dict[str, Any], key: str) -> int:
    value = shown.get(key, 0)
    if type(value) is not int or not 0 <= value < _UINT64:
        raise BadArchive(f"error in state.json: {key} is no sequence or count")
    return value
