"""Which files a session lets its statements read, and whose they are. Pure."""

from collections.abc import Iterable


class BeyondFence(Exception):  # the session is at fault, not the statement
    """A session that was shut for another statement does not fit this one."""


class Fence:
    """Shut once, around the files of the first statement; for each later one it is asked anew whether it fits.

    It fits a statement that reads nothing outside, and reads each stream of which there are files inside. So no
    statement can come by more, whatever it is made of, than by naming the streams that it may read anyway.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()
        """The files inside."""
        self._streams: set[str] = set()
        self._asked: set[str] = set()
        self._is_shut = False

    def let(self, stream: str, files: Iterable[str]) -> None:
        """Let files of a stream be read. Raises :class:`BeyondFence` where the fence is shut around others."""
        self._asked.add(stream)
        if not self._is_shut:
            self._streams.add(stream)
            self.files.update(files)
        elif not self.files.issuperset(files):
            raise BeyondFence

    def shut(self) -> bool:
        """Shut it behind the last file that a statement reads; whether it was open. Raises :class:`BeyondFence`."""
        if not self._asked >= self._streams:
            raise BeyondFence
        self._asked = set()
        was_open, self._is_shut = not self._is_shut, True
        return was_open
