"""JetStream API errors: ``code``, ``err_code`` and text exactly as nats-server has them (server/errors.json).

``X.error`` is a fresh error to raise or to put into a reply. Errors with variable text are functions that return one;
their docstrings name the condition.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(unsafe_hash=True)
class ApiRefusal(Exception):
    """An error reply of the JetStream API; ``err_code`` is stable, the text is not.

    Not frozen, because Python itself writes an exception's traceback; nobody else changes one.
    """

    code: int
    err_code: int
    description: str

    def as_json(self) -> dict[str, int | str]:
        """Return the ``error`` object of a reply."""
        return {"code": self.code, "err_code": self.err_code, "description": self.description}


class Fixed(NamedTuple):
    """An error with a fixed text."""

    code: int
    err_code: int
    description: str

    @property
    def error(self) -> ApiRefusal:
        """A fresh error of this kind."""
        return ApiRefusal(*self)


BAD_REQUEST = Fixed(400, 10003, "bad request")
CLUSTER_REQUIRED = Fixed(503, 10010, "JetStream clustering support required")
CONSUMER_NOT_FOUND = Fixed(404, 10014, "consumer not found")
SNAPSHOT_DELIVER_SUBJECT_INVALID = Fixed(400, 10015, "deliver subject not valid")
MIRROR_MESSAGE_SIZE = Fixed(400, 10030, "stream mirror must have max message size >= source")
MIRROR_WITH_SOURCES = Fixed(400, 10031, "stream mirrors can not also contain other sources")
MIRROR_WITH_SUBJECTS = Fixed(400, 10034, "stream mirrors can not contain subjects")
NO_MESSAGE_FOUND = Fixed(404, 10037, "no message found")
NOT_EMPTY_REQUEST = Fixed(400, 10038, "expected an empty request payload")
SOURCE_MESSAGE_SIZE = Fixed(400, 10046, "stream source must have max message size >= target")
STREAMS_MAX = Fixed(400, 10027, "maximum number of streams reached")
INSUFFICIENT_MEMORY = Fixed(500, 10028, "insufficient memory resources available")
ACCOUNT_EXCEEDED = Fixed(400, 10002, "resource limits exceeded for account")
INSUFFICIENT_STORAGE = Fixed(500, 10047, "insufficient storage resources available")
MESSAGE_TOO_LARGE = Fixed(400, 10054, "message size exceeds maximum allowed")
MIRROR_NOT_UPDATABLE = Fixed(400, 10055, "stream mirror configuration can not be updated")
STREAM_MISMATCH = Fixed(400, 10056, "stream name in subject does not match request")
STREAM_NAME_EXISTS = Fixed(400, 10058, "stream name already in use with a different configuration")
STREAM_NOT_FOUND = Fixed(404, 10059, "stream not found")
EXPECTED_STREAM_MISMATCH = Fixed(400, 10060, "expected stream does not match")
SUBJECT_OVERLAP = Fixed(400, 10065, "subjects overlap with an existing stream")
REPLICAS_NOT_SUPPORTED = Fixed(500, 10074, "replicas > 1 not supported in non-clustered mode")
HEADER_TOO_LARGE = Fixed(400, 10097, "header size exceeds maximum allowed of 64k")
SOURCE_STALLED = Fixed(500, 10228, "stream source consumer stalled on flow control")
SEALED_STREAM = Fixed(400, 10109, "invalid operation on sealed stream")
MAX_BYTES_REQUIRED = Fixed(400, 10113, "account requires a stream config to have max bytes set")
MAX_BYTES_EXCEED_ACCOUNT = Fixed(400, 10122, "stream max bytes exceeds account limit max stream bytes")
NAME_WITH_PATH_SEPARATORS = Fixed(400, 10128, "Stream name can not contain path separators")
STREAM_NAME_EXISTS_RESTORE = Fixed(400, 10130, "stream name already in use, cannot restore")
REPLICAS_NEGATIVE = Fixed(400, 10133, "replicas count cannot be negative")
SOURCE_DUPLICATE = Fixed(400, 10140, "duplicate source configuration detected")
SOURCE_NAME_INVALID = Fixed(400, 10141, "sourced stream name is invalid")
MIRROR_NAME_INVALID = Fixed(400, 10142, "mirrored stream name is invalid")
MIRROR_WITH_FIRST_SEQ = Fixed(400, 10143, "stream mirrors can not have first sequence configured")
SOURCE_MULTIPLE_FILTERS = Fixed(
    400, 10144, "source with multiple subject transforms cannot also have a single subject filter"
)
SOURCE_FILTERS_OVERLAP = Fixed(400, 10147, "source filters can not overlap")
MIRROR_MULTIPLE_FILTERS = Fixed(
    400, 10150, "mirror with multiple subject transforms cannot also have a single subject filter"
)
MIRROR_FILTERS_OVERLAP = Fixed(400, 10152, "mirror subject filters can not overlap")
CONSUMER_GROUP_INVALID = Fixed(
    400, 10162, "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters"
)
TTL_DISABLED = Fixed(400, 10166, "per-message TTL is disabled")
TOO_MANY_REQUESTS = Fixed(429, 10167, "too many requests")
COUNTERS_DISABLED = Fixed(400, 10168, "message counters is disabled")
MIRROR_WITH_COUNTERS = Fixed(400, 10173, "stream mirrors can not also calculate counters")
INCREMENT_MISSING = Fixed(400, 10169, "message counter increment is missing")
INCREMENT_WITH_PAYLOAD = Fixed(400, 10170, "message counter has payload")
INCREMENT_INVALID = Fixed(400, 10171, "message counter increment is invalid")
COUNTER_BROKEN = Fixed(400, 10172, "message counter is broken")
ATOMIC_PUBLISH_DISABLED = Fixed(400, 10174, "atomic publish is disabled")
BATCH_SEQUENCE_MISSING = Fixed(400, 10175, "atomic publish sequence is missing")
BATCH_INCOMPLETE = Fixed(400, 10176, "atomic publish batch is incomplete")
BATCH_ID_INVALID = Fixed(400, 10179, "atomic publish batch ID is invalid")
REQUIRED_API_LEVEL = Fixed(412, 10185, "JetStream minimum api level required")
MIRROR_WITH_SCHEDULES = Fixed(400, 10186, "stream mirrors can not also schedule messages")
SOURCE_WITH_SCHEDULES = Fixed(400, 10187, "stream source can not also schedule messages")
SCHEDULES_DISABLED = Fixed(400, 10188, "message schedules is disabled")
SCHEDULE_PATTERN_INVALID = Fixed(400, 10189, "message schedules pattern is invalid")
SCHEDULE_TARGET_INVALID = Fixed(400, 10190, "message schedules target is invalid")
SCHEDULE_TTL_INVALID = Fixed(400, 10191, "message schedules invalid per-message TTL")
SCHEDULE_ROLLUP_INVALID = Fixed(400, 10192, "message schedules invalid rollup")
EXPECTED_SUBJECT_SEQUENCE_MISSING = Fixed(400, 10193, "missing sequence for expected last sequence per subject")
WRONG_LAST_SEQUENCE = Fixed(400, 10164, "wrong last sequence")
MIRROR_WITH_ATOMIC_PUBLISH = Fixed(400, 10198, "stream mirrors can not also use atomic publishing")
BATCH_COMMIT_INVALID = Fixed(400, 10200, "atomic publish batch commit is invalid")
BATCH_REPEATS = Fixed(400, 10201, "atomic publish batch contains duplicate message id")
SCHEDULE_SOURCE_INVALID = Fixed(400, 10203, "message schedules source is invalid")
BATCH_PUBLISH_DISABLED = Fixed(400, 10205, "batch publish is disabled")
BATCH_PUBLISH_PATTERN = Fixed(400, 10206, "batch publish pattern is invalid")
BATCH_PUBLISH_ID_INVALID = Fixed(400, 10207, "batch publish ID is invalid")
BATCH_PUBLISH_ID_UNKNOWN = Fixed(400, 10208, "batch publish ID unknown")
MIRROR_WITH_BATCH_PUBLISH = Fixed(400, 10209, "stream mirrors can not also use batch publishing")
BATCHES_TOO_MANY = Fixed(429, 10210, "atomic publish too many inflight")
BATCH_PUBLISHES_TOO_MANY = Fixed(429, 10211, "batch publish too many inflight")
SCHEDULER_INVALID = Fixed(400, 10212, "message schedules invalid scheduler")
MIRROR_CONSUMER_ACKS = Fixed(400, 10214, "stream mirror consumer requires flow control ack policy")
SOURCE_CONSUMER_ACKS = Fixed(400, 10217, "stream source consumer requires flow control ack policy")
MIRROR_CONSUMER_INVALID = Fixed(400, 10213, "stream mirror consumer config is invalid")
SOURCE_CONSUMER_INVALID = Fixed(400, 10215, "stream source consumer config is invalid")
SOURCE_CONSUMER_DUPLICATE = Fixed(400, 10216, "duplicate stream source consumer detected")
SCHEDULE_ZONE_INVALID = Fixed(400, 10223, "message schedules time zone is invalid")
PAST_CONSUMERS_FULL = Fixed(503, 20106, "consumers read as much of the past as they may: delete some first")
STREAM_SOURCE_HEADER = Fixed(400, 10227, "message stream source header is not allowed")


def past_horizon(reason: str) -> ApiRefusal:
    """The state asked for is older than what the tables keep; Silt's own."""
    return ApiRefusal(410, 20101, reason)


