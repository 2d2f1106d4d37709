"""Every error of the client, in one tree by the caller's remedy. Pure.

    JetStreamError
    ├── UsageError              the call itself is wrong: nothing was sent                  → change the program
    ├── RequestError            no reply arrived                                            → try again
    │   ├── RequestTimeout      in time
    │   ├── NoResponders        nobody serves that subject: no JetStream, no such consumer
    │   └── ConnectionLost      the connection is closed, or was lost while waiting
    ├── ApiError                the server refused a request of its API
    │   ├── StreamNotFound, ConsumerNotFound, MessageNotFound
    │   ├── AlreadyExists       a stream or consumer of that name is configured differently
    │   ├── InvalidRequest      any other refusal: the server uses 400 and 500 alike
    │   └── ServerFailure       503: try again
    ├── PullError               a status that ended a pull, or its absence
    │   ├── BadPull, ConsumerDeleted, ConsumerIsPush            terminal: consuming ends
    │   ├── PullLimitExceeded, LeadershipChanged, HeartbeatMissed, PullUnanswered, UnknownPullStatus
    │   └── MessageTooLarge     the next message does not fit into ``max_bytes``
    ├── TransferFailed          a backup or restore that broke off: begin it anew
    ├── SequenceGap             an ordered consumer missed a message, and begins anew behind the last one received
    └── DirectGetError          a status in answer to Direct Get
        ├── NothingFound, BadDirectGet, TooManySubjects, ApiLevelTooLow, DirectGetFailed
        └── BatchUnsupported    the server is older than 2.11

``kind`` is stable and may be stored; the text may change. Consuming passes errors that do not end it to its warning
callback.
"""

from enum import StrEnum
from typing import ClassVar


class ErrorKind(StrEnum):
    """The error's kind, for programs. Members are only ever added."""

    ALREADY_ACKNOWLEDGED = "already_acknowledged"
    ALREADY_EXISTS = "already_exists"
    API_LEVEL_TOO_LOW = "api_level_too_low"
    BAD_DIRECT_GET = "bad_direct_get"
    BAD_PULL = "bad_pull"
    BATCH_UNSUPPORTED = "batch_unsupported"
    CONNECTION_LOST = "connection_lost"
    CONSUMER_DELETED = "consumer_deleted"
    CONSUMER_IS_PUSH = "consumer_is_push"
    CONSUMER_NOT_FOUND = "consumer_not_found"
    DIRECT_GET_FAILED = "direct_get_failed"
    HEARTBEAT_MISSED = "heartbeat_missed"
    INVALID_REQUEST = "invalid_request"
    LEADERSHIP_CHANGED = "leadership_changed"
    MESSAGE_NOT_FOUND = "message_not_found"
    MESSAGE_TOO_LARGE = "message_too_large"
    NO_RESPONDERS = "no_responders"
    NOTHING_FOUND = "nothing_found"
    PULL_LIMIT_EXCEEDED = "pull_limit_exceeded"
    PULL_UNANSWERED = "pull_unanswered"
    REQUEST_TIMEOUT = "request_timeout"
    SEQUENCE_GAP = "sequence_gap"
    SERVER_FAILURE = "server_failure"
    STREAM_NOT_FOUND = "stream_not_found"
    TOO_MANY_SUBJECTS = "too_many_subjects"
    TRANSFER_FAILED = "transfer_failed"
    UNKNOWN_PULL_STATUS = "unknown_pull_status"
    UNREADABLE_ANSWER = "unreadable_answer"
    USAGE = "usage"


class JetStreamError(Exception):
    """The root of all errors of the client."""

    kind: ClassVar[ErrorKind]
    retryable: ClassVar[bool] = False
    """Whether the same call, unchanged, may succeed later."""


class UsageError(JetStreamError, ValueError):
    """The arguments contradict each other or a name is invalid; nothing was sent."""

    kind = ErrorKind.USAGE


class AlreadyAcknowledged(UsageError):
    """This object has already sent its message's final acknowledgement."""

    kind = ErrorKind.ALREADY_ACKNOWLEDGED


class RequestError(JetStreamError):
    """No reply arrived; whether the request had its effect is unknown."""

    kind = ErrorKind.CONNECTION_LOST
    retryable = True


class RequestTimeout(RequestError):
    """No reply arrived in time."""

    kind = ErrorKind.REQUEST_TIMEOUT


class NoResponders(RequestError):
    """Nobody serves the subject: JetStream is off or starting, or the consumer does not exist."""

    kind = ErrorKind.NO_RESPONDERS


class ConnectionLost(RequestError):
    """The connection is closed, or was lost while a reply was awaited."""

    kind = ErrorKind.CONNECTION_LOST


class UnreadableAnswer(JetStreamError):
    """The reply is not one of this protocol."""

    kind = ErrorKind.UNREADABLE_ANSWER


