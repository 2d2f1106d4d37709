"""One call of the JetStream API: what a handler is given, and what it may give back."""

import sys
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api.jetstream.responses import ApiAccount
from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.consumer_registry import ConsumerRegistry
from delta_store.config import api_errors
from delta_store.config.api_level import level_refused
from delta_store.dialect.json_shapes import Decoded, Struct, decode, is_empty_request, is_object_or_array
from delta_store.dialect.json_syntax import JsonError
from delta_store.dialect.json_writer import write_json
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns


class ApiRequest(NamedTuple):
    """A request as it came from NATS: the fields of a link's message, b"" when absent."""

    subject: bytes
    reply: bytes
    header: bytes
    payload: bytes


class NeedMessage(NamedTuple):
    """The answer is this message: whoever holds payloads fetches it and replies with ``responses.msg_get_reply``."""

    stream: str
    stream_id: int
    seq: int
    no_hdr: bool


class Uncounted(NamedTuple):
    """A reply that carries an error and yet is no error to the API's counters: a message that could not be deleted."""

    error: api_errors.ApiRefusal


class Silence(NamedTuple):
    """No answer at all: the endpoint exists only for what the subject names, and that is not there."""


_ESCAPE_BYTES_MAX: Final = 6
"""What one byte of a request may become in a reply."""
_BESIDE_CONFIG_BYTES: Final = 8192
"""Room for what a reply shows beside a configuration."""

SILENCE: Final = Silence()

Result = dict[str, Any] | NeedMessage | Uncounted | Silence
"""What a handler gives back: the fields of a success reply, or one of the special answers."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request and all that answering it may read or change; handlers raise :class:`ApiRefusal` to refuse."""

    catalog: Catalog
    account: ApiAccount
    names: tuple[str, ...]
    """What stands in the subject for the endpoint's wildcards; the first is the stream."""
    header: bytes
    payload: bytes
    now_ns: int
    rows: RowColumns
    """Takes the event rows of changes: the reply may only leave once they are durable."""
    consumers: ConsumerRegistry | None = None
    """None where there can be no consumers: only streams are asked about."""
    page_max: int = sys.maxsize
    """Entries that the reply may hold, as far as it has any: as many as fit into one message."""

    @property
    def stream_name(self) -> str:
        """The stream that the subject names."""
        return self.names[0]

    @property
    def registry(self) -> ConsumerRegistry:
        """Where consumers are made and changed; there must be some way to have any."""
        assert self.consumers is not None
        return self.consumers

    @property
    def directory(self) -> ConsumerDirectory:
        """The consumers that there are."""
        return self.registry.directory

    def consumer_count(self, stream: str) -> int:
        """How many consumers the stream has."""
        return self.consumers.directory.company(stream).count if self.consumers is not None else 0

    def page(self, most: int) -> int:
        """Entries of a page that would have ``most``."""
        return min(most, self.page_max)

    def refuse_unanswerable(self, shown: dict[str, Any]) -> None:
        """Refuse a configuration that no reply could show, before anything is made of it."""
        most = self.account.reply_bytes_max
        if len(self.payload) * _ESCAPE_BYTES_MAX > most and len(write_json(shown)) > most - _BESIDE_CONFIG_BYTES:
            raise api_errors.MESSAGE_TOO_LARGE.error

    def body(self, shape: Struct) -> Decoded:
        """The body, which must be JSON of this shape (or nothing)."""
        try:
            return decode(self.payload, shape)
        except JsonError as error:
            raise api_errors.invalid_json(str(error)) from None

    def optional_body(self, shape: Struct) -> Decoded | None:
        """The body if it looks like JSON at all, else None."""
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

    def stream(self) -> StreamState:
        """The stream that the subject names, without what is too old by now; refuses when there is none."""
        state = self.catalog.streams.get(self.stream_name)
        if state is None:
            raise api_errors.STREAM_NOT_FOUND.error
        self.catalog.expire_stream(state, now_ns=self.now_ns, rows=self.rows)
        return state