def no_such_stream(name: str) -> ApiRefusal:
    """There is no such stream among several; JetStream's code with Silt's text."""
    return ApiRefusal(404, 10059, f"there is no stream {name!r}")


def multi_last_refused(reason: str) -> ApiRefusal:
    """A request for the last messages of several streams can't be answered; Silt's own."""
    return ApiRefusal(400, 20105, reason)


def no_such_cut(name: str) -> ApiRefusal:
    """There is no cut of this name; Silt's own."""
    return ApiRefusal(404, 20102, f"there is no cut {name!r}: silt cut ls lists those that there are")


def cut_name_invalid(reason: str) -> ApiRefusal:
    """No cut can have this name; Silt's own."""
    return ApiRefusal(400, 20104, reason)


def cut_exists(name: str) -> ApiRefusal:
    """There is a cut of this name already; Silt's own."""
    return ApiRefusal(400, 20103, f"there is a cut {name!r} already: take another name, or silt cut rm {name}")


def unavailable(reason: str) -> ApiRefusal:
    """Not available for now, so that clients ask again soon; nats-server has no text behind the colon."""
    return ApiRefusal(503, 10008, f"JetStream system temporarily unavailable: {reason}")


def invalid_json(reason: str) -> ApiRefusal:
    """The request body is not the JSON that the endpoint takes."""
    return ApiRefusal(400, 10025, f"invalid JSON: {reason}")


