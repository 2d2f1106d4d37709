"""The effects of the core, carried out by those with links and a disk."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.publishing.group import Group


class CoreEffects(NamedTuple):
    """Effects in the order of their decisions; replies and reads that show undurable state are in the group."""

    frames: Sequence[bytes] = ()
    """Encoded leaf frames to send at once: refusals, which show no state."""
    groups: Sequence[Group] = ()
    """Groups without rows, to be released at once: while commits wait for space, they show no undurable state."""

    def __bool__(self) -> bool:
        """Whether there is any effect."""
        return bool(self.frames or self.groups)


class BegunTransfer(NamedTuple):
    """Work on a whole stream: a transfer, whose reply its executor sends once it can take what comes back, or another.

    Other work replies at its end.
    """

    work: Any
    reply: bytes
    """The encoded frame, empty for none."""
    answer_to: bytes = b""
    """The subject of the reply at the end, empty for none."""


Deferred = Any
"""A read that only its originator can finish."""
