"""What must hold of a stream after any fault, as pure functions over what clients saw and what is stored.

- no acknowledged message is lost, nor altered: the message at the acknowledged sequence is the one that was sent;
- no sequence is given to two messages, and there is no hole below the last one (the stream has no limits);
- a message published again with the same ``Nats-Msg-Id`` is stored once;
- what was never acknowledged is there whole or not at all, and nothing is there that nobody sent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple


class Sent(NamedTuple):
    """A message as a publisher sent it; its payload begins with its key, so keys are unique without an id too."""

    subject: str
    digest: bytes
    message_id: str | None


class Stored(NamedTuple):
    """A message as a reader got it."""

    subject: str
    digest: bytes
    message_id: str | None


@dataclass(slots=True)
class History:
    """What the clients saw."""

    sent: dict[str, Sent] = field(default_factory=dict)
    """By key."""
    acked: list[tuple[str, int]] = field(default_factory=list)
    """Key and sequence of each acknowledgement, in the order of arrival."""
    refused: Counter[str] = field(default_factory=Counter)
    """Error replies and their number."""


def digest(payload: bytes) -> bytes:
    """What payloads are compared by."""
    return sha256(payload).digest()[:16]


def lost_or_altered(history: History, stored: Mapping[int, Stored]) -> list[str]:
    """Acknowledged messages that are not at their sequence as they were sent."""
    found = []
    for key, seq in history.acked:
        sent, there = history.sent[key], stored.get(seq)
        if there is None:
            found.append(f"{key} was acknowledged as {seq}, which is not there")
        elif there != Stored(*sent):
            found.append(f"{key} was acknowledged as {seq}, where {there.subject} {there.message_id} is now")
    return found


def used_twice(history: History) -> list[str]:
    """Sequences that were acknowledged for two different messages."""
    owners: dict[int, str] = {}
    found = []
    for key, seq in history.acked:
        if owners.setdefault(seq, key) != key:
            found.append(f"sequence {seq} was acknowledged for {owners[seq]} and for {key}")
    return found


def stored_twice(stored: Mapping[int, Stored]) -> list[str]:
    """Message ids that are stored more than once."""
    counts = Counter(message.message_id for message in stored.values() if message.message_id is not None)
    return [f"message id {name} is stored {count} times" for name, count in counts.items() if count > 1]


def holes(stored: Mapping[int, Stored]) -> list[str]:
    """Missing sequences below the last one."""
    missing = sorted(set(range(1, max(stored, default=0) + 1)) - set(stored))
    return [f"{len(missing)} sequences are missing, the first is {missing[0]}"] if missing else []


def never_sent(history: History, stored: Mapping[int, Stored]) -> list[str]:
    """Stored messages that differ from all that were sent, or that were sent once and are stored twice."""
    known = Counter(Stored(*sent) for sent in history.sent.values())
    surplus = Counter(stored.values()) - known
    return [
        f"{message.subject} {message.message_id} is stored {count} times too often"
        for message, count in surplus.items()
    ]


def everything_wrong(history: History, stored: Mapping[int, Stored]) -> list[str]:
    """All checks; empty when all hold."""
    return [
        *lost_or_altered(history, stored),
        *used_twice(history),
        *stored_twice(stored),
        *holes(stored),
        *never_sent(history, stored),
    ]


def unequal(one: Mapping[int, Stored], other: Mapping[int, Stored], *, names: tuple[str, str]) -> list[str]:
    """Where two readings of the same stream differ."""
    seqs: Iterable[int] = sorted(seq for seq in one.keys() | other.keys() if one.get(seq) != other.get(seq))
    return [f"sequence {seq}: {names[0]} {one.get(seq)}, {names[1]} {other.get(seq)}" for seq in seqs]
