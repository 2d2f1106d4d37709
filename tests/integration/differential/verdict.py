"""What is wrong with a scenario's two transcripts: every difference that the written list does not name."""

from collections.abc import Sequence
from typing import Any

from tests.integration.differential.allowed import ALLOWED, EVERYWHERE, Difference
from tests.integration.differential.transcript import Transcript, differences
from tests.servers import AGAINST

Shown = list[dict[str, Any]]


def permits(scenario: str, allowed: Sequence[Difference] = ALLOWED) -> dict[str, Difference]:
    """The differences that the list names for a scenario, by the label of their step."""
    return {item.label: item for item in allowed if item.scenario == scenario and AGAINST == "silt"}


def unexplained(scenario: str, permit: Difference | None, expected: Shown, actual: Shown) -> list[str]:
    """What is wrong with one step, as lines; empty when both sides are alike, or differ just as they are meant to."""
    found = differences(expected, actual)
    if AGAINST == "silt":
        found = [line for line in found if not any(one.permits(scenario, line) for one in EVERYWHERE)]
    if permit is None:
        return found
    if not found:
        return ["is equal now: take it out of the list of differences"]
    missing = [] if permit.silt in "\n".join(found) else [f"is meant to differ by {permit.silt!r}"]
    return [line for line in found if not line.startswith(permit.paths)] + missing


def same(scenario: str, label: str, expected: Shown, actual: Shown) -> bool:
    """Whether one step is as it should be."""
    return not unexplained(scenario, permits(scenario).get(label), expected, actual)


def verdict(
    scenario: str, references: Sequence[Transcript], silt: Transcript, allowed: Sequence[Difference] = ALLOWED
) -> list[str]:
    """What is wrong with Silt's transcript: one block of text for each step that fails.

    Where nats-server answers one way now and another way then, any of its transcripts will do.
    """
    problems, left = [], permits(scenario, allowed)
    if all([step.label for step in one.steps] != [step.label for step in silt.steps] for one in references):
        problems.append("the two sides took different steps")
    for actual, *expected in zip(silt.steps, *(one.steps for one in references), strict=False):
        permit = left.pop(actual.label, None)
        lines = min((unexplained(scenario, permit, one.replies, actual.replies) for one in expected), key=len)
        problems += ["\n   ".join([f"── {actual.label}", *lines])] if lines else []
    return problems + [f"── {label}\n   is in the list of differences, but no such step was taken" for label in left]
