"""What the core leaves to be done by whoever has links and a disk."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.publishing.group import Group


class CoreEffects(NamedTuple):
    """In the order in which they were decided; replies and reads that show undurable state are in the group."""

    frames: Sequence[bytes] = ()
    """Encoded leaf frames that leave at once: refusals, which show nothing."""
    groups: Sequence[Group] = ()
    """Groups without rows that show nothing undurable while commits wait for space: to be released at once."""

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.frames or self.groups)


Deferred = Any
"""A read that whoever decided it knows how to finish."""
