"""One call of the JetStream API: a handler's argument, and its results."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api.jetstream.responses import ApiAccount
from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.consumer_registry import ConsumerRegistry
from consumers.machine.past_view import PastView
from delta_store.config import api_errors
from delta_store.config.api_level import level_refused
from delta_store.dialect.json_shapes import Decoded, Struct, decode, is_empty_request, is_object_or_array
from delta_store.dialect.json_syntax import JsonError
from delta_store.dialect.json_writer import write_json
from delta_store.reading.read_plan import FoundLasts, ReadPlan, WantedLasts
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.as_of import AsOf
from delta_store.values.point_shape import AS_OF
from delta_store.values.records import RowColumns
from delta_store.values.settling import Settling
from delta_store.values.stream_history import StreamHistory


class ApiRequest(NamedTuple):
    """A request: the fields of a link's message, b"" when absent."""

    subject: bytes
    reply: bytes
    header: bytes
    payload: bytes


class NeedMessage(NamedTuple):
    """A message to reply with: the caller fetches it and replies with ``responses.msg_get_reply``."""

    plan: ReadPlan
    no_hdr: bool


class StartedReply(NamedTuple):
    """A reply that begins a transfer, or only work that replies at its end."""

    reply: bytes
    """Empty where the work replies."""
    work: Any


class AskedPast(NamedTuple):
    """A handler's answer to a request for past points: it is to be called again with the states at them."""

    stream: str
    points: tuple[str | None, ...]
    """As the request writes them; None is now."""


class AskedVersions(NamedTuple):
    """A handler's answer to a request for a stream's versions: it is to be called again with them."""

    stream: str
    point: str | None
    before: int | None
    most: int


class AskedLasts(NamedTuple):
    """A handler's answer to a request for the last messages of subjects of several streams, likewise."""

    wanted: WantedLasts
    point: str | None


class AskedHistory(NamedTuple):
    """A handler's answer to a request for how far back a stream can be read, likewise."""

    stream: str


OfPast = AskedPast | AskedVersions | AskedLasts | AskedHistory
Told = Sequence[StreamState | None] | Sequence[Settling] | FoundLasts | StreamHistory
"""What a handler asked for: states, None where there was no such stream, versions, messages, or the history."""


class NeedPast(NamedTuple):
    """A reply about a stream's past: the caller reads what is asked, and replies with what ``reply`` makes of it."""

    asked: OfPast
    reply: Callable[[Told], bytes | NeedMessage | StartedReply]
    refused: Callable[[api_errors.ApiRefusal], bytes]
    """Makes the reply when the state can't be read."""


class Uncounted(NamedTuple):
    """An error reply that the API's counters count as no error: a message that could not be deleted."""

    error: api_errors.ApiRefusal


class Started(NamedTuple):
    """A success reply that begins a transfer: others carry out ``work`` once the reply may leave."""

    fields: dict[str, Any]
    work: Any


class Identified(NamedTuple):
    """A success reply to a server that copies the stream: its header has the stream's identity."""

    fields: dict[str, Any]
    identity: str


class Promised(NamedTuple):
    """No reply yet: others carry out ``work`` once all that was decided before is durable, and reply at its end."""

    work: Any


class AskedView(NamedTuple):
    """A handler's answer that waits for past states: it is to be called again once they are read."""

    stream: str
    stream_id: int
    new: AsOf | None
    """The point of a view to be made, which the next call has; None where consumers have those that are awaited."""


class ViewWork(NamedTuple):
    """A request that waits for past states."""

    asked: AskedView
    again: Callable[[PastView | None, int, RowColumns], "bytes | ViewWork"]
    """Handles the request with the new view, at a time (ns since 1970) and with the rows of the gathering group."""
    refused: Callable[[api_errors.ApiRefusal], bytes]
    """Makes the reply when a past state can't be read."""


class Silence(NamedTuple):
    """No reply: nats-server's endpoint exists only together with the consumer that the subject names."""


_ESCAPE_BYTES_MAX: Final = 6
"""Most bytes that one byte of a request becomes in a reply."""
_BESIDE_CONFIG_BYTES: Final = 8192
"""Room for a reply's fields beside the configuration."""

