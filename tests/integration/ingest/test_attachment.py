"""What both kinds of link say to a hub, and in which order: a hub of a few lines keeps every line that comes."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager

import pytest

from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink
from ingest.protocol.credentials import CredentialSource, TlsOptions
from ingest.protocol.link import Failure
from tests.hubs import WAIT, Heard, client, leaf
from tests.scribe import INFO, Scribe, scribe
from tests.waits import until

SUB = {"leaf": b"LS+ %b\r\n", "client": b"SUB %b %d\r\n"}
UNSUB = {"leaf": b"LS- %b\r\n", "client": b"UNSUB %d\r\n"}
BOTH = pytest.mark.parametrize("kind", ["leaf", "client"])


def link_to(
    kind: str, hub: Scribe, heard: Heard, *subjects: bytes, ping_interval_seconds: float = 5.0
) -> AbstractAsyncContextManager[LeafLink | ClientLink]:
    """A link of either kind to this hub."""
    if kind == "leaf":
        return leaf(hub.url, heard, subjects=subjects, ping_interval_seconds=ping_interval_seconds)
    return client(hub.url, heard, subjects=subjects, ping_interval_seconds=ping_interval_seconds)


def frame(form: bytes, subject: bytes, number: int) -> bytes:
    """A frame that names what its form asks for."""
    values = {1: (subject,) if b"%b" in form else (number,), 2: (subject, number)}
    return form % values[form.count(b"%")]


@BOTH
def test_a_link_is_attached_by_the_pong_behind_all_its_subscriptions(kind: str) -> None:
    """No PING leaves before the last subscription: its PONG says that the hub has them all."""

    async def scenario() -> None:
        subjects = [b"s.%d.>" % number for number in range(200)]
        async with scribe() as hub, link_to(kind, hub, Heard(), *subjects) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            told = [frame(SUB[kind], subject, number) for number, subject in enumerate(subjects, 1)]
            assert hub.lines[0].startswith(b"CONNECT {")
            assert hub.lines[1:] == [*told, b"PING\r\n"]

    asyncio.run(scenario())


@BOTH
def test_a_subscription_made_while_the_hub_is_asked_is_confirmed_too(kind: str) -> None:
    """A PONG says nothing about what was sent behind its PING: the link asks once more before it is attached."""

    async def scenario() -> None:
        async with scribe(answers=False) as hub, link_to(kind, hub, Heard(), b"early") as link:
            await until(lambda: b"PING\r\n" in hub.lines)
            link.subscribe(b"late")
            hub.may_answer.set()
            await asyncio.wait_for(link.attached.wait(), WAIT)
            early, late = frame(SUB[kind], b"early", 1), frame(SUB[kind], b"late", 2)
            assert hub.lines[1:] == [early, b"PING\r\n", late, b"PING\r\n"]

    asyncio.run(scenario())


@BOTH
def test_a_flush_asks_behind_what_was_subscribed_and_ended(kind: str) -> None:
    """The PING of a flush stands behind all earlier frames, whoever flushes, and each flush has its own."""

    async def scenario() -> None:
        async with scribe() as hub, link_to(kind, hub, Heard()) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            hub.lines.clear()
            link.subscribe(b"a")
            link.subscribe(b"a")
            first = asyncio.ensure_future(link.flush(WAIT))
            await asyncio.sleep(0)
            link.subscribe(b"b")
            link.unsubscribe(b"a")
            link.unsubscribe(b"a")
            await link.flush(WAIT)
            await first
            a, b, end = frame(SUB[kind], b"a", 1), frame(SUB[kind], b"b", 2), frame(UNSUB[kind], b"a", 1)
            assert hub.lines == [a, b"PING\r\n", b, end, b"PING\r\n"]

    asyncio.run(scenario())


@BOTH
def test_each_connection_is_told_what_is_subscribed_then(kind: str) -> None:
    """After a loss the subscriptions that are left are made again, and no others."""

    async def scenario() -> None:
        async with scribe() as hub, link_to(kind, hub, Heard(), b"a", b"b") as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            assert hub.writer is not None
            hub.writer.transport.abort()
            await until(lambda: not link.attached.is_set())
            hub.lines.clear()
            link.unsubscribe(b"a")
            link.subscribe(b"c")
            await asyncio.wait_for(link.attached.wait(), WAIT)
            assert hub.lines[1:] == [frame(SUB[kind], b"b", 2), frame(SUB[kind], b"c", 3), b"PING\r\n"]

    asyncio.run(scenario())


@BOTH
def test_nothing_is_said_to_a_hub_without_tls_where_tls_is_demanded(kind: str) -> None:
    """No byte of ours leaves in the clear, least of all a password."""

    async def scenario() -> None:
        heard = Heard()
        asked = {"credentials": CredentialSource(user="u", password="secret"), "tls": TlsOptions(required=True)}
        async with scribe() as hub, (leaf if kind == "leaf" else client)(hub.url, heard, **asked):
            await until(lambda: len(heard.statuses) == 1)
            assert heard.statuses[0].error is not None
            assert heard.statuses[0].error.kind is Failure.TLS
            assert not hub.lines

    asyncio.run(scenario())


@BOTH
def test_a_hub_that_answers_no_ping_is_left(kind: str) -> None:
    """Whoever is silent and does not answer is not there, though its connection is open."""

    async def scenario() -> None:
        heard = Heard()
        async with scribe() as hub, link_to(kind, hub, heard, ping_interval_seconds=0.05) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            await until(lambda: hub.lines.count(b"PING\r\n") > 2)
            assert link.attached.is_set()
            hub.may_answer.clear()
            await until(lambda: len(heard.statuses) > 1)
            assert heard.statuses[1].error is not None
            assert heard.statuses[1].error.kind is Failure.SILENT

    asyncio.run(scenario())


@pytest.mark.parametrize("text", ['Permissions Violation for Subscription to "A.b"', "maximum subscriptions exceeded"])
def test_any_complaint_ends_the_client_link(text: str) -> None:
    """A server goes on with a client whose subscription it did not take; the link would be deaf, and says why."""

    async def scenario() -> None:
        heard = Heard()
        async with scribe() as hub, link_to("client", hub, heard) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            hub.says(b"-ERR '%b'\r\n" % text.encode())
            await until(lambda: len(heard.statuses) > 1)
            assert heard.statuses[1].error is not None
            assert heard.statuses[1].error.kind is Failure.REFUSED
            assert str(heard.statuses[1].error) == text

    asyncio.run(scenario())


def test_a_server_in_lame_duck_mode_is_used_until_it_closes() -> None:
    """Its INFO that it will end ends nothing; the messages behind it still arrive, in one run."""

    async def scenario() -> None:
        heard = Heard()
        async with scribe() as hub, link_to("client", hub, heard, b"a") as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            hub.says(INFO.replace(b"true", b'true,"ldm":true') + b"MSG a 1 2\r\nhi\r\n" * 3)
            await until(lambda: heard.messages)
            assert heard.runs == [3]
            assert link.attached.is_set()

    asyncio.run(scenario())


def test_a_client_says_who_it_is() -> None:
    """CONNECT has what a client needs: headers, no acknowledgements of each frame, its name."""

    async def scenario() -> None:
        async with scribe() as hub, link_to("client", hub, Heard()) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            said = json.loads(hub.lines[0].removeprefix(b"CONNECT "))
            wanted = {"verbose": False, "pedantic": False, "headers": True, "name": "silt-test", "protocol": 1}
            assert said == said | wanted

    asyncio.run(scenario())
