"""Requests of the client link wait for what the hub has told the leaf link before, in whichever order both are read."""

import asyncio

import pytest

from ingest.links.behind_interest import BehindInterest
from ingest.protocol.wire_protocol import WireMessage
from tests.hubs import WAIT, Heard, leaf
from tests.scribe import scribe
from tests.waits import until

ASKED = WireMessage(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"in.1", b"", b"")
PUT = WireMessage(b"$KV.b.k", b"in.1", b"", b"v")


@pytest.mark.parametrize("message", [ASKED, WireMessage(b"$KV.b.k", b"in.2", b"", b"v")])
def test_a_request_is_handed_on_behind_what_the_hub_had_told(message: WireMessage) -> None:
    """One listener is known, a group beside it and a message are on their way: the request waits for the PONG."""

    async def scenario() -> None:
        heard, asked = Heard(), Heard()
        async with scribe() as hub, leaf(hub.url, heard) as link, asyncio.TaskGroup() as tasks:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            hub.says(b"LS+ in.1\r\n")
            await until(lambda: link.interest.has_interest(b"in.1"))
            requests = BehindInterest(link, asked.take)
            task = tasks.create_task(requests.run())
            hub.may_answer.clear()
            hub.lines.clear()
            requests.take([message])
            requests.take([PUT])
            await until(lambda: hub.lines == [b"PING\r\n"])
            assert not asked.messages
            hub.says(b"LS+ in.> two 1\r\nLMSG s.1 2\r\nhi\r\n")
            hub.may_answer.set()
            await until(lambda: asked.messages)
            assert asked.messages == [message, PUT]
            assert link.interest.queues(b"in.1") == {b"two"}
            assert heard.messages
            task.cancel()

    asyncio.run(scenario())


def test_a_message_whose_sender_is_known_to_listen_waits_for_nothing() -> None:
    """Puts of keys are only stored: no round trip delays them."""

    async def scenario() -> None:
        asked = Heard()
        async with scribe() as hub, leaf(hub.url, Heard()) as link:
            await asyncio.wait_for(link.attached.wait(), WAIT)
            hub.says(b"LS+ in.1\r\n")
            await until(lambda: link.interest.has_interest(b"in.1"))
            BehindInterest(link, asked.take).take([PUT])
            assert asked.messages == [PUT]

    asyncio.run(scenario())
