"""Texts of several SQL statements, taken apart at their semicolons. Pure."""

import re
from typing import Final, NamedTuple

_QUOTED: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]*(?:\n|$) | /\*.*?\*/ | (\$\w*\$).*?\1""",
    re.DOTALL | re.VERBOSE,
)
_OPENED: Final = re.compile(r"""['"`] | /\* | --[^\n]*$ | \$\w*\$""", re.VERBOSE)
_COMMENTS: Final = re.compile(r"--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)


class Statements(NamedTuple):
    """A text taken apart."""

    complete: list[str]
    """The statements that a semicolon ends, without it."""
    rest: str
    """What follows the last semicolon."""


def taken_apart(text: str) -> Statements:
    """Split a text at the semicolons that stand outside of quotes and comments."""
    complete: list[str] = []
    start = place = 0
    while place < len(text):
        quoted = _QUOTED.match(text, place)
        if quoted is not None:
            place = quoted.end()
        elif _OPENED.match(text, place):
            break
        elif text[place] == ";":
            complete.append(text[start:place].strip())
            start = place = place + 1
        else:
            place += 1
    return Statements([one for one in complete if says_something(one)], text[start:])


def all_of(text: str) -> list[str]:
    """Return all statements of a text; the last needs no semicolon."""
    complete, rest = taken_apart(text)
    return [*complete, *([rest.strip()] if says_something(rest) else [])]


def says_something(text: str) -> bool:
    """Whether there is more than white space and comments."""
    return bool(_COMMENTS.sub("", text).strip())
