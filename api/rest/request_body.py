"""Bodies of requests, bounded."""

from fastapi import Request

from api.rest import problems


async def read_body(request: Request, most: int) -> bytes:
    """Return the body; raises a 413 problem for one of more bytes, of which no more is read."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise problems.Refused(413, problems.TOO_LARGE, f"more than {most} bytes", {"Connection": "close"})
        parts.append(part)
    return b"".join(parts)
