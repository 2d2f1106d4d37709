"""The leaf link against a real nats-server: what comes in, what goes out, and coming back after each loss."""

import asyncio
import itertools
import os
import signal
from pathlib import Path

import nats
import pytest

from api.hub.hub_config import HubConfig, find_nats_server
from api.hub.hub_process import HubProcess
from conf.limits import LINK_OUTBOUND_BYTES_MAX, MIB
from ingest.links.leaf_link import LeafLink
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.link import Failure, LinkError
from ingest.protocol.wire_protocol import WireMessage
from tests.hubs import WAIT, AnyHub, Heard, free_port, leaf, opened, running
from tests.waits import until

HEADER = b"NATS/1.0\r\nA: b\r\na:  B \r\nA: c\r\n\r\n"


def echo(link: LeafLink, run: list[WireMessage]) -> None:
    """Answer each request with its own payload and header."""
    link.send(b"".join(encode_message(m.reply, m.payload, header=m.header) for m in run if m.reply))


def test_messages_arrive_with_subject_reply_header_and_payload(tmp_path: Path) -> None:
    """A client's request comes in whole, and the leaf's reply reaches its inbox with the header bytes unchanged."""

    async def scenario() -> None:
        heard = Heard()
        async with (
            running(HubConfig(tmp_path)) as hub,
            leaf(hub.leaf_url, heard, subjects=(b"orders.>",), answer=echo) as link,
        ):
            await asyncio.wait_for(link.attached.wait(), WAIT)
            peer = await nats.connect(hub.url)
            reply = await peer.request("orders.new", b"payload\r\n", headers={"Key": "value"}, timeout=WAIT)
            assert reply.data == b"payload\r\n"
            assert reply.headers == {"Key": "value"}
            await peer.publish("orders.plain", b"")
            await until(lambda: len(heard.messages) == 2)
            assert heard.messages[0].subject == b"orders.new"
            assert heard.messages[0].header == b"NATS/1.0\r\nKey: value\r\n\r\n"
            assert heard.messages[1] == WireMessage(b"orders.plain", b"", b"", b"")
            await peer.close()

    asyncio.run(scenario())


def test_the_hub_gives_a_delivery_the_subject_behind_the_at_sign(tmp_path: Path) -> None:
    """What no client may send: a reply that is an ack subject, with the stream's subject in place of the inbox."""

    async def scenario() -> None:
        async with running(HubConfig(tmp_path)) as hub, leaf(hub.leaf_url, Heard()) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            peer = await nats.connect(hub.url)
            inbox = await peer.subscribe("_INBOX.x")
            grouped = await peer.subscribe("deliver.x", queue="workers")
            await peer.flush()
            ack = b"$JS.ACK.S.C.1.10.10.1700000000000000000.3"
            link.send(encode_message(b"_INBOX.x", b"one", reply=ack + b"@orders.new", header=HEADER))
            link.send(encode_message(b"deliver.x", b"two", reply=ack + b"@orders.b", queues=(b"workers",)))
            message = await inbox.next_msg(timeout=WAIT)
            assert (message.subject, message.reply, message.data) == ("orders.new", ack.decode(), b"one")
            assert message.metadata.sequence.stream == 10
            message = await grouped.next_msg(timeout=WAIT)
            assert (message.subject, message.reply, message.data) == ("orders.b", ack.decode(), b"two")
            await peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("api_over_leaf", [True, False])
def test_api_and_kv_subjects_cross_the_leaf_link_only_with_an_empty_default_domain(
    tmp_path: Path, api_over_leaf: bool
) -> None:
    """The embedded hub lets ``$JS.API.>``, ``$KV.>`` and ``$OBJ.>`` through both ways; any other hub denies them."""

    async def scenario() -> None:
        heard = Heard()
        config = HubConfig(tmp_path, api_over_leaf=api_over_leaf)
        subjects = (b"$JS.API.>", b"$KV.>", b"$OBJ.>", b"$JS.d.API.>", b"$JS.ACK.>", b"$O.>")
        async with running(config) as hub, leaf(hub.leaf_url, heard, subjects=subjects, answer=echo) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            peer = await nats.connect(hub.url)
            asked = ["$JS.API.INFO", "$KV.b.k", "$OBJ.b.x", "$JS.d.API.INFO", "$JS.ACK.S.C.1.1.1.1.0", "$O.b.C.x"]
            answered = []
            for subject in asked:
                try:
                    answered.append((await peer.request(subject, subject.encode(), timeout=WAIT)).data.decode())
                except nats.errors.NoRespondersError:
                    continue
            assert answered == (asked if api_over_leaf else asked[3:])
            await peer.close()

    asyncio.run(scenario())


