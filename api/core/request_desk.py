"""The requests of the core: the JetStream API, pulls, Direct Get, replies to flow control. Pure."""

from typing import Final, Protocol

from api.core.consumer_outlet import ConsumerOutlet
from api.core.effects import BegunTransfer, Deferred
from api.core.hub_view import HubView
from api.core.intake import Intake
from api.direct.direct_frames import no_responders_frame
from api.jetstream import stream_advisories
from api.jetstream.api_call import ApiRequest, NeedMessage, NeedPast, StartedReply
from api.jetstream.dispatch import HeadedReply, dispatch
from api.jetstream.responses import ApiAccount
from api.jetstream.shown_streams import shows_any
from consumers.engine.engine import ConsumerEngine
from consumers.machine.effects import PullRequest
from delta_store.streams.catalog import Catalog
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Gathering, Group

_API: Final = b"$JS.API."
_DIRECT: Final = b"DIRECT.GET."
_NEXT: Final = b"CONSUMER.MSG.NEXT."
_KEYED: Final = (b"$KV.", b"$OBJ.")
"""Prefixes of subjects that a hub with a domain wraps into that domain's API subjects."""


class Answers(Protocol):
    """Replies that need payloads: complete from memory, or left to a read."""

    def direct(self, request: WireMessage) -> bytes | Deferred | None:
        """Return the frames of a Direct Get's reply, or the read that is left; None for no reply."""
        ...

    def stored(self, wanted: NeedMessage | NeedPast, reply: bytes) -> bytes | Deferred:
        """Return the frame with one message of a stream, or the read that is left; of the past it always is."""
        ...


class RequestDesk:
    """The handler of requests, whose replies leave with the gathering group, or with one of their own."""

    def __init__(  # noqa: PLR0913  # its whole surroundings, by name
        self,
        catalog: Catalog,
        answers: Answers,
        hub: HubView,
        *,
        account: ApiAccount,
        gathering: Gathering,
        consumers: ConsumerEngine,
        intake: Intake,
        outlet: ConsumerOutlet,
    ) -> None:
        """``account`` is the API's own data."""
        self.groups: list[Group] = []
        """Groups without rows, to release at once: while commits wait for space, they show no undurable state."""
        self._catalog = catalog
        self._answers = answers
        self._payload_max = hub.payload_max
        self._account = account
        self._gathering = gathering
        self._consumers = consumers
        self._intake = intake
        self._outlet = outlet
        own = f"$JS.{catalog.domain}.API.".encode() if catalog.domain else _API
        self._prefixes = tuple(dict.fromkeys((_API, own)))

    def path_of(self, subject: bytes) -> bytes:
        """Return the subject behind ``$JS.API.`` or ``$JS.<domain>.API.``, empty for any other."""
        for prefix in self._prefixes:
            if subject.startswith(prefix):
                return subject[len(prefix) :]
        return b""

    def take(self, message: WireMessage, path: bytes, now_ns: int) -> None:
        """Handle a request, given its :meth:`path_of`, or a reply to flow control, whose path is empty."""
        if not path:
            self._consumers.flow(message.subject, message.header, now_ns)
            return
        if path.startswith(_KEYED):
            self._intake.publish([message._replace(subject=path)], now_ns)
            return
        group, waiting = self._group_for(path), self._gathering.group
        if path.startswith(_DIRECT):
            _answer(group, self._answers.direct(message))
        elif path.startswith(_NEXT):
            if message.reply and not self._pull(message, path, now_ns):
                group.replies.append(no_responders_frame(message.subject, message.reply))
        else:
            self._dispatch(group, message, path, now_ns=now_ns)
        if group is not waiting:
            self.groups.append(group)

    def _dispatch(self, group: Group, message: WireMessage, path: bytes, *, now_ns: int) -> None:
        """Reply to a request of the API proper, and send its advisories."""
        account, registry = self._account, self._consumers.registry
        account.reply_bytes_max = self._payload_max()
        events, total, errors = len(group.rows), account.api_total, account.api_errors
        answer = dispatch(
            self._catalog,
            ApiRequest(*message),
            now_ns=now_ns,
            rows=group.rows,
            account=account,
            consumers=registry,
        )
        changed = len(group.rows) > events
        self._outlet.sort(now_ns)
        if changed:
            registry.sync_streams(now_ns)
            told = stream_advisories.stream_action(path)
            if told is not None and account.api_errors == errors:
                self._intake.advise(told, now_ns)
        if isinstance(answer, StartedReply):
            begun = encode_message(message.reply, answer.reply) if message.reply and answer.reply else b""
            group.deferred.append(BegunTransfer(answer.work, begun, message.reply))
            answer = answer.reply or None
        elif isinstance(answer, HeadedReply):
            if message.reply:
                group.replies.append(encode_message(message.reply, answer.reply, header=answer.header))
            answer = answer.reply
        elif message.reply and answer is not None:
            if isinstance(answer, NeedMessage | NeedPast):
                _answer(group, self._answers.stored(answer, message.reply))
            else:
                group.replies.append(encode_message(message.reply, answer))
        audited = account.api_total > total and self._intake.tells(stream_advisories.AUDIT_SUBJECT)
        if isinstance(answer, bytes) and audited:
            audit = stream_advisories.api_audit(path, message.payload, answer, server=account.server_name)
            self._intake.advise(audit, now_ns)

    def _pull(self, message: WireMessage, path: bytes, now_ns: int) -> bool:
        """Pass a pull to its consumer; return False if there is none."""
        names = path[len(_NEXT) :].decode(errors="replace").split(".")
        request = PullRequest(message.reply, message.payload, message.header)
        return len(names) == 2 and self._consumers.pull(names[0], names[1], request, now_ns)

    def _group_for(self, path: bytes) -> Group:
        """Return the gathering group; while that waits for space, a new one for requests that show nothing of it."""
        gathering = self._gathering
        if gathering.blocked is None or gathering.idle or shows_any(self._catalog, path, gathering.hidden):
            return gathering.group
        return Group()


def _answer(group: Group, answer: bytes | Deferred | None) -> None:
    """Add a reply to the group, or the read that finishes it."""
    if isinstance(answer, bytes):
        group.replies.append(answer)
    elif answer is not None:
        group.deferred.append(answer)