def external_api_overlaps(prefix: str, subject: str) -> ApiRefusal:
    """Another domain's API may not be reached by our own subjects."""
    return ApiRefusal(400, 10021, f"stream external api prefix {prefix} must not overlap with {subject}")


def external_delivery_overlaps(prefix: str, subject: str) -> ApiRefusal:
    """What comes from another domain must not look like the stream's messages."""
    return ApiRefusal(400, 10022, f"stream external delivery prefix {prefix} overlaps with stream subject {subject}")


def external_delivery_invalid(prefix: str) -> ApiRefusal:
    """The prefix under which another domain delivers is no literal subject."""
    return ApiRefusal(400, 10024, f"stream external delivery prefix {prefix} must not contain wildcards")


def sequence_not_found(seq: int) -> ApiRefusal:
    """No message to delete at this sequence."""
    return ApiRefusal(400, 10043, f"sequence {seq} not found")


def create_failed(reason: str) -> ApiRefusal:
    """A stream was not created."""
    return ApiRefusal(500, 10049, reason)


def payload_misfit(reason: str) -> ApiRefusal:
    """The payload does not have its stream's schema. Ours: nats-server's codes begin with 10."""
    return ApiRefusal(400, 20001, f"message does not fit the stream's schema: {reason}")


def past_refused(reason: str) -> ApiRefusal:
    """A branch, rewind or undelete was not done. Ours, as nats-server has none of them."""
    return ApiRefusal(400, 20030, reason)


