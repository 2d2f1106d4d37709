"""The settled rows that a branch begins with, as the STREAM row names them for the settle job to copy. Pure.

They are files of ``messages`` at the version of the branch's point, and what of them was not live there. The files are
kept as long as that version is readable; where one is gone before it is copied, the branch is made in another way.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_slice import PartFile, SlicePart
from delta_store.values.schemas import MESSAGES_FOLDER


class BranchBase(NamedTuple):
    """The rows of one stream that another one begins with."""

    first_seq: int
    """The first sequence of the new stream."""
    parts: tuple[SlicePart, ...]
    """Parts of one plan: of one stream, with the same bounds and removed ranges."""

    @classmethod
    def of(cls, parts: Iterable[SlicePart], first_seq: int) -> Self | None:
        """Return the settled ones of a plan's parts; None where there are none."""
        settled = tuple(part for part in parts if part.table == MESSAGES_FOLDER)
        return cls(first_seq, settled) if settled else None

    @property
    def last_seq(self) -> int:
        """The last sequence that the rows may have."""
        return max(part.bounds.seqs[1] for part in self.parts)

    def as_json(self) -> dict[str, Any]:
        """Return the persisted form."""
        one = self.parts[0]
        return {
            "stream": one.stream,
            "stream_id": one.stream_id,
            "first_seq": self.first_seq,
            "seqs": one.bounds.seqs,
            "removed": one.removed,
            "parts": [{"files": part.files, "evicted": b64encode(part.evicted).decode()} for part in self.parts],
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the persisted form."""
        said: Mapping[str, Any] = json.loads(text)
        first, last = said["seqs"]
        bounds = MessageBounds(seqs=(first, last))
        removed = tuple((low, high) for low, high in said["removed"])
        whole = SlicePart(said["stream"], said["stream_id"], MESSAGES_FOLDER, (), bounds, removed)
        parts = (
            whole._replace(files=tuple(map(PartFile._make, one["files"])), evicted=b64decode(one["evicted"]))
            for one in said["parts"]
        )
        return cls(said["first_seq"], tuple(parts))
