"""The deliberate differences between Silt and nats-server, each with its reason.

A step named here must differ, and only at the paths given (a path covers everything below it); a step not named here
must be equal. So the table can neither hide a new difference nor outlive an old one.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One step that is meant to differ."""

    scenario: str
    label: str
    paths: tuple[str, ...]
    reason: str


ALLOWED: tuple[Difference, ...] = ()
