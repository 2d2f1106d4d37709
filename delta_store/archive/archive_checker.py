"""The check of a whole archive, of either kind, while it comes: entries (ADR-63), or a tar of servers before 2.15."""

from collections.abc import Callable, Iterator

from delta_store.archive.archived import Item
from delta_store.archive.entries import MAGIC
from delta_store.archive.entry_checker import EntryChecker
from delta_store.archive.message_checker import MessageChecker
from delta_store.archive.s2_frames import FrameReader
from delta_store.archive.tar_checker import TarChecker
from delta_store.archive.tar_reader import BLOCK_BYTES, is_tar


class ArchiveChecker:
    """A reader of an archive that comes in parts, which yields what has passed all checks."""

    def __init__(
        self, stream: str, *, message_bytes_max: int, sequence_max: int, valid_subject: Callable[[str], bool]
    ) -> None:
        """``message_bytes_max`` bounds headers and payload of a message, ``sequence_max`` the sequences."""
        self._frames = FrameReader()
        self._stream = stream
        self._messages = MessageChecker(bytes_max=message_bytes_max, valid_subject=valid_subject)
        self._sequence_max = sequence_max
        self._content: EntryChecker | TarChecker = EntryChecker(self._messages, sequence_max)
        self._begin: bytes | None = b""
        """What came before it was known of which kind the archive is; None afterwards."""

    @property
    def ended(self) -> bool:
        """Whether the archive is whole."""
        return self._content.ended

    @property
    def is_tar(self) -> bool:
        """Whether it is a tar, whose deleted messages are told behind all messages."""
        return isinstance(self._content, TarChecker)

    def feed(self, part: bytes) -> Iterator[Item]:
        """Take the next part and iterate over what it completes. Raises :class:`BadArchive`."""
        if self.ended:
            return
        for content in self._frames.feed(part):
            known = self._known(content)
            yield from self._content.feed(known)
            if self.ended:
                return

    def _known(self, content: bytes) -> bytes:
        """Return content once it is known of which kind it is; nothing before."""
        if self._begin is None:
            return content
        self._begin += content
        if len(self._begin) < BLOCK_BYTES and not self._begin.startswith(MAGIC):
            return b""
        if is_tar(self._begin):
            self._content = TarChecker(self._stream, self._messages, self._sequence_max)
        begin, self._begin = self._begin, None
        return begin
