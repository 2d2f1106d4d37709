"""The conversation of the HTTP process with one that answers SQL, as values and bytes. Pure.

A process sends frames: a mark, four bytes of length, and content. The first is ``ready``. A question is a line of JSON;
its answer is ``start`` once the first rows are there, then ``data`` as often as there are bytes, and ``end``; or
``failed`` at any place.
"""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from api.formats.table_format import TableFormat

HEAD_BYTES: Final = 5


class Mark(StrEnum):
    """The kinds of frames."""

    READY = "R"
    START = "S"
    DATA = "D"
    END = "E"
    FAILED = "F"


class SqlFrame(NamedTuple):
    """A part of an answer."""

    mark: Mark
    content: bytes = b""

    def encoded(self) -> bytes:
        """Return its bytes."""
        return self.mark.encode() + len(self.content).to_bytes(4) + self.content


def read_head(head: bytes) -> tuple[Mark, int]:
    """Return a frame's mark and the length of its content."""
    return Mark(head[:1].decode()), int.from_bytes(head[1:])


@dataclass(frozen=True, slots=True)
class SqlQuestion:
    """A query, and what its asker may see."""

    text: str
    format: TableFormat
    readable: tuple[str, ...] = ("*",)
    """Patterns of the streams that exist for it."""
    parameters: Any = field(default_factory=list)
    """A list, or a mapping by name."""
    seconds: float = 60.0
    memory_bytes: int = 1 << 30
    rows: int | None = None

    def encoded(self) -> bytes:
        """Return it as a line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decoded(cls, line: bytes) -> Self:
        """Parse a line."""
        fields = json.loads(line)
        kind, readable = TableFormat(fields.pop("format")), tuple(fields.pop("readable"))
        return cls(**fields, format=kind, readable=readable)


@dataclass(frozen=True, slots=True)
class SqlFailure:
    """The reason why there is no answer."""

    kind: str
    """The value of a ``SqlErrorKind`` or ``ReadErrorKind``, or the name of any other exception."""
    text: str

    def encoded(self) -> bytes:
        """Return it as the content of a frame."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decoded(cls, content: bytes) -> Self:
        """Parse the content of a frame."""
        return cls(**json.loads(content))
