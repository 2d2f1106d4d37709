"""Checks of requests: parameters that the route has, and media types that it serves (RFC 9110, 12.5.1)."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from api.rest import problems

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
BINARY: Final = "application/octet-stream"
_REPEATED: Final = frozenset({"stream", "subject", "header"})
"""Parameters that may be given several times."""


def known_parameters(request: Request) -> None:
    """Refuse a parameter that the route lacks, or has once: it would be ignored silently."""
    route = request.scope.get("route")
    assert isinstance(route, APIRoute)
    known = {
        name for field in route.dependant.query_params for name in _names(field.alias, field.field_info.annotation)
    }
    given = Counter(name for name, _ in request.query_params.multi_items())
    unknown = sorted(given.keys() - known)
    if unknown:
        has = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise problems.bad_request(f"no such parameter: {', '.join(unknown)}; {has}")
    twice = sorted(name for name, times in given.items() if times > 1 and name not in _REPEATED)
    if twice:
        raise problems.bad_request(f"given more than once: {', '.join(twice)}")


def _names(alias: str, annotation: Any) -> Iterable[str]:
    """Return a parameter's name, or those of the model of a route's parameters."""
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation.model_fields if is_model else (alias,)


def serves(*types: str) -> Callable[[Request], None]:
    """Return a dependency that refuses requests which accept none of the media types."""

    def check(request: Request) -> None:
        negotiate(request, types)

    return check


def negotiate(request: Request, types: Sequence[str]) -> str:
    """Return the media type that the client prefers; raises a 406 problem if it accepts none."""
    ranges = _accepted(request)
    rated = [(*_liking(media_type, ranges), -place, media_type) for place, media_type in enumerate(types)]
    quality, *_, best = max(rated)
    if quality <= 0:
        raise problems.Refused(406, problems.OTHER, f"give {' or '.join(types)} in Accept")
    return best


def weighted(text: str) -> list[tuple[str, float]]:
    """Return the names in a header such as ``Accept`` with their qualities, in the client's order."""
    found = []
    for part in text.split(","):
        name, *parameters = part.split(";")
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "q":
                quality = _quality(value)
        if name.strip():
            found.append((name.strip().lower(), quality))
    return found


def _accepted(request: Request) -> list[tuple[str, float]]:
    """Return the media ranges with their qualities; without the header, any type."""
    return weighted(",".join(request.headers.getlist("accept"))) or [("*/*", 1.0)]


def _quality(text: str) -> float:
    try:
        return min(max(float(text.strip()), 0.0), 1.0)
    except ValueError:
        return 0.0


def _liking(media_type: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, int, int]:
    """Return quality, specificity and order of the most specific range that has the type."""
    main = media_type.partition("/")[0]
    rank = {media_type: 2, f"{main}/*": 1, "*/*": 0}
    found = [(rank[kind], -place, quality) for place, (kind, quality) in enumerate(ranges) if kind in rank]
    if not found:
        return 0.0, 0, 0
    specific, place, quality = max(found)
    return quality, specific, place
