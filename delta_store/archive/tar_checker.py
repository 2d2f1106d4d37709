"""The check of a backup by a nats-server before 2.15: a tar of the files of its store.

They are, in this order, ``meta.inf`` and ``meta.sum`` of the stream, the blocks of its messages, its state, and three
files of each consumer (``streamSnapshot`` in server/filestore.go, 2.10 to 2.14). Blocks hold deleted messages too:
which these are stands in later blocks and in the state. A state that is not that of the last block is left alone, as
nats-server does. The hashes of records, configurations and the state (HighwayHash) are compared: the checksums of the
frames around the tar cover every byte from the backup on, these from the moment that a message was stored.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from delta_store.archive import message_block, stored_consumer, stored_state
from delta_store.archive.archived import (
    METADATA_BYTES_MAX,
    ArchivedConsumer,
    ArchivedDeleted,
    ArchivedEnd,
    ArchivedState,
    Item,
    read_object,
)
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.highway_hash import HASH_BYTES
from delta_store.archive.message_checker import MessageChecker
from delta_store.archive.message_entries import RUN_MESSAGES_MAX
from delta_store.archive.sequence_set import joined_sets
from delta_store.archive.stored_state import StoredState
from delta_store.archive.tar_reader import TarFile, TarReader

_META, _SUM, _STATE, _ERRORS = "meta.inf", "meta.sum", "msgs/index.db", "errors.txt"
_UNCOMPRESSED: Final = "none"
_BLOCK: Final = re.compile(r"msgs/([0-9]{1,9})\.blk", re.ASCII)
_CONSUMER: Final = re.compile(r"obs/([^/]+)/(meta\.inf|meta\.sum|o\.dat)")
_BLOCK_BYTES_MAX: Final = 48 * 1024 * 1024
"""A block of 8 MiB and its last record, of 32 MiB at most."""
_META_BYTES_MAX: Final = 1024 * 1024


class TarChecker:
    """A reader of a tar that comes in parts, which yields what has passed all checks."""

    def __init__(self, stream: str, messages: MessageChecker, sequence_max: int) -> None:
        """``sequence_max`` bounds the sequences of the stream."""
        self._tar = TarReader(_bytes_max)
        self._stream = stream
        self._messages = messages
        self._sequence_max = sequence_max
        self._has_meta = self._is_compressed = False
        self._meta = b""
        """The stream's configuration, until its hash has come."""
        self._state: StoredState | None = None
        self._last_seq = 0
        self._last_block = (-1, b"")
        """Number and last hash of the block that was read last."""
        self._configs: dict[str, bytes] = {}
        """Configurations of consumers whose states have not come yet."""
        self._names: set[str] = set()
        self._has_ended_messages = False

    @property
    def ended(self) -> bool:
        """Whether the archive is whole."""
        return self._tar.ended

    def feed(self, content: bytes) -> Iterator[Item]:
        """Take the next part and iterate over what it completes. Raises :class:`BadArchive`."""
        for file in self._tar.feed(content):
            yield from self._items(file)
        if self.ended:
            if not self._has_meta or self._configs:
                missing = "o.dat of a consumer" if self._has_meta else _META
                raise BadArchive(f"archive: {missing} is missing")
            yield from self._end()

    def _items(self, file: TarFile) -> Iterator[Item]:
        name, content = file
        if not self._has_meta:
            yield self._begin(file)
        elif block := _BLOCK.fullmatch(name):
            yield from self._block(int(block[1]), file)
        elif name == _STATE:
            self._state = stored_state.decode(content)
            message_block.check_hash(content[:-HASH_BYTES], content[-HASH_BYTES:], self._stream, name)
        elif consumer := _CONSUMER.fullmatch(name):
            yield from self._end()
            yield from self._consumer(consumer[1], consumer[2], content)
        elif name == _ERRORS:
            raise BadArchive(f"archive: its server could not back up all: {content.decode(errors='replace')}")
        elif name == _SUM and self._meta:
            self._check_sum(self._meta, content, self._stream, name)
            self._meta = b""
        else:
            raise BadArchive(f'archive: "{name}" comes twice')

    def _begin(self, file: TarFile) -> Item:
        if file.name != _META:
            raise BadArchive(f'archive: expected {_META}, found "{file.name}"')
        config = read_object(file.content, f"error in {_META}")
        if config.get("name") != self._stream:
            raise BadArchive("stream names do not match")
        self._is_compressed = config.get("compression", _UNCOMPRESSED) != _UNCOMPRESSED
        self._has_meta, self._meta = True, file.content
        self._messages.expect(0, self._sequence_max)
        return ArchivedState(0, 0, 0, 0)

    def _block(self, number: int, file: TarFile) -> Iterator[Item]:
        if number <= self._last_block[0] or self._state is not None or self._has_ended_messages:
            raise BadArchive(f'archive: "{file.name}" is out of order')
        block = message_block.decode(file.content, file.name, self._stream, compressed=self._is_compressed)
        self._last_block = (number, block.last_hash)
        self._last_seq = max(self._last_seq, block.last_seq)
        if block.run is not None:
            for start in range(0, block.run.messages, RUN_MESSAGES_MAX):
                yield self._messages.checked(block.run.part(start, start + RUN_MESSAGES_MAX))
        if len(block.deleted):
            yield ArchivedDeleted(block.deleted)

    def _end(self) -> Iterator[Item]:
        """Yield the end of the messages, once."""
        if self._has_ended_messages:
            return
        self._has_ended_messages = True
        state, messages = self._state, None
        if state is not None and self._last_block == (state.last_block, state.last_hash):
            messages = state.messages
        else:
            state = StoredState(0, 0, self._last_seq, joined_sets([]), *self._last_block)
        if max(state.last_seq, self._last_seq) > self._sequence_max or state.first_seq > state.last_seq + 1:
            raise BadArchive(f"the last sequence is beyond {self._sequence_max}, or the first one behind it")
        yield ArchivedEnd(messages, state.first_seq, max(state.last_seq, state.first_seq - 1), state.deleted)

    def _consumer(self, name: str, kind: str, content: bytes) -> Iterator[Item]:
        if kind == _META:
            if name in self._names:
                raise BadArchive(f'failed to add consumer "{name}": its name is empty or taken')
            self._names.add(name)
            self._configs[name] = content
        elif kind == _SUM and name in self._configs:
            self._check_sum(self._configs[name], content, f"{self._stream}/{name}", f"obs/{name}/{_SUM}")
        elif kind == "o.dat":
            if name not in self._configs:
                raise BadArchive(f"error restoring consumer [{name!r}]: no {_META}")
            config = read_object(self._configs.pop(name), f"error restoring consumer [{name!r}]")
            shown = {"config": config, "state": stored_consumer.state_of(content, name)}
            yield ArchivedConsumer(name, json.dumps(shown).encode())

    def _check_sum(self, config: bytes, content: bytes, key_name: str, name: str) -> None:
        """Compare a configuration with the file that has its hash."""
        try:
            stored = bytes.fromhex(content.decode())
        except ValueError:
            raise BadArchive(f"{name}: it has no hash") from None
        message_block.check_hash(config, stored, key_name, name)


def _bytes_max(name: str) -> int:
    """Return the most bytes of a file."""
    if _BLOCK.fullmatch(name):
        return _BLOCK_BYTES_MAX
    consumer = _CONSUMER.fullmatch(name)
    if name == _STATE or (consumer and consumer[2] == "o.dat"):
        return METADATA_BYTES_MAX
    if name in (_META, _SUM, _ERRORS) or consumer:
        return _META_BYTES_MAX
    raise BadArchive(f'archive: an unexpected file, "{name}": it is no backup of a nats-server from 2.10 on')
