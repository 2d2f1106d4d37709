"""The client link against a real nats-server: raw messages, new subscriptions, coming back after each loss."""

import asyncio
import os
import signal
from pathlib import Path

import nats
import pytest

from api.hub.hub_config import HubConfig, find_nats_server
from api.hub.hub_process import HubProcess
from conf.limits import MIB
from ingest.links.client_link import ClientLink
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.link import Failure
from ingest.protocol.wire_protocol import WireMessage
from tests.hubs import WAIT, AnyHub, Heard, client, free_port, leaf, opened, running
from tests.waits import until

ODD_HEADER = b"NATS/1.0\r\nNats-Msg-Id: 1\r\nkey:no-space\r\nkey:  two \r\nKey: \xff\xfe\r\n\r\n"


def test_a_header_block_arrives_byte_for_byte(tmp_path: Path) -> None:
    """Repeated keys, their case and order, spaces and bytes that are no UTF-8: nothing is parsed on the way."""

    async def scenario() -> None:
        heard, overleaf = Heard(), Heard()
        async with (
            running(HubConfig(tmp_path)) as hub,
            client(hub.url, heard, subjects=(b"$JS.API.>",)) as link,
            leaf(hub.leaf_url, overleaf) as sender,
        ):
            await asyncio.wait_for(link.attached.wait(), WAIT)
            await asyncio.wait_for(sender.attached.wait(), WAIT)
            frames = [
                encode_message(b"$JS.API.INFO", b"body\r\n", header=ODD_HEADER, reply=b"_INBOX.1"),
                encode_message(b"$JS.API.\xff", b""),
                encode_message(b"$JS.API.INFO", b"z" * (MIB - 10)),
            ]
            sender.send(b"".join(frames))
            await until(lambda: len(heard.messages) == 3)
            assert heard.messages == [
                WireMessage(b"$JS.API.INFO", b"_INBOX.1", ODD_HEADER, b"body\r\n"),
                WireMessage(b"$JS.API.\xff", b"", b"", b""),
                WireMessage(b"$JS.API.INFO", b"", b"", b"z" * (MIB - 10)),
            ]

    asyncio.run(scenario())


def test_requests_come_over_the_client_link_and_answers_leave_over_the_leaf_link(tmp_path: Path) -> None:
    """On a hub that denies the API to leafs, the pair of links serves it."""

    async def scenario() -> None:
        heard = Heard()
        config = HubConfig(tmp_path, api_over_leaf=False)

        def answer(_: ClientLink, run: list[WireMessage]) -> None:
            assert out.send(b"".join(encode_message(m.reply, m.subject) for m in run))

        async with (
            running(config) as hub,
            leaf(hub.leaf_url, Heard()) as out,
            client(hub.url, heard, answer=answer) as link,
        ):
            await asyncio.wait_for(out.attached.wait(), WAIT)
            await asyncio.wait_for(link.attached.wait(), WAIT)
            for subject in (b"$JS.API.>", b"$JS.d.API.>", b"$KV.>"):
                link.subscribe(subject)
            await link.flush(WAIT)
            peer = await nats.connect(hub.url)
            for asked in ("$JS.API.STREAM.NAMES", "$JS.d.API.INFO", "$KV.b.k"):
                assert (await peer.request(asked, b"", timeout=WAIT)).data == asked.encode()
            await peer.close()

    asyncio.run(scenario())


