"""Requests of the JetStream API and what it grew around: pulls, Direct Get, answers to flow control. Pure."""

from typing import Final, Protocol

from api.core.consumer_outlet import ConsumerOutlet
from api.core.effects import Deferred
from api.core.hub_view import HubView
from api.core.intake import Intake
from api.direct.direct_frames import no_responders_frame
from api.jetstream import stream_advisories
from api.jetstream.api_call import ApiRequest, NeedMessage
from api.jetstream.dispatch import dispatch
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
"""What a hub with a domain wraps into that domain's API subjects."""


class Answers(Protocol):
    """Answers that need payloads: given from memory, or begun and left to be read."""

    def direct(self, request: WireMessage) -> bytes | Deferred | None:
        """Frames of a Direct Get's answer, or what is left to read."""
        ...

    def stored(self, wanted: NeedMessage, reply: bytes) -> bytes | Deferred:
        """The frame that holds one stored message, or what is left to read."""
        ...


class RequestDesk:
    """Takes one request after the other; answers leave with the group that gathers, or with one of their own."""

    def __init__(  # noqa: PLR0913 (its whole surroundings, by name)
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
        """``account`` is what the API says of itself."""
        self.groups: list[Group] = []
        """Groups without rows that show nothing undurable while commits wait for space, for whoever releases them."""
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
        """What follows ``$JS.API.`` or ``$JS.<domain>.API.``, empty for any other subject."""
        for prefix in self._prefixes:
            if subject.startswith(prefix):
                return subject[len(prefix) :]
        return b""

    def take(self, message: WireMessage, path: bytes, now_ns: int) -> None:
        """Take a request whose :meth:`path_of` is given, or an answer to flow control, which has none."""
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
        """Have a request of the API proper answered, and tell who listens what came of it."""
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
        if message.reply and answer is not None:
            if isinstance(answer, NeedMessage):
                _answer(group, self._answers.stored(answer, message.reply))
            else:
                group.replies.append(encode_message(message.reply, answer))
        audited = account.api_total > total and self._intake.tells(stream_advisories.AUDIT_SUBJECT)
        if isinstance(answer, bytes) and audited:
            audit = stream_advisories.api_audit(path, message.payload, answer, server=account.server_name)
            self._intake.advise(audit, now_ns)

    def _pull(self, message: WireMessage, path: bytes, now_ns: int) -> bool:
        """Give a consumer a request for messages; False when there is no such consumer."""
        names = path[len(_NEXT) :].decode(errors="replace").split(".")
        request = PullRequest(message.reply, message.payload, message.header)
        return len(names) == 2 and self._consumers.pull(names[0], names[1], request, now_ns)

    def _group_for(self, path: bytes) -> Group:
        """The group that gathers; while it waits for space one of its own for what shows nothing of it."""
        gathering = self._gathering
        if gathering.blocked is None or gathering.idle or shows_any(self._catalog, path, gathering.hidden):
            return gathering.group
        return Group()


def _answer(group: Group, answer: bytes | Deferred | None) -> None:
    """What is known leaves with the group, what must be read is read behind it."""
    if isinstance(answer, bytes):
        group.replies.append(answer)
    elif answer is not None:
        group.deferred.append(answer)