class ApiError(JetStreamError):
    """The ``error`` object of a reply: HTTP-like ``code``, JetStream's own ``err_code``, and the text."""

    kind = ErrorKind.INVALID_REQUEST

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} (code {code}, err_code {err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description


class StreamNotFound(ApiError):
    """No such stream."""

    kind = ErrorKind.STREAM_NOT_FOUND


class ConsumerNotFound(ApiError):
    """No such consumer of that stream."""

    kind = ErrorKind.CONSUMER_NOT_FOUND


class MessageNotFound(ApiError):
    """The stream does not hold the message."""

    kind = ErrorKind.MESSAGE_NOT_FOUND


class AlreadyExists(ApiError):
    """A stream or consumer of that name exists with another configuration."""

    kind = ErrorKind.ALREADY_EXISTS


class InvalidRequest(ApiError):
    """The server refused the request."""

    kind = ErrorKind.INVALID_REQUEST


class ServerFailure(ApiError):
    """The server can't serve the request now."""

    kind = ErrorKind.SERVER_FAILURE
    retryable = True


_BY_ERR_CODE: dict[int, type[ApiError]] = {
    10014: ConsumerNotFound,
    10037: MessageNotFound,
    10043: MessageNotFound,
    10058: AlreadyExists,
    10059: StreamNotFound,
    10013: AlreadyExists,
    10148: AlreadyExists,
    10149: ConsumerNotFound,
}


def api_error(code: int, err_code: int, description: str) -> ApiError:
    """Return the error for a server's ``error`` object: by ``err_code`` where known, else by ``code``."""
    chosen = _BY_ERR_CODE.get(err_code) or (ServerFailure if code == 503 else InvalidRequest)
    return chosen(code, err_code, description)


class _StatusError(JetStreamError):
    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{code} {description}" if code else description)
        self.code = code
        """The status's number; 0 when the client itself found the problem."""
        self.description = description


class PullError(_StatusError):
    """A pull ended without being served."""

    kind = ErrorKind.UNKNOWN_PULL_STATUS
    retryable = True
    terminal: ClassVar[bool] = False
    """Whether it ends consuming."""


class BadPull(PullError):
    """The server could not accept the request."""

    kind = ErrorKind.BAD_PULL
    retryable = False
    terminal = True


class ConsumerDeleted(PullError):
    """The consumer was deleted while a pull waited."""

    kind = ErrorKind.CONSUMER_DELETED
    retryable = False
    terminal = True


class ConsumerIsPush(PullError):
    """The consumer is a push consumer, which serves no pulls."""

    kind = ErrorKind.CONSUMER_IS_PUSH
    retryable = False
    terminal = True


class PullLimitExceeded(PullError):
    """The pull asks for more than the consumer's ``max_batch``, ``max_expires``, ``max_bytes`` or ``max_waiting``."""

    kind = ErrorKind.PULL_LIMIT_EXCEEDED


class LeadershipChanged(PullError):
    """Another server leads the consumer now and does not have the pull."""

    kind = ErrorKind.LEADERSHIP_CHANGED


class MessageTooLarge(PullError):
    """The next message alone is larger than ``max_bytes``: nothing arrives until that is raised."""

    kind = ErrorKind.MESSAGE_TOO_LARGE
    retryable = False


class HeartbeatMissed(PullError):
    """Nothing arrived for twice the heartbeat's interval while a pull was open."""

    kind = ErrorKind.HEARTBEAT_MISSED


class PullUnanswered(PullError):
    """A pull had no end by its expiry: the server lost it, or can't be reached."""

    kind = ErrorKind.PULL_UNANSWERED


class UnknownPullStatus(PullError):
    """A status unknown to this client."""

    kind = ErrorKind.UNKNOWN_PULL_STATUS


class PullNotServed(PullError):
    """Nobody serves the consumer's pulls now (503): it does not exist, or its server is starting."""

    kind = ErrorKind.NO_RESPONDERS


class TransferFailed(JetStreamError):
    """A backup or restore broke off."""

    kind = ErrorKind.TRANSFER_FAILED
    retryable = True


class SequenceGap(JetStreamError):
    """An ordered consumer did not receive a message that its server sent."""

    kind = ErrorKind.SEQUENCE_GAP
    retryable = True

    def __init__(self, expected: int, received: int) -> None:
        super().__init__(f"expected message {expected} of the consumer, it is at {received}")
        self.expected = expected
        self.received = received


class DirectGetError(_StatusError):
    """Direct Get answered with a status instead of a message."""

    kind = ErrorKind.DIRECT_GET_FAILED


class NothingFound(DirectGetError):
    """No message matches."""

    kind = ErrorKind.NOTHING_FOUND


class BadDirectGet(DirectGetError):
    """The server could not accept the request."""

    kind = ErrorKind.BAD_DIRECT_GET


class TooManySubjects(DirectGetError):
    """More than 1024 subjects match: use narrower filters, or a consumer."""

    kind = ErrorKind.TOO_MANY_SUBJECTS


class ApiLevelTooLow(DirectGetError):
    """The server's API level is below the one that the request requires."""

    kind = ErrorKind.API_LEVEL_TOO_LOW


class DirectGetFailed(DirectGetError):
    """The server could not read the message."""

    kind = ErrorKind.DIRECT_GET_FAILED
    retryable = True


class BatchUnsupported(DirectGetError):
    """The server answered a batch with a single message: it is older than 2.11."""

    kind = ErrorKind.BATCH_UNSUPPORTED

    def __init__(self) -> None:
        super().__init__(0, "the server does not know batches")


_DIRECT: dict[int, type[DirectGetError]] = {
    404: NothingFound,
    408: BadDirectGet,
    412: ApiLevelTooLow,
    413: TooManySubjects,
}


def direct_get_error(code: int, description: str) -> DirectGetError:
    """Return the error for a status of Direct Get."""
    return _DIRECT.get(code, DirectGetFailed)(code, description)