def test_a_queue_group_shares_requests_between_two_leafs(tmp_path: Path) -> None:
    """``_sys_`` over leaf links: each request is answered once, and both responders get some."""

    async def scenario() -> None:
        one, two = Heard(), Heard()
        async with (
            running(HubConfig(tmp_path)) as hub,
            leaf(hub.leaf_url, one, answer=echo, name="one") as first,
            leaf(hub.leaf_url, two, answer=echo, name="two") as second,
        ):
            for link in (first, second):
                await asyncio.wait_for(link.attached.wait(), WAIT)
                link.subscribe(b"$JS.API.DIRECT.GET.>", b"_sys_")
                await link.flush(WAIT)
            peer = await nats.connect(hub.url)
            for number in range(100):
                assert (await peer.request("$JS.API.DIRECT.GET.S", b"%d" % number, timeout=WAIT)).data == b"%d" % number
            assert sorted(m.payload for m in one.messages + two.messages) == sorted(b"%d" % n for n in range(100))
            assert one.messages
            assert two.messages
            await peer.close()

    asyncio.run(scenario())


def test_many_messages_in_large_chunks_keep_their_order(tmp_path: Path) -> None:
    """A burst of mixed sizes arrives whole and in order, mostly as runs."""

    async def scenario() -> None:
        heard = Heard()
        sizes = [0, 1, 100, 128, 5_000, 70_000]
        async with running(HubConfig(tmp_path)) as hub, leaf(hub.leaf_url, heard, subjects=(b"bulk",)) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            peer = await nats.connect(hub.url)
            sent = [b"%d:" % n + b"x" * sizes[n % len(sizes)] for n in range(3000)]
            for payload in sent:
                await peer.publish("bulk", payload)
            await until(lambda: len(heard.messages) == len(sent))
            assert [m.payload for m in heard.messages] == sent
            assert max(heard.runs) > 1
            await peer.publish("bulk", b"y" * MIB)
            await until(lambda: len(heard.messages) == len(sent) + 1)
            assert heard.messages[-1].payload == b"y" * MIB
            await peer.close()

    asyncio.run(scenario())


