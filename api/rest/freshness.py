"""Entity tags: a response depends on the journal's Delta version, so the version is its tag.

Messages never change, so a tag of messages is made from their sequences and outlives commits. Tags are weak: the same
one stands for a response as JSON, as bare bytes and compressed.
"""

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from fastapi import Request, Response


def tag_of_version(version: int) -> str:
    """Return the tag of a response that may change with each commit to the journal."""
    return f'W/"journal-{version}"'


def tag_of_message(stream_id: int, seq: int) -> str:
    """Return the tag of a message, which never changes but may be removed."""
    return f'W/"{stream_id:x}-{seq}"'


def tag_of_range(stream_id: int, seqs: Sequence[int], next_seq: int | None) -> str:
    """Return the tag of a page, made from its sequences and the next page's first."""
    which = blake2b(array("q", seqs).tobytes(), digest_size=12).hexdigest()
    return f'W/"{stream_id:x}-{len(seqs)}-{which}-{next_seq or 0}"'


def unchanged(request: Request, tag: str, headers: Mapping[str, str] | None = None) -> Response | None:
    """Return the 304 for a client that already has this response; None if it has not."""
    known = request.headers.getlist("if-none-match")
    tags = {one.strip().removeprefix("W/") for line in known for one in line.split(",")}
    if "*" not in tags and tag.removeprefix("W/") not in tags:
        return None
    return Response(status_code=304, headers={"ETag": tag, **(headers or {})})


UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "What the client has is still the answer"}}
"""Description of the response to an ``If-None-Match`` that has the tag."""
