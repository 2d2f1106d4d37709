"""``$JS.API.STREAM.SNAPSHOT`` and ``RESTORE``: the requests that begin a backup and a restore (ADR-63)."""

from typing import Any, Final, NamedTuple

import numpy as np

from api.jetstream import request_shapes
from api.jetstream.api_call import ApiCall, Result, Started
from api.jetstream.archived_consumer import archived
from api.jetstream.responses import failure, state_json, stream_info, success, with_dynamic_metadata
from conf.limits import (
    RESTORE_WORD_CHARS_MAX,
    SNAPSHOT_CHUNK_BYTES,
    SNAPSHOT_CHUNK_BYTES_MAX,
    SNAPSHOT_CHUNK_BYTES_MIN,
    SNAPSHOT_WINDOW_BYTES,
    SNAPSHOT_WINDOW_BYTES_MAX,
)
from delta_store.archive.entries import FROM_SEQ, LIVE_BEFORE, RESUME, RESUMED
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.index.segments import Ints
from delta_store.streams import restores, source_rules, stream_config_rules
from delta_store.streams.stream_state import StreamState
from delta_store.values import subjects

_RESTORED: Final = "stream_create_response"


class StreamSnapshot(NamedTuple):
    """A stream as it stands at one moment, to be sent as a backup."""

    stream: str
    stream_id: int
    deliver_subject: str
    chunk_bytes: int
    window_chunks: int
    """Most full chunks that wait for their acks."""
    state: dict[str, Any]
    """The stream's state as in replies."""
    consumers: tuple[tuple[str, bytes], ...]
    """Names and archived contents."""
    spans: Ints
    """The live sequences: rows of first and last."""
    mean_bytes: int
    """Bytes of a message, on average."""
    now_ns: int
    increment: dict[str, Any]
    """What the state in the archive says of earlier messages that are not sent; empty where all are."""
    past: Any = None
    """By what the messages of a past point are read; None where the stream is sent as it stands."""


class StreamUpload(NamedTuple):
    """A stream to be taken in from a backup."""

    config: StreamConfig
    deliver_subject: str
    """The subject that its chunks come to."""
    message_bytes_max: int
    """Most bytes of headers and payload of a message."""
    resume: str
    """The sender's word by which it goes on if it breaks off; empty where it begins anew."""
    state: StreamState | None
    """What is there of one that broke off."""


def snapshot(call: ApiCall) -> Result:
    """Begin to send a stream, as it stands now, with its consumers unless they are not wanted.

    As of a past point it is the stream of then, without consumers, whose past states are not kept. With a first
    sequence to send (``silt_from_seq``) it is an increment, see :mod:`delta_store.archive.archive_chain`.
    """
    call.require_body()
    state = call.stream()
    request = call.body(request_shapes.SNAPSHOT_REQUEST)
    deliver_subject = request.get("deliver_subject", "")
    if not subjects.literal(deliver_subject):
        raise api_errors.SNAPSHOT_DELIVER_SUBJECT_INVALID.error
    if (asked := call.asked_past(request)) is not None:
        return asked
    index = state.index
    chunk = request.get("chunk_size", 0) or SNAPSHOT_CHUNK_BYTES
    chunk = min(max(chunk, SNAPSHOT_CHUNK_BYTES_MIN), SNAPSHOT_CHUNK_BYTES_MAX)
    window = request.get("window_size", 0) or SNAPSHOT_WINDOW_BYTES
    window = max(min(max(window, SNAPSHOT_CHUNK_BYTES_MIN), SNAPSHOT_WINDOW_BYTES_MAX), chunk)
    consumers: tuple[tuple[str, bytes], ...] = ()
    if call.consumers is not None and call.told is None and not request.get("no_consumers"):
        found = call.consumers.recorded(state, now_ns=call.now_ns, rows=call.rows)
        consumers = tuple(
            (name, archived(config, progress, last_seq=index.last_seq)) for name, config, progress in found
        )
    shown = state_json(state, consumers=call.consumer_count(state.name))
    live, from_seq = index.live.sequences(index.first_seq, index.last_seq), request.get(FROM_SEQ, 0)
    begins = int(np.searchsorted(live, min(from_seq, index.last_seq + 1)))
    increment = {FROM_SEQ: from_seq, LIVE_BEFORE: _spans(live[:begins]).tolist()} if from_seq > 0 else {}
    work = StreamSnapshot(
        state.name,
        state.stream_id,
        deliver_subject,
        min(chunk, call.account.reply_bytes_max),
        window // chunk,
        shown,
        consumers,
        _spans(live[begins:]),
        index.bytes // max(1, index.msgs),
        call.now_ns,
        increment,
    )
    said = {FROM_SEQ: from_seq} if increment else {}
    return Started({"config": state.config.as_json(), "state": shown, **said}, work)


def restore(call: ApiCall) -> Result:
    """Begin to take a stream in; its messages come to the subject in the reply.

    With ``silt_resume``, any word of the sender, what is durable of it is kept if it breaks off. A request with the
    same word and configuration goes on with that: the reply says behind which sequence (``silt_resumed``), and the
    archive need not have the messages up to it.
    """
    call.require_body()
    request = call.body(request_shapes.RESTORE_REQUEST)
    said = request.get("config", {})
    name = said.get("name", "") or call.stream_name
    if name != call.stream_name:
        raise api_errors.STREAM_MISMATCH.error
    if "/" in name or "\\" in name:
        raise api_errors.NAME_WITH_PATH_SEPARATORS.error
    config = stream_config_rules.normalise(said | {"name": name})
    if name in call.catalog.streams or name in call.catalog.restoring:
        raise api_errors.STREAM_NAME_EXISTS_RESTORE.error
    stream_config_rules.check_replicas(config)
    source_rules.refuse_unsupported(config, domain=call.catalog.domain)
    call.refuse_unanswerable(config.as_json())
    call.catalog.routes.refuse_overlap(config)
    call.catalog.account.admit(config)
    call.catalog.require_change()
    subject = f"$JS.SNAPSHOT.RESTORE.{name}.{call.registry.new_id()}"
    most = call.account.reply_bytes_max
    most = min(most, config.max_msg_size) if config.max_msg_size >= 0 else most
    # Positions of sources are learned from all messages.
    word = request.get(RESUME, "")[:RESTORE_WORD_CHARS_MAX] if not config.sources else ""
    state = restores.resumed(call.catalog, config, word)
    said = {RESUMED: state.index.last_seq if state is not None else 0} if word else {}
    return Started({"deliver_subject": subject, **said}, StreamUpload(config, subject, most, word, state))


def restored(state: StreamState, *, consumers: int, now_ns: int) -> bytes:
    """Return the reply behind the last chunk: the stream as it stands now."""
    shown = state_json(state, consumers=consumers)
    info = stream_info(with_dynamic_metadata(state.config), state, shown, now_ns=now_ns, extra={})
    return success(_RESTORED, info)


def restore_refused(error: api_errors.ApiRefusal) -> bytes:
    """Return the reply behind the last chunk of a restore that has failed."""
    return failure(_RESTORED, error, {})


def _spans(seqs: Ints) -> Ints:
    """Return ascending sequences as rows of first and last of neighbours."""
    if not len(seqs):
        return np.zeros((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(seqs) != 1)
    firsts, lasts = seqs[np.append([0], breaks + 1)], seqs[np.append(breaks, [len(seqs) - 1])]
    spans: Ints = np.stack((firsts, lasts), axis=1)
    return spans
