"""The API level that a client demands with the header ``Nats-Required-Api-Level`` (ADR-44). Pure.

One rule for every kind of request: the name is matched exactly and its first occurrence counts, blanks in front of the
value are skipped, an empty value demands nothing, and what Go's ``strconv.Atoi`` does not parse is refused.
"""

import re
from contextlib import suppress
from typing import Final

from conf.limits import API_LEVEL
from delta_store.dialect.integers import NotAnInteger, atoi

LEVEL_HEADER: Final = b"Nats-Required-Api-Level"
_DEMAND: Final = re.compile(rb"\r\n%b: *(.*?)\r\n" % LEVEL_HEADER, re.DOTALL)


def level_refused(header: bytes) -> bool:
    """Whether :func:`value_refused` refuses the demand in a request's raw header block."""
    found = _DEMAND.search(header) if header else None
    return found is not None and value_refused(found[1])


def value_refused(value: bytes) -> bool:
    """Whether the header's value is a level above :data:`API_LEVEL`, or no number."""
    with suppress(NotAnInteger):
        return bool(value) and atoi(value.decode(errors="replace")) > API_LEVEL
    return True
