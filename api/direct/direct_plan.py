"""The decisions of Direct Get, for NATS and HTTP alike: the messages that answer a request. Pure.

Rules: server/stream.go of nats-server 2.15 (getDirectRequest, getDirectMulti), ADR-31.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from api.direct.direct_request import DirectRequest
from conf.limits import (
    DIRECT_GET_BATCH_BYTES,
    DIRECT_GET_STEP_BYTES,
    DIRECT_GET_STEP_MESSAGES,
    MULTI_LAST_MORE_SUBJECTS_MAX,
    MULTI_LAST_SUBJECTS_MAX,
)
from delta_store.index.matching import count_matching, last_by_subject, last_per_subject, next_matching
from delta_store.index.stream_index import StreamIndex
from delta_store.reading.read_plan import Matching, PagePlan, PastPlan, ReadPlan, step_of
from delta_store.streams.stream_state import StreamState
from delta_store.values.subjects import SubjectFilter, valid

POINT_IN_TIME: Final = "silt.point_in_time"
"""Key of the stream's metadata: ``live`` selects nats-server's own reply to ``up_to_*``, from live messages only."""


class Lasts(NamedTuple):
    """The last messages of subjects, now or at a point."""

    found: ReadPlan
    up_to_seq: int
    """Sequence of the point."""


def plan(state: StreamState, request: DirectRequest) -> ReadPlan | PagePlan | PastPlan | None:
    """Return the message, page or past state that answers the request; None if no message does.

    Raises ``TooMany``.
    """
    if request.multi_last:
        found = multi_last(state, request)
        return found if isinstance(found, PastPlan) else multi_page(found, request, step=direct_step(state.index))
    if request.batch:
        return _batch(state, request)
    seq = _single(state, request)
    return ReadPlan(state.config.name, state.stream_id, (seq,)) if seq else None


def multi_last(state: StreamState, request: DirectRequest, *, in_pages: bool = False) -> Lasts | PastPlan:
    """Return the last messages of subjects at the point, from the index if it suffices.

    Raises ``TooMany``, unless they are read page by page (``in_pages``), however many they are.
    """
    index, up_to, at_ns = state.index, request.up_to_seq, request.up_to_time_ns
    subjects, limit = _filter(request.multi_last), _subjects_max(request)
    truth = state.config.metadata.get(POINT_IN_TIME) != "live"
    found = ReadPlan(state.config.name, state.stream_id, ())
    past = PastPlan(found.stream, request.multi_last, None if at_ns is not None else up_to, at_ns, limit)
    if up_to > index.last_seq and state.config.storage == "file":
        return Lasts(found, up_to)
    if at_ns is not None:
        first = index.seq_at_time(at_ns)
        if truth and _hides_more(index, first):
            return past
        up_to = max(0, first - 1)
        if first <= index.first_seq:
            return Lasts(found, up_to)
    if truth and 0 < up_to <= index.last_seq and not (_is_now(state, up_to) or untouched(index, up_to, subjects)):
        return past
    seqs = last_per_subject(index, subjects, up_to or None, limit=None if in_pages else limit)
    return Lasts(found._replace(seqs=seqs), up_to or index.last_seq)


def multi_page(last: Lasts, request: DirectRequest, *, step: int = DIRECT_GET_STEP_MESSAGES) -> PagePlan | None:
    """Return the requested page of them; None if there are none at all."""
    (stream, stream_id, seqs), up_to_seq = last
    if not seqs:
        return None
    wanted = [seq for seq in seqs if seq >= request.seq]
    most = request.batch if request.batch > 0 else len(wanted)
    return PagePlan(stream, stream_id, wanted, most, step, request.max_bytes or DIRECT_GET_BATCH_BYTES, up_to_seq)


def direct_step(index: StreamIndex) -> int:
    """Return the number of a stream's messages to read at a time."""
    return step_of(index, DIRECT_GET_STEP_MESSAGES, DIRECT_GET_STEP_BYTES)


def untouched(index: StreamIndex, up_to_seq: int, subjects: SubjectFilter) -> bool:
    """Whether the live index surely has the state at ``up_to_seq``: no message that could matter was removed."""
    if not subjects.filters:
        return True
    later = count_matching(index, None, up_to_seq + 1)
    if index.first_seq <= 1 and index.msgs - later == up_to_seq:
        return True
    if not subjects.is_literal:
        return False
    found = last_per_subject(index, subjects, up_to_seq)
    if not found or len(found) < len(subjects.literals):
        return False
    return count_matching(index, None, found[0]) - later == up_to_seq - found[0] + 1


def _single(state: StreamState, request: DirectRequest) -> int:
    """Return the sequence of the one requested message, or 0."""
    index = state.index
    start = request.seq if request.start_time_ns is None else index.seq_at_time(request.start_time_ns)
    if request.next_by_subj:
        return next_matching(index, _filter((request.next_by_subj,)), start)
    if start:
        return start if index.subject_of(start) is not None else 0
    if request.last_by_subj == ">":
        return index.last_seq if index.subject_of(index.last_seq) is not None else 0
    return last_by_subject(index, request.last_by_subj)


def _batch(state: StreamState, request: DirectRequest) -> PagePlan:
    index = state.index
    start = request.seq if request.start_time_ns is None else index.seq_at_time(request.start_time_ns)
    chosen = _filter((request.next_by_subj,)) if request.next_by_subj else None
    return PagePlan(
        state.config.name,
        state.stream_id,
        Matching(index, chosen, start, up_to=index.last_seq),
        max(request.batch, 0),
        direct_step(index),
        request.max_bytes or DIRECT_GET_BATCH_BYTES,
    )


def _subjects_max(request: DirectRequest) -> int:
    """Return the most subjects of a ``multi_last`` reply: nats-server's limit, or more if the request says so."""
    return min(max(request.max_subjects, MULTI_LAST_SUBJECTS_MAX), MULTI_LAST_MORE_SUBJECTS_MAX)


def _is_now(state: StreamState, up_to_seq: int) -> bool:
    """Whether ``up_to_seq`` is the newest message and nothing has happened since."""
    return up_to_seq == state.index.last_seq and state.clock_ns == state.index.last_ts


def _hides_more(index: StreamIndex, first: int) -> bool:
    """Whether removed messages may lie between a time and ``first``, the first live message that is not older."""
    return first > 1 and index.subject_of(first - 1) is None


@lru_cache(maxsize=1024)
def _filter(subjects: tuple[str, ...]) -> SubjectFilter:
    """Return the compiled filters; an invalid one matches nothing."""
    return SubjectFilter(subject for subject in subjects if valid(subject))
