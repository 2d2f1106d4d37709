"""What HTTP clients ask of the gateway: it goes there through NATS, as any other client's requests would.

The connection is made at the first request and kept. A message leaves only for a stream that takes its subject, and
demands that stream (``Nats-Expected-Stream``): a key for one stream publishes nowhere else, and asks no other service.
Requests of the JetStream API are those of a few routes, which need the scope ``admin``.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from api.rest import problems
from conf.limits import PUBLISH_ANSWER_SECONDS
from conf.settings import Settings
from delta_store.values.subjects import SubjectFilter, has_wildcard, valid

if TYPE_CHECKING:
    from nats.aio.client import Client

    from api.process.nats_context import NatsContext

_NOT_TAKEN: Final = ("$JS", "$SYS", "_INBOX")
"""First tokens of subjects that are services, not messages, whatever streams say."""
_BATCHES: Final = ("nats-batch-", "nats-fast-")
_EXPECTED: Final = "Nats-Expected-Stream"
_SPELLED: Final = {name.lower(): name for name in ("Nats-TTL", "Nats-Schedule-TTL")}
"""Names whose spelling is not that of their words: HTTP does not keep the case of a header's name, NATS asks for it."""


class Publisher:
    """The connection to NATS of one process; belongs to one event loop."""

    def __init__(self, find: "Callable[[], NatsContext]") -> None:
        """``find`` returns the address and login; it is called for each new connection."""
        self._find = find
        self._client: Client | None = None
        self._prefix = ""
        """Of the JetStream API's subjects, once there is a connection."""
        self._connecting = asyncio.Lock()

    async def publish(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Publish a message and return its PubAck. Raises :class:`problems.Refused`."""
        from consumers.client.api_call import nats_errors

        client = await self._connected()
        if len(payload) > client.max_payload:
            raise problems.Refused(413, problems.TOO_LARGE, f"more than {client.max_payload} bytes")
        with _refusals(problems.unanswered()), nats_errors("publish"):
            reply = await client.request(
                subject, payload, timeout=PUBLISH_ANSWER_SECONDS, headers=dict(headers), old_style=False
            )
        answer: dict[str, Any] = json.loads(reply.data)
        if "error" in answer:
            raise problems.refused_publish(answer["error"])
        return answer

    async def ask(self, verb: str, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        """Send a request of the JetStream API that may take so long; return its reply.

        Raises :class:`problems.Refused`.
        """
        from consumers.client.api_call import Api
        from consumers.client.errors import ApiError

        client = await self._connected()
        try:
            with _refusals(problems.unfinished()):
                return await Api(client, prefix=self._prefix, timeout=seconds).call(verb, body)
        except ApiError as error:
            raise problems.refused_request(error.code, error.err_code, error.description) from None

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()

    async def _connected(self) -> "Client":
        """Return the connection, a new one if there is none. Raises :class:`problems.Refused`."""
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> "Client":
        import nats
        from nats.errors import Error

        from api.process.nats_context import UnknownContext

        async def quiet(_: Exception) -> None:
            """Drop it: the client gets the error as an answer."""

        try:
            context = self._find()
            self._prefix = context.api_prefix
            return await nats.connect(
                **context.connect_options(),
                name="silt-http",
                connect_timeout=2,
                max_reconnect_attempts=1,
                error_cb=quiet,
            )
        except (Error, OSError, ValueError, UnknownContext) as error:
            said = f"no NATS server answers: {type(error).__name__}"
            raise problems.Refused(503, problems.NO_GATEWAY, said) from error


@contextmanager
def _refusals(unanswered: problems.Refused) -> Iterator[None]:
    """Turn the client's errors into refusals; ``unanswered`` is the one where no answer came in time."""
    from consumers.client.errors import RequestError, RequestTimeout, UsageError

    try:
        yield
    except RequestTimeout:
        raise unanswered from None
    except RequestError as error:
        raise problems.Refused(503, problems.NO_GATEWAY, f"no gateway answers: {error}") from None
    except UsageError as error:
        raise problems.bad_request(str(error)) from None


def publisher_of(settings: Settings) -> Publisher | None:
    """Return the publisher that the settings allow; None without an address of NATS."""
    file = settings.http.publish_context_file
    if file is not None:
        return Publisher(lambda: _context_in(file))
    return Publisher(lambda: _context(settings)) if "url" in settings.nats.model_fields_set else None


def checked_subject(subject: str, subjects: tuple[str, ...]) -> str:
    """Return a subject that a stream with these subjects takes. Raises :class:`problems.Refused`."""
    if not valid(subject) or has_wildcard(subject):
        raise problems.bad_request("subject: not a subject to publish to")
    taken = bool(subjects) and SubjectFilter(subjects).matches(subject)
    if not taken or subject.partition(".")[0] in _NOT_TAKEN:
        raise problems.bad_request(f"the stream does not take the subject {subject}")
    return subject


def message_headers(given: Mapping[str, str], stream: str) -> dict[str, str]:
    """Return the headers of a message for a stream; raises :class:`problems.Refused` for those of batches."""
    if any(name.lower().startswith(_BATCHES) for name in given):
        raise problems.bad_request("batches of messages can't be published over HTTP")
    for name, value in given.items():
        if not name or not name.isascii() or not name.isprintable() or set(name) & {":", " "}:
            raise problems.bad_request(f"not a header's name: {name!r}")
        if not value.isprintable():
            raise problems.bad_request(f"header {name}: its value holds what is not printable")
    if given.get(_EXPECTED, stream) != stream:
        raise problems.Refused(412, problems.OTHER_STREAM, "expected stream does not match")
    return {**given, _EXPECTED: stream}


def headers_of_request(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the message's headers among a request's: ``Nats-…``, and others behind ``Silt-Header-``.

    Names of HTTP headers have no case; the message's begin each word with a capital.
    """
    found = {}
    for field, value in fields.items():
        name = field.lower()
        if name.startswith("silt-header-"):
            found[name.removeprefix("silt-header-").title()] = value
        elif name.startswith("nats-"):
            found[_SPELLED.get(name, name.title())] = value
    return found


def _context_in(file: Path) -> "NatsContext":
    from api.process.nats_context import NatsContext

    return NatsContext.from_json(file.read_text())


def _context(settings: Settings) -> "NatsContext":
    from api.process.nats_context import NatsContext

    nats = settings.nats
    return replace(
        NatsContext(url=nats.url, jetstream_domain=nats.domain or ""),
        user=nats.user or "",
        password=nats.password.get_secret_value() if nats.password else "",
        token=nats.token.get_secret_value() if nats.token else "",
        nkey=str(nats.nkey_seed_file or ""),
        creds=str(nats.credentials_file or ""),
        ca=str(nats.tls_ca_file or ""),
        cert=str(nats.tls_certificate_file or ""),
        key=str(nats.tls_key_file or ""),
    )
