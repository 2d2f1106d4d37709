"""Query parameters of several routes: their types and their meaning."""

from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import quote, urlencode

from fastapi import Path, Query

from api.rest import problems
from api.rest.descriptions import TIME
from conf.limits import SEQUENCE_MAX
from delta_store.dialect.times import parse_time
from delta_store.values.header_fields import header_fields
from delta_store.values.subjects import SubjectFilter, valid

StreamName = Annotated[str, Path(description="Name of the stream")]
Seq = Annotated[int | None, Query(ge=0, le=SEQUENCE_MAX)]
Time = Annotated[str | None, Query(description="RFC 3339", json_schema_extra=TIME)]
AsOfPoint = Annotated[
    str | None,
    Query(
        description="As of a past point: a sequence (inclusive), a time (RFC 3339, exclusive), an age, or a cut",
        examples=["42", "2026-01-31T12:00:00Z", "2d12h", "cut:NAME"],
    ),
]
FILTER: Final = "Subject filter; several may be given"
HEADER_FILTER: Final = "A header that the message has: its name, or ``name: value``; of several, each"


class HeaderFilter:
    """A choice of messages by their headers."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Parse ``name`` and ``name: value``, as a message's header has them; raises :class:`problems.Refused`."""
        pairs = [text.partition(":") for text in texts]
        if any(not name.strip() for name, _, _ in pairs):
            raise problems.bad_request("header: give a name, or name: value")
        self._wanted = [(name.strip(), value.strip() if colon else None) for name, colon, value in pairs]

    def matches(self, block: bytes | None) -> bool:
        """Whether a raw header block has all of them."""
        if block is None:
            return not self._wanted
        fields = header_fields(block)
        return all(name in fields and (value is None or value in fields[name]) for name, value in self._wanted)


def subject_filter(subjects: Sequence[str]) -> SubjectFilter:
    """Return the compiled filter. Raises :class:`problems.Refused`."""
    for subject in subjects:
        if not valid(subject):
            raise problems.bad_request("subject: not a valid subject filter")
    return SubjectFilter(subjects)


def time_ns(text: str) -> int:
    """Return a time in ns since 1970. Raises :class:`problems.Refused`."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise problems.bad_request(str(error)) from None


def exclusive(**given: object) -> None:
    """Raise :class:`problems.Refused` if more than one of the parameters is given."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise problems.bad_request(f"{' and '.join(names)} exclude each other")


def next_link(path: str, **parameters: object) -> dict[str, str]:
    """Return the header that names the next page; parameters that are None are left out."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return {"Link": f'<{quote(path)}?{urlencode(given, doseq=True, quote_via=quote)}>; rel="next"'}
