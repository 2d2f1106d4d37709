"""What has changed between two states of a stream, subject by subject. Pure."""

from typing import NamedTuple

from delta_store.index.matching import last_per_subject
from delta_store.streams.stream_state import StreamState
from delta_store.values.subjects import SubjectFilter


class SubjectChange(NamedTuple):
    """A subject whose last message is another one."""

    subject: str
    change: str
    """``added``, ``removed`` or ``changed``."""
    seq_before: int
    """0 where it had none."""
    seq_after: int
    """0 where it has none any more."""


def difference(before: StreamState | None, after: StreamState | None, subjects: SubjectFilter) -> list[SubjectChange]:
    """Return the changes from one state to the other of the subjects that match, by subject.

    None is the state of a stream that there was not yet.
    """
    first, second = (_lasts(state, subjects) for state in (before, after))
    found = []
    for subject in sorted(first.keys() | second.keys()):
        seqs = first.get(subject, 0), second.get(subject, 0)
        if seqs[0] != seqs[1]:
            found.append(SubjectChange(subject, "changed" if all(seqs) else "added" if seqs[1] else "removed", *seqs))
    return found


def _lasts(state: StreamState | None, subjects: SubjectFilter) -> dict[str, int]:
    if state is None:
        return {}
    return {state.index.subject_of(seq) or "": seq for seq in last_per_subject(state.index, subjects)}