def test_subscriptions_change_at_run_time_and_interest_follows_the_clients(tmp_path: Path) -> None:
    """After a flush the hub routes by the new subscriptions; the table and its callback show who listens."""

    async def scenario() -> None:
        heard, changes = Heard(), []
        async with running(HubConfig(tmp_path)) as hub, leaf(hub.leaf_url, heard) as link:
            link.interest.on_change = lambda subject, queue, added: changes.append((subject, queue, added))
            await asyncio.wait_for(link.attached.wait(), WAIT)
            peer = await nats.connect(hub.url)
            link.subscribe(b"a.*")
            await link.flush(WAIT)
            await peer.publish("a.1", b"")
            await until(lambda: heard.messages)
            link.unsubscribe(b"a.*")
            await link.flush(WAIT)
            with pytest.raises(nats.errors.NoRespondersError):
                await peer.request("a.1", b"", timeout=WAIT)
            assert len(heard.messages) == 1
            assert not link.interest.has_interest(b"deliver.me")
            plain = await peer.subscribe("deliver.*")
            group = await peer.subscribe("deliver.me", queue="q")
            await until(lambda: link.interest.has_interest(b"deliver.me") and link.interest.weight(b"deliver.me", b"q"))
            await plain.unsubscribe()
            await group.unsubscribe()
            await until(lambda: not link.interest.has_interest(b"deliver.me"))
            assert [change for change in changes if change[0].startswith(b"deliver")] == [
                (b"deliver.*", b"", True), (b"deliver.me", b"q", True),
                (b"deliver.*", b"", False), (b"deliver.me", b"q", False),
            ]  # fmt: skip
            await peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_restarted_hub_finds_its_leaf_attached_with_all_subscriptions(tmp_path: Path, loop: str) -> None:
    """Started before its hub and after each restart, the link attaches by itself; the delay is reported, not judged."""

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        config = HubConfig(tmp_path, port=free_port(), leaf_port=free_port())
        heard, attached_at = Heard(), []
        async with leaf(f"nats://127.0.0.1:{config.leaf_port}", heard, subjects=(b"s.>",), answer=echo) as link:
            link.attachment.on_status = lambda status: attached_at.append(clock()) if status.attached else None
            for round_number in range(5):
                seen = asyncio.ensure_future(opened(config.leaf_port, clock))
                hub = HubProcess(find_nats_server(), config)
                address = await hub.start(WAIT)
                await asyncio.wait_for(link.attached.wait(), WAIT)
                print("attached after", round(1000 * (attached_at[-1] - await seen), 1), "ms")  # noqa: T201  # a report, see -rP
                peer = await nats.connect(address.url)
                assert (await peer.request("s.x", b"again", timeout=WAIT)).data == b"again"
                await peer.close()
                os.kill(hub.pid, signal.SIGKILL if round_number % 2 else signal.SIGTERM)
                await hub.wait()
                await until(lambda: not link.attached.is_set())
                assert link.send(encode_message(b"lost", b"")) is False
        assert len(attached_at) == 5

    if loop == "uvloop":
        import uvloop

        uvloop.run(scenario())
    else:
        asyncio.run(scenario())


def test_a_hub_that_stops_answering_is_left(tmp_path: Path) -> None:
    """A half-open connection (here: a stopped hub) is noticed by our own PING and made again."""

    async def scenario() -> None:
        heard = Heard()
        hub = HubProcess(find_nats_server(), HubConfig(tmp_path))
        address = await hub.start(WAIT)
        async with leaf(address.leaf_url, heard, ping_interval_seconds=0.1) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            await asyncio.sleep(0.5)
            assert link.attached.is_set()
            os.kill(hub.pid, signal.SIGSTOP)
            await until(lambda: not link.attached.is_set())
            assert heard.statuses[-1].error is not None
            assert heard.statuses[-1].error.kind is Failure.SILENT
            os.kill(hub.pid, signal.SIGCONT)
            await asyncio.wait_for(link.attached.wait(), WAIT)
        await hub.stop(WAIT)

    asyncio.run(scenario())


def test_a_hub_that_does_not_read_closes_the_tap_and_then_the_door(tmp_path: Path) -> None:
    """Output past the high mark is taken but not ``writable``; past the bound it is refused, but for subscriptions."""

    async def scenario() -> None:
        hub = HubProcess(find_nats_server(), HubConfig(tmp_path))
        address = await hub.start(WAIT)
        heard = Heard()
        async with leaf(address.leaf_url, heard, ping_interval_seconds=WAIT) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            assert link.writable
            os.kill(hub.pid, signal.SIGSTOP)
            frame = encode_message(b"nobody", b"x" * (MIB - 100))
            taken = 0
            while link.send(frame):
                taken += 1
                await asyncio.sleep(0)
                assert taken < 100
            assert not link.writable
            session = link.attachment.session
            assert session is not None
            assert session.out.size <= LINK_OUTBOUND_BYTES_MAX
            with pytest.raises(TimeoutError):
                await link.drain(0.05)
            link.subscribe(b"late")
            os.kill(hub.pid, signal.SIGCONT)
            await link.drain(WAIT)
            assert link.writable
            await link.flush(WAIT)
            peer = await nats.connect(address.url)
            await peer.publish("late", b"")
            await until(lambda: heard.messages)
            await peer.close()
        await hub.stop(WAIT)

    asyncio.run(scenario())


