"""Both links against peers that no nats-server is: bytes written by hand on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conf.limits import LINK_CONTROL_LINE_BYTES_MAX
from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink
from ingest.protocol.link import Failure, LinkError
from ingest.protocol.wire_protocol import WireMessage
from tests.hubs import WAIT, Heard, client, leaf
from tests.waits import until

INFO = b'INFO {"server_id":"N","nonce":"x","headers":true,"max_payload":1024} \r\n'
MESSAGE = {leaf: b"LMSG a 2\r\nhi\r\n", client: b"MSG a 1 2\r\nhi\r\n"}
LINKS = pytest.mark.parametrize("link_to", MESSAGE)
TLS_INFO = INFO.replace(b"true", b'true,"tls_required":true')


@asynccontextmanager
async def peer(*steps: bytes, hold: bool = True) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A listener that writes each step, with an answer of the link in between; gives its URL and what it heard."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for step in steps:
            writer.write(step)
            if step is not steps[-1]:
                heard.append(await reader.read(65536))
        while hold:
            more = await reader.read(65536)
            if not more:
                break
            heard.append(more)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard


async def first_error(heard: Heard) -> LinkError:
    """The first failure that the link reported."""
    await until(lambda: any(status.error for status in heard.statuses))
    return next(status.error for status in heard.statuses if status.error)


@pytest.mark.parametrize(
    ("steps", "kind", "text"),
    [
        ((TLS_INFO + b"<message>",), Failure.PROTOCOL, "plain text follows"),
        ((b"<message>" + INFO,), Failure.PROTOCOL, "its INFO"),
        ((TLS_INFO + b"H",), Failure.PROTOCOL, "plain text follows"),
        ((TLS_INFO, b"PING\r\n"), Failure.TLS, "TLS failed"),
        ((INFO, b"PONG\r\nPONG\r\n"), Failure.PROTOCOL, "without a PING"),
        ((INFO, b"NONSENSE\r\n"), Failure.PROTOCOL, "NONSENSE"),
        ((b"SSH-2.0-OpenSSH\r\n",), Failure.PROTOCOL, "SSH"),
        ((b"x" * (LINK_CONTROL_LINE_BYTES_MAX + 1),), Failure.PROTOCOL, "longer than"),
    ],
)
@LINKS
def test_what_no_hub_says_ends_the_connection(link_to: Any, steps: tuple[bytes, ...], kind: Failure, text: str) -> None:
    """Each fault is named, and above all plain text in front of TLS is never taken for the hub's."""

    async def scenario() -> None:
        heard = Heard()
        said = [step.replace(b"<message>", MESSAGE[link_to]) for step in steps]
        async with peer(*said) as (url, _), link_to(url, heard):
            error = await first_error(heard)
            assert error.kind is kind
            assert text in str(error)
            assert not heard.messages

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("link_to", "kind", "text"), [(leaf, Failure.PROTOCOL, "X"), (client, Failure.REFUSED, "Authori")]
)
def test_a_complaint_is_final_for_a_client_only(link_to: Any, kind: Failure, text: str) -> None:
    """A leaf waits for its hub to close, and hears what else comes; to a client nothing counts after an -ERR."""

    async def scenario() -> None:
        heard = Heard()
        complaint = b"-ERR 'Authorization Violation'\r\nPONG\r\nX\r\n"
        async with peer(INFO, complaint) as (url, _), link_to(url, heard):
            error = await first_error(heard)
            assert error.kind is kind
            assert text in str(error)

    asyncio.run(scenario())


@LINKS
def test_a_peer_that_closes_at_once_is_tried_again_at_once(link_to: Any) -> None:
    """A port that is open before its server is ready (a container's proxy) costs no backoff."""

    async def scenario() -> None:
        heard = Heard()
        async with peer(b"", hold=False) as (url, _), link_to(url, heard):
            assert (await first_error(heard)).kind is Failure.UNREACHABLE

    asyncio.run(scenario())


@LINKS
def test_a_peer_that_says_nothing_is_left(link_to: Any) -> None:
    """The handshake has a time."""

    async def scenario() -> None:
        heard = Heard()
        async with peer(b"") as (url, _), link_to(url, heard):
            assert (await first_error(heard)).kind is Failure.SILENT

    asyncio.run(scenario())


@LINKS
def test_the_hubs_ping_is_answered(link_to: Any) -> None:
    """A hub drops a link that does not answer."""

    async def scenario() -> None:
        heard = Heard()
        async with peer(INFO, b"PONG\r\n", b"") as (url, said), link_to(url, heard) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            said.clear()
        async with peer(INFO, b"PONG\r\nPING\r\n") as (url, said), link_to(url, heard) as link:
            await until(lambda: said[-1:] == [b"PONG\r\n"])

    asyncio.run(scenario())


@LINKS
def test_a_message_before_the_pong_is_handled_and_its_fault_is_ours(link_to: Any) -> None:
    """Subscriptions work from the moment the hub has them; a callback's error then is not taken for the hub's."""

    def broken(link: LeafLink | ClientLink, run: list[WireMessage]) -> None:
        raise KeyError(run[0].payload)

    async def scenario() -> None:
        async with peer(INFO, MESSAGE[link_to]) as (url, _), link_to(url, Heard(), answer=broken):
            await asyncio.sleep(WAIT)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(scenario())
    assert caught.group_contains(KeyError, match="b'hi'")