def stream_invalid_config(reason: str) -> ApiRefusal:
    """The stream configuration is not valid, or not one that Silt has."""
    return ApiRefusal(500, 10052, reason)


def message_delete_failed(reason: str) -> ApiRefusal:
    """A message was not deleted."""
    return ApiRefusal(500, 10057, reason)


def restore_failed(reason: str) -> ApiRefusal:
    """A stream was not restored."""
    return ApiRefusal(500, 10062, f"restore failed: {reason}")


def mirror_setup_failed(reason: str) -> ApiRefusal:
    """The consumer of a mirror's origin can't be set up."""
    return ApiRefusal(500, 10029, reason)


def stream_identity_mismatch(identity: str) -> ApiRefusal:
    """A consumer is asked of another stream than the one of this name."""
    return ApiRefusal(400, 10225, f"consumer's stream identity does not match: {identity}")


def update_failed(reason: str) -> ApiRefusal:
    """A stream's configuration was not changed."""
    return ApiRefusal(500, 10069, reason)


def wrong_last_msg_id(last: str) -> ApiRefusal:
    """The last stored message has another id than the publisher expects."""
    return ApiRefusal(400, 10070, f"wrong last msg ID: {last}")


def wrong_last_sequence(last: int) -> ApiRefusal:
    """The last sequence is another than the publisher expects."""
    return ApiRefusal(400, 10071, f"wrong last sequence: {last}")


def store_failed(reason: str) -> ApiRefusal:
    """The stream can not take a message (discard new)."""
    return ApiRefusal(503, 10077, reason)


def purge_failed(reason: str) -> ApiRefusal:
    """A stream was not purged."""
    return ApiRefusal(500, 10110, reason)


def rollup_failed(reason: str) -> ApiRefusal:
    """A publish asked for a rollup that the stream does not do."""
    return ApiRefusal(500, 10111, reason)


def source_transform_source_invalid(reason: str) -> ApiRefusal:
    """A source's transform has a source that is no subject."""
    return ApiRefusal(400, 10145, f"source transform source: {reason}")


def source_transform_invalid(reason: str) -> ApiRefusal:
    """A source's transform maps to nothing valid."""
    return ApiRefusal(400, 10146, f"source transform: {reason}")


def mirror_transform_source_invalid(reason: str) -> ApiRefusal:
    """A mirror's transform has a source that is no subject."""
    return ApiRefusal(400, 10151, f"mirror transform source: {reason}")


def mirror_transform_invalid(reason: str) -> ApiRefusal:
    """A mirror's transform maps to nothing valid."""
    return ApiRefusal(400, 10154, f"mirror transform: {reason}")


def transform_source_invalid(reason: str) -> ApiRefusal:
    """A stream's transform has a source that is no subject."""
    return ApiRefusal(400, 10155, f"stream transform source: {reason}")


def transform_invalid(reason: str) -> ApiRefusal:
    """A stream's transform maps to nothing valid."""
    return ApiRefusal(400, 10156, f"stream transform: {reason}")


def pedantic(reason: str) -> ApiRefusal:
    """A pedantic request would have been changed by a default."""
    return ApiRefusal(400, 10157, f"pedantic mode: {reason}")