def test_flush_fails_when_the_link_is_lost(tmp_path: Path) -> None:
    """Nobody waits for a PONG that will not come."""

    async def scenario() -> None:
        hub = HubProcess(find_nats_server(), HubConfig(tmp_path))
        address = await hub.start(WAIT)
        async with leaf(address.leaf_url, Heard()) as link:
            with pytest.raises(LinkError, match="not attached"):
                await link.flush(WAIT)
            await asyncio.wait_for(link.attached.wait(), WAIT)
            os.kill(hub.pid, signal.SIGSTOP)
            await until(lambda: _is_stopped(hub.pid))
            async with asyncio.TaskGroup() as tasks:
                flushes = [tasks.create_task(_outcome(link)) for _ in range(3)]
                await asyncio.sleep(0.05)
                os.kill(hub.pid, signal.SIGKILL)
            await hub.wait()
            assert {task.result() for task in flushes} == {Failure.LOST}

    asyncio.run(scenario())


def _is_stopped(pid: int) -> bool:
    """Whether all threads have stopped: some go on for a moment."""
    return all(" T " in path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat"))


async def _outcome(link: LeafLink) -> Failure | None:
    try:
        await link.flush(WAIT)
    except LinkError as error:
        return error.kind
    return None


def test_a_callback_that_fails_ends_the_link_with_its_own_error(tmp_path: Path) -> None:
    """A fault of ours is not taken for a lost connection and tried again."""

    def broken(link: LeafLink, run: list[WireMessage]) -> None:
        raise KeyError(run[0].subject)

    async def scenario() -> None:
        async with running(HubConfig(tmp_path)) as hub:
            peer = await nats.connect(hub.url)
            async with leaf(hub.leaf_url, Heard(), subjects=(b"s",), answer=broken) as link:
                await asyncio.wait_for(link.attached.wait(), WAIT)
                await peer.publish("s", b"")
                await asyncio.sleep(WAIT)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(scenario())
    assert caught.group_contains(KeyError, match="b's'")


def test_a_denied_subscription_is_reported_with_the_hubs_words(tmp_path: Path) -> None:
    """The hub closes such a connection; the link backs off and says why."""

    async def scenario() -> None:
        permissions = 'permissions: { publish: { deny: ["secret.x"] }, subscribe: { allow: ["_INBOX.>"] } }'
        config = AnyHub(
            tmp_path,
            extra=f"accounts {{ A {{ users: [ {{ user: u, password: p, {permissions} }} ] }} }}",
            api_over_leaf=False,
        )
        heard = Heard()
        async with running(config) as hub, leaf(hub.leaf_url.replace("//", "//u:p@"), heard, subjects=(b"secret.x",)):
            await until(lambda: heard.statuses and heard.statuses[-1].error)
            error = heard.statuses[-1].error
            assert error is not None
            assert error.kind is Failure.REFUSED
            assert "secret.x" in str(error)

    asyncio.run(scenario())


def test_two_addresses_are_tried_in_turn(tmp_path: Path) -> None:
    """A link with several hubs attaches to the one that is there."""

    async def scenario() -> None:
        async with running(HubConfig(tmp_path)) as hub:
            url = f"nats://127.0.0.1:{free_port()},nats://127.0.0.1:{hub.leaf_port}"
            async with leaf(url, Heard()) as link:
                await asyncio.wait_for(link.attached.wait(), WAIT)
                assert link.status.address == f"127.0.0.1:{hub.leaf_port}"

    asyncio.run(scenario())


def test_a_link_is_cancelled_at_any_moment_without_residue(tmp_path: Path) -> None:
    """Cancelling during connect, handshake or afterwards ends run() at once and leaves no task or connection."""

    async def scenario() -> None:
        async with running(HubConfig(tmp_path)) as hub:
            for turns in itertools.chain(range(12), (50,)):
                async with leaf(hub.leaf_url, Heard(), subjects=(b"s",), name=f"n{turns}"):
                    for _ in range(turns):
                        await asyncio.sleep(0)
                assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())
