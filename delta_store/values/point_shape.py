"""A past point in a request's JSON: the text that :func:`parse_as_of` takes, or a number for a sequence. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from delta_store.dialect.json_reader import Number, as_unicode, kind
from delta_store.dialect.json_shapes import Mismatch
from delta_store.dialect.json_syntax import JsonError
from delta_store.values.as_of import NotAPoint, parse_as_of

AS_OF: Final = "silt_as_of"
"""The field of requests that ask for a past point; nats-server refuses or ignores it."""
_EARLY: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""Before any age is counted back from: what is a point then is one later."""


@dataclass(frozen=True, slots=True)
class PointShape:
    """A point; decoded to its text, as ages count back from when it is read."""

    def decode(self, value: Any, before: Any) -> Any:
        """Return the text; null keeps ``before``. Raises :class:`JsonError`."""
        if value is None:
            return before
        if type(value) not in (str, Number):
            raise Mismatch(kind(value), "string")
        text = as_unicode(str(value))
        try:
            parse_as_of(text, now=_EARLY)
        except NotAPoint as error:
            raise JsonError(f"no point: {error}") from None
        return text


POINT: Final = PointShape()
