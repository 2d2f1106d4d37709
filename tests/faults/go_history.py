"""What clients of nats.go saw while servers were killed, and what of it must not be."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DURABLES = ("pull", "push")
KEPT = (*DURABLES, "short", "long", "quiet", "pushed")
"""Consumers that have a client all the time: none may go, whether durable or not."""
_IN_FLIGHT_MS = 1_000
"""What a client had in its queue while its ack was answered may be handled that much later."""
_RECORDED_MS = 1_000
"""A delivery so long before a kill counts as recorded."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: when, and when the API answered again (Unix time in milliseconds)."""

    what: tuple[str, ...]
    at: int
    back: int


@dataclass(slots=True)
class Findings:
    """What came of the rounds on one server."""

    problems: list[str] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    resumed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Milliseconds from the answering API to the next message, by who was killed and consumer."""

    def table(self) -> str:
        """Lines for a person."""
        numbers = [f"{name}: {number}" for name, number in sorted(self.numbers.items())]
        resumed = [
            f"resumed after {name}: median {sorted(took)[len(took) // 2]} ms, longest {max(took)} ms"
            for name, took in sorted(self.resumed.items())
        ]
        return "\n".join([*numbers, *resumed, *(f"PROBLEM {one}" for one in self.problems)])


def judge(lines: Sequence[dict[str, Any]], kills: Sequence[Kill]) -> Findings:
    """Hold what was seen against what must be."""
    found = Findings()
    came: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in lines:
        if one["event"] == "came":
            came[one["name"]].append(one)
        elif one["event"] in {"error", "ended"}:
            found.numbers[f"{one['name']} said {one.get('text', one['event'])}"] += 1
    published = {one["seq"] for one in lines if one["event"] == "published"}
    found.numbers |= {"kills": len(kills), "published": len(published)}
    for name in DURABLES:
        missing = published - {one["seq"] for one in came[name]}
        if missing:
            found.problems.append(f"{name} never got {len(missing)} messages, the first is {min(missing)}")
    found.problems += [*_gone(lines), *_ordered(came["ordered"])]
    _after_ack(lines, found)
    for name in KEPT:
        _counts(name, came[name], kills, found)
    _resumed(came, kills, found)
    return found


def _resumed(came: Mapping[str, Sequence[dict[str, Any]]], kills: Sequence[Kill], found: Findings) -> None:
    for kill, following in zip(kills, [*kills[1:], None], strict=True):
        for name in ("pull", "push", "ordered", "short"):
            after = next((one["at"] for one in came.get(name, ()) if one["at"] >= kill.back), None)
            if after is not None and (following is None or after < following.at):
                found.resumed[f"{'+'.join(kill.what)}, {name}"].append(after - kill.back)


def _gone(lines: Iterable[dict[str, Any]]) -> list[str]:
    gone: dict[str, int] = {}
    for one in lines:
        if one["event"] == "consumers":
            for name in set(KEPT) - set(one.get("text", "").split()):
                gone.setdefault(name, one["at"])
    return [f"consumer {name} was gone at {at}" for name, at in gone.items()]


def _after_ack(lines: Iterable[dict[str, Any]], found: Findings) -> None:
    acked: dict[tuple[str, int], int] = {}
    again = []
    for one in lines:
        if one["event"] == "acked":
            acked[one["name"], one["seq"]] = one["at"]
        elif one["event"] == "came":
            at = acked.get((one["name"], one["seq"]))
            if at is not None and one["at"] > at + _IN_FLIGHT_MS:
                again.append(f"{one['name']} got {one['seq']} again {one['at'] - at} ms after its double ack")
    found.numbers["came again after a double ack"] = len(again)
    if again:
        found.problems.append(f"{len(again)} messages came again after their double acks, {again[0]}")


def _ordered(came: Sequence[dict[str, Any]]) -> list[str]:
    seqs = [one["seq"] for one in came]
    wrong = next((place for place, seq in enumerate(seqs) if seq != place + 1), None)
    return [] if wrong is None else [f"ordered got {seqs[max(0, wrong - 2) : wrong + 3]} in a row"]


def _counts(name: str, came: Iterable[dict[str, Any]], kills: Sequence[Kill], found: Findings) -> None:
    """No delivery count may come twice, unless a kill took what had not been recorded."""
    before: dict[int, dict[str, Any]] = {}
    for one in came:
        last = before.get(one["seq"])
        before[one["seq"]] = one
        if last is None or one["count"] > last["count"]:
            continue
        lost = [
            kill for kill in kills if last["at"] <= kill.at + _IN_FLIGHT_MS and kill.at - last["at"] <= _RECORDED_MS
        ]
        if any(kill.at <= one["at"] for kill in lost):
            found.numbers[f"{name}: counted anew after a kill"] += 1
        else:
            found.problems.append(
                f"{name} got {one['seq']} with count {one['count']} at {one['at']}, {last['count']} at {last['at']}"
            )