SILENCE: Final = Silence()

Result = dict[str, Any] | NeedMessage | OfPast | AskedView | Promised | Started | Identified | Uncounted | Silence
"""A handler's result: the fields of a success reply, or one of the special replies."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request with the state that its handler reads or changes; handlers raise :class:`ApiRefusal` to refuse."""

    catalog: Catalog
    account: ApiAccount
    names: tuple[str, ...]
    """The subject's tokens for the endpoint's wildcards; the first is the stream's name."""
    header: bytes
    payload: bytes
    now_ns: int
    rows: RowColumns
    """Gets the event rows of changes; the reply may leave only when they are durable."""
    consumers: ConsumerRegistry | None = None
    """None where there are only streams."""
    page_max: int = sys.maxsize
    """Most entries of a paged reply: as many as fit into one message."""
    told: Told | None = None
    """What the handler asked of the past, once it has been read."""
    view: PastView | None = None
    """The past state that the handler asked for, once it has been read."""
    view_of: AsOf | None = None
    """The point that it asked for."""

    @property
    def stream_name(self) -> str:
        """Name of the stream, from the subject."""
        return self.names[0]

    @property
    def registry(self) -> ConsumerRegistry:
        """The registry of consumers, where there can be any."""
        assert self.consumers is not None
        return self.consumers

    @property
    def directory(self) -> ConsumerDirectory:
        """The directory of consumers."""
        return self.registry.directory

    def consumer_count(self, stream: str) -> int:
        """Return the number of the stream's consumers; of the past none are known."""
        if self.told is not None:
            return 0
        return self.consumers.directory.company(stream).count if self.consumers is not None else 0

    def page(self, most: int) -> int:
        """Return the most entries of a page whose own limit is ``most``."""
        return min(most, self.page_max)

    def refuse_unanswerable(self, shown: dict[str, Any]) -> None:
        """Refuse a configuration too large for a reply, before anything is created."""
        most = self.account.reply_bytes_max
        if len(self.payload) * _ESCAPE_BYTES_MAX > most and len(write_json(shown)) > most - _BESIDE_CONFIG_BYTES:
            raise api_errors.MESSAGE_TOO_LARGE.error

    def body(self, shape: Struct) -> Decoded:
        """Decode the body, which must be JSON of this shape, or empty."""
        try:
            return decode(self.payload, shape)
        except JsonError as error:
            raise api_errors.invalid_json(str(error)) from None

    def optional_body(self, shape: Struct) -> Decoded | None:
        """Decode the body if it begins like JSON; return None otherwise."""
        return self.body(shape) if is_object_or_array(self.payload) else None

    def require_body(self) -> None:
        """Refuse a request without a body."""
        if is_empty_request(self.payload):
            raise api_errors.BAD_REQUEST.error

    def refuse_body(self) -> None:
        """Refuse a request with a body."""
        if not is_empty_request(self.payload):
            raise api_errors.NOT_EMPTY_REQUEST.error

    def require_level(self) -> None:
        """Refuse a request that demands a higher API level than ours."""
        if level_refused(self.header):
            raise api_errors.REQUIRED_API_LEVEL.error

    def asked_past(self, request: Decoded) -> AskedPast | None:
        """Return the past point that a request asks for, None when it asks for now or the point has been read."""
        if AS_OF not in request or self.told is not None:
            return None
        return AskedPast(self.stream().name, (request[AS_OF],))

    def stream(self) -> StreamState:
        """Return the stream that the subject names, its expired messages removed; refuses if there is none.

        Once a past point has been read it is the stream as it stood.
        """
        if self.told is not None:
            return self._then(self.told)
        state = self.catalog.streams.get(self.stream_name)
        if state is None:
            raise api_errors.STREAM_NOT_FOUND.error
        self.catalog.expire_stream(state, now_ns=self.now_ns, rows=self.rows)
        return state

    def _then(self, told: Told) -> StreamState:
        if isinstance(told, FoundLasts) or not told or not isinstance(told[0], StreamState):
            raise api_errors.STREAM_NOT_FOUND.error
        return told[0]
