"""Findings of ``silt verify``: a file, its fault, and advice. Pure."""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad a finding is; the values are part of the command's output."""

    DAMAGE = "damage"
    """Data that was written is gone or altered, and nothing in the store makes up for it."""
    REPAIRABLE = "repairable"
    """A damaged file that can be made anew without loss."""
    LEFT_OVER = "left over"
    """A file that no version needs; it does no harm."""


ADVICE = {
    Severity.DAMAGE: "bring the data folder back from a backup",
    Severity.REPAIRABLE: "run: silt repair",
    Severity.LEFT_OVER: "nothing: the gateway and the settle job delete such files in time",
}


class Finding(NamedTuple):
    """One fault in one file."""

    severity: Severity
    table: str
    file: str
    """Path relative to the data folder."""
    what: str
    advice: str


def finding(severity: Severity, table: str, file: str, what: str, *, advice: str = "") -> Finding:
    """Return a finding in a file of a table, named relative to the table's folder; by default with the usual advice."""
    inside = file if file.startswith(table) else f"{table}/{file}".rstrip("/")
    return Finding(severity, table, inside, what, advice or ADVICE[severity])


class Seen(NamedTuple):
    """How much of a table was read."""

    table: str
    version: int
    """-1 when there is no table."""
    entries: int
    files: int
    rows: int


class Report(NamedTuple):
    """The outcome of verifying a whole store."""

    seen: tuple[Seen, ...]
    findings: tuple[Finding, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return all(one.severity is Severity.LEFT_OVER for one in self.findings)
