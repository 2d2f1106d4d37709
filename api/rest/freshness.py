"""Entity tags: an answer is as old as the Delta version it was made from, so the version is its tag.

Messages never change, so the tag of some of them names which they are, and outlives commits. Tags are weak: the same
one stands for an answer as JSON, as bare bytes and compressed.
"""

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from fastapi import Request, Response


def tag_of_version(version: int) -> str:
    """The tag of an answer that may change with each commit to the journal."""
    return f'W/"journal-{version}"'


def tag_of_message(stream_id: int, seq: int) -> str:
    """The tag of a message: what is stored under a sequence never changes, it can only go away."""
    return f'W/"{stream_id:x}-{seq}"'


def tag_of_range(stream_id: int, seqs: Sequence[int], next_seq: int | None) -> str:
    """The tag of a page: which messages it holds and which comes next."""
    which = blake2b(array("q", seqs).tobytes(), digest_size=12).hexdigest()
    return f'W/"{stream_id:x}-{len(seqs)}-{which}-{next_seq or 0}"'


def unchanged(request: Request, tag: str, headers: Mapping[str, str] | None = None) -> Response | None:
    """The 304 for a client that has just this answer already."""
    known = request.headers.getlist("if-none-match")
    tags = {one.strip().removeprefix("W/") for line in known for one in line.split(",")}
    if "*" not in tags and tag.removeprefix("W/") not in tags:
        return None
    return Response(status_code=304, headers={"ETag": tag, **(headers or {})})


UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "What the client has is still the answer"}}
"""For descriptions: the answer to an ``If-None-Match`` that holds the tag."""