# --- consumers ---
CONSUMER_NAME_EXISTS = Fixed(400, 10013, "consumer name already in use")
CONSUMER_DURABLE_NAME_MISMATCH = Fixed(400, 10017, "consumer name in subject does not match durable name in request")
CONSUMER_DURABLE_NAME_NOT_SET = Fixed(400, 10018, "consumer expected to be durable but a durable name was not set")
CONSUMER_EPHEMERAL_WITH_DURABLE_NAME = Fixed(
    400, 10020, "consumer expected to be ephemeral but a durable name was set in request"
)
CONSUMERS_MAX = Fixed(400, 10026, "maximum consumers limit reached")
CONSUMER_DELIVER_TO_WILDCARDS = Fixed(400, 10079, "consumer deliver subject has wildcards")
CONSUMER_PUSH_MAX_WAITING = Fixed(400, 10080, "consumer in push mode can not set max waiting")
CONSUMER_DELIVER_CYCLE = Fixed(400, 10081, "consumer deliver subject forms a cycle")
CONSUMER_MAX_PENDING_NEEDS_ACKS = Fixed(400, 10082, "consumer requires ack policy for max ack pending")
CONSUMER_SMALL_HEARTBEAT = Fixed(400, 10083, "consumer idle heartbeat needs to be >= 100ms")
CONSUMER_PULL_REQUIRES_ACK = Fixed(400, 10084, "consumer in pull mode requires explicit ack policy on workqueue stream")
CONSUMER_PULL_WITH_RATE_LIMIT = Fixed(400, 10086, "consumer in pull mode can not have rate limit set")
CONSUMER_HEARTBEAT_REQUIRES_PUSH = Fixed(400, 10088, "consumer idle heartbeat requires a push based consumer")
CONSUMER_FLOW_CONTROL_REQUIRES_PUSH = Fixed(400, 10089, "consumer flow control requires a push based consumer")
CONSUMER_DIRECT_REQUIRES_PUSH = Fixed(400, 10090, "consumer direct requires a push based consumer")
CONSUMER_DIRECT_REQUIRES_EPHEMERAL = Fixed(400, 10091, "consumer direct requires an ephemeral consumer")
WORKQUEUE_REQUIRES_EXPLICIT_ACK = Fixed(400, 10098, "workqueue stream requires explicit ack")
WORKQUEUE_MULTIPLE_UNFILTERED = Fixed(400, 10099, "multiple non-filtered consumers not allowed on workqueue stream")
WORKQUEUE_CONSUMER_NOT_UNIQUE = Fixed(400, 10100, "filtered consumer not unique on workqueue stream")
WORKQUEUE_REQUIRES_DELIVER_ALL = Fixed(400, 10101, "consumer must be deliver all on workqueue stream")
CONSUMER_FLOW_CONTROL_NEEDS_HEARTBEATS = Fixed(400, 10108, "consumer with flow control also needs heartbeats")
CONSUMER_DELIVER_SUBJECT_INVALID = Fixed(400, 10112, "invalid push consumer deliver subject")
CONSUMER_MAX_EXPIRES_TOO_SMALL = Fixed(400, 10115, "consumer max request expires needs to be >= 1ms")
CONSUMER_MAX_DELIVER_BACKOFF = Fixed(400, 10116, "max deliver is required to be > length of backoff values")
CONSUMER_REPLICAS_EXCEED_STREAM = Fixed(400, 10126, "consumer config replica count exceeds parent stream")
CONSUMER_NAME_WITH_PATH_SEPARATORS = Fixed(400, 10127, "Consumer name can not contain path separators")
CONSUMER_FILTER_MISMATCH = Fixed(
    400, 10131, "Consumer create request did not match filtered subject from create subject"
)
CONSUMER_DURABLE_AND_NAME_MISMATCH = Fixed(
    400, 10132, "Consumer Durable and Name have to be equal if both are provided"
)
CONSUMER_REPLICAS_SHOULD_MATCH = Fixed(
    400, 10134, "consumer config replicas must match interest retention stream's replicas"
)
CONSUMER_DUPLICATE_FILTERS = Fixed(400, 10136, "consumer cannot have both FilterSubject and FilterSubjects specified")
CONSUMER_MULTIPLE_FILTERS_IN_SUBJECT = Fixed(
    400, 10137, "consumer with multiple subject filters cannot use subject based API"
)
CONSUMER_OVERLAPPING_FILTERS = Fixed(400, 10138, "consumer subject filters cannot overlap")
CONSUMER_EMPTY_FILTER = Fixed(400, 10139, "consumer filter in FilterSubjects cannot be empty")
CONSUMER_ALREADY_EXISTS = Fixed(400, 10148, "consumer already exists")
CONSUMER_DOES_NOT_EXIST = Fixed(400, 10149, "consumer does not exist")
CONSUMER_POLICY_WITHOUT_GROUP = Fixed(
    400, 10159, "Setting PriorityPolicy requires at least one PriorityGroup to be set"
)
CONSUMER_GROUP_UNKNOWN = Fixed(400, 10160, "Provided priority group does not exist for this consumer")
CONSUMER_GROUP_EMPTY = Fixed(400, 10161, "Group name cannot be an empty string")
CONSUMER_PUSH_WITH_GROUPS = Fixed(400, 10178, "priority groups can not be used with push consumers")
CONSUMER_ACK_WAIT_NEGATIVE = Fixed(400, 10183, "consumer ack wait needs to be positive")
CONSUMER_BACKOFF_NEGATIVE = Fixed(400, 10184, "consumer backoff needs to be positive")
CONSUMER_GROUPS_WITHOUT_POLICY = Fixed(400, 10196, "consumer can not have priority groups when policy is none")
CONSUMER_PIN_TTL_WITHOUT_POLICY = Fixed(400, 10197, "PinnedTTL cannot be set when PriorityPolicy is none")
CONSUMER_FLOW_ACK_REQUIRES_PUSH = Fixed(400, 10218, "flow control ack policy requires a push based consumer")
CONSUMER_FLOW_ACK_REQUIRES_FLOW_CONTROL = Fixed(400, 10219, "flow control ack policy requires flow control")
CONSUMER_FLOW_ACK_REQUIRES_MAX_ACK_PENDING = Fixed(400, 10220, "flow control ack policy requires max ack pending")
CONSUMER_FLOW_ACK_REQUIRES_NO_ACK_WAIT = Fixed(400, 10221, "flow control ack policy requires unset ack wait")
CONSUMER_FLOW_ACK_REQUIRES_NO_MAX_DELIVER = Fixed(400, 10222, "flow control ack policy requires unset max deliver")


