"""Entity tags: an answer is as old as the Delta version it was made from, so the version is its tag."""

from collections.abc import Mapping

from fastapi import Request, Response


def tag_of_version(version: int) -> str:
    """The tag of an answer that may change with each commit to the journal."""
    return f'W/"journal-{version}"'


def tag_of_message(stream_id: int, seq: int) -> str:
    """The tag of a message: what is stored under a sequence never changes, it can only go away."""
    return f'"{stream_id:x}-{seq}"'


def unchanged(request: Request, tag: str, headers: Mapping[str, str] | None = None) -> Response | None:
    """The 304 for a client that has just this answer already."""
    known = request.headers.get("if-none-match")
    if known is None:
        return None
    tags = {one.strip().removeprefix("W/") for one in known.split(",")}
    if "*" not in tags and tag.removeprefix("W/") not in tags:
        return None
    return Response(status_code=304, headers={"ETag": tag, **(headers or {})})