def test_a_queue_group_and_its_end(tmp_path: Path) -> None:
    """One of two links in a group gets each message; what is read at once comes as one run; then it ends."""

    async def scenario() -> None:
        first, second = Heard(), Heard()
        async with running(HubConfig(tmp_path)) as hub, client(hub.url, first) as one, client(hub.url, second) as two:
            for link in (one, two):
                await asyncio.wait_for(link.attached.wait(), WAIT)
                link.subscribe(b"s.*", b"q")
                await link.flush(WAIT)
            peer = await nats.connect(hub.url)
            for number in range(50):
                await peer.publish(f"s.{number}", b"")
            await until(lambda: len(first.messages) + len(second.messages) == 50)
            assert len(first.runs) + len(second.runs) < 25
            for link in (one, two):
                link.unsubscribe(b"s.*", b"q")
                await link.flush(WAIT)
            with pytest.raises(nats.errors.NoRespondersError):
                await peer.request("s.none", b"", timeout=WAIT)
            assert len(first.messages) + len(second.messages) == 50
            await peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_restarted_server_finds_its_client_attached(tmp_path: Path, loop: str) -> None:
    """Started before its server and after each restart, the link attaches by itself; the delay is reported only."""

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        config = HubConfig(tmp_path, port=free_port())
        heard, attached_at = Heard(), []
        async with client(f"nats://127.0.0.1:{config.port}", heard, subjects=(b"s",)) as link:
            link.attachment.on_status = lambda status: attached_at.append(clock()) if status.attached else None
            for round_number in range(5):
                seen = asyncio.ensure_future(opened(config.port, clock))
                hub = HubProcess(find_nats_server(), config)
                address = await hub.start(WAIT)
                await asyncio.wait_for(link.attached.wait(), WAIT)
                print("attached after", round(1000 * (attached_at[-1] - await seen), 1), "ms")  # noqa: T201  # a report, see -rP
                peer = await nats.connect(address.url)
                await peer.publish("s", b"")
                await until(lambda wanted=round_number + 1: len(heard.messages) == wanted)
                await peer.close()
                os.kill(hub.pid, signal.SIGKILL if round_number % 2 else signal.SIGTERM)
                await hub.wait()
                await until(lambda: not link.attached.is_set())
        assert len(heard.messages) == 5

    if loop == "uvloop":
        import uvloop

        uvloop.run(scenario())
    else:
        asyncio.run(scenario())


def test_a_callback_that_fails_ends_the_link_with_its_own_error(tmp_path: Path) -> None:
    """A fault of ours is not taken for a lost connection and tried again."""

    def broken(_: ClientLink, run: list[WireMessage]) -> None:
        raise KeyError(run[0].subject)

    async def scenario() -> None:
        async with running(HubConfig(tmp_path)) as hub:
            peer = await nats.connect(hub.url)
            async with client(hub.url, Heard(), subjects=(b"s",), answer=broken) as link:
                await asyncio.wait_for(link.attached.wait(), WAIT)
                await peer.publish("s", b"")
                await peer.flush()
                await asyncio.sleep(WAIT)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(scenario())
    assert caught.group_contains(KeyError, match="b's'")


def test_a_denied_subscription_is_reported_with_the_servers_words(tmp_path: Path) -> None:
    """A link that may not hear what it must serve is not attached."""

    async def scenario() -> None:
        user = 'user: u, password: p, permissions: { subscribe: { deny: ["$JS.API.>"] } }'
        config = AnyHub(tmp_path, extra=f"authorization {{ users: [ {{ {user} }} ] }}")
        heard = Heard()
        async with running(config) as hub, client(hub.url.replace("//", "//u:p@"), heard, subjects=(b"$JS.API.>",)):
            await until(lambda: heard.statuses and heard.statuses[-1].error)
            error = heard.statuses[-1].error
            assert error is not None
            assert error.kind is Failure.REFUSED
            assert "$JS.API.>" in str(error)

    asyncio.run(scenario())


def test_a_link_is_cancelled_at_any_moment_without_residue(tmp_path: Path) -> None:
    """Cancelling during connect, handshake or afterwards ends run() at once and leaves no task or connection."""

    async def scenario() -> None:
        async with running(HubConfig(tmp_path)) as hub:
            for turns in (*range(20), 60):
                async with client(hub.url, Heard(), subjects=(b"s",)):
                    for _ in range(turns):
                        await asyncio.sleep(0)
                assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())