def consumer_create_failed(reason: str) -> ApiRefusal:
    """A consumer was not created or changed."""
    return ApiRefusal(500, 10012, reason)


def consumer_invalid_policy(reason: str) -> ApiRefusal:
    """The deliver policy and where to start do not go together."""
    return ApiRefusal(400, 10094, reason)


def consumer_invalid_sampling(reason: str) -> ApiRefusal:
    """The sampling frequency is no percentage."""
    return ApiRefusal(400, 10095, f"failed to parse consumer sampling configuration: {reason}")


def consumer_name_too_long(limit: int) -> ApiRefusal:
    """A durable consumer's name has more bytes than it may."""
    return ApiRefusal(400, 10102, f"consumer name is too long, maximum allowed is {limit}")


def consumer_description_too_long(limit: int) -> ApiRefusal:
    """A consumer's description has more bytes than it may."""
    return ApiRefusal(400, 10107, f"consumer description is too long, maximum allowed is {limit}")


def consumer_max_ack_pending_exceeds(limit: int) -> ApiRefusal:
    """More messages may be pending than the stream allows its consumers."""
    return ApiRefusal(400, 10121, f"consumer max ack pending exceeds system limit of {limit}")


def consumer_metadata_too_long(limit: int) -> ApiRefusal:
    """A consumer's metadata has more bytes than it may."""
    return ApiRefusal(400, 10135, f"consumer metadata exceeds maximum size of {limit // 1024}KB")


def consumer_inactive_threshold_exceeds(limit: str) -> ApiRefusal:
    """The consumer would stay unused for longer than the stream allows (a duration as Go writes it)."""
    return ApiRefusal(400, 10153, f"consumer inactive threshold exceeds system limit of {limit}")


def consumer_invalid_reset(reason: str) -> ApiRefusal:
    """The consumer may not start over there."""
    return ApiRefusal(400, 10204, f"invalid reset: {reason}")
