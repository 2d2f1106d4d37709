"""What looking through a store finds: a file, what is wrong with it, and what to do about it. Pure."""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """What a finding means; the values are part of the command's output."""

    DAMAGE = "damage"
    """Something that was written is gone or altered, and nothing in the store makes up for it."""
    REPAIRABLE = "repairable"
    """Something is damaged that can be made anew without losing anything."""
    LEFT_OVER = "left over"
    """A file that no version needs; it does no harm."""


ADVICE = {
    Severity.DAMAGE: "bring the data folder back from a backup",
    Severity.REPAIRABLE: "run: silt repair",
    Severity.LEFT_OVER: "nothing: the gateway and the settle job delete such files in time",
}


class Finding(NamedTuple):
    """One thing that is not as it should be."""

    severity: Severity
    table: str
    file: str
    """Relative to the data folder."""
    what: str
    advice: str


def finding(severity: Severity, table: str, file: str, what: str, *, advice: str = "") -> Finding:
    """A finding in a file of a table, named as it is inside the table's folder; with the usual advice or another."""
    inside = file if file.startswith(table) else f"{table}/{file}".rstrip("/")
    return Finding(severity, table, inside, what, advice or ADVICE[severity])


class Seen(NamedTuple):
    """How much of a table was looked at."""

    table: str
    version: int
    """-1 when there is none."""
    entries: int
    files: int
    rows: int


class Report(NamedTuple):
    """The outcome of looking through a whole store."""

    seen: tuple[Seen, ...]
    findings: tuple[Finding, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return all(one.severity is Severity.LEFT_OVER for one in self.findings)
