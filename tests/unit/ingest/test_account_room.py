"""What an account has room for: publishes, batches and copies up to the byte, and how far sequences go."""

import json
from typing import Any

import pytest

from conf.limits import FIRST_SEQ_MAX
from delta_store.config.api_errors import ApiRefusal
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import StreamSource
from delta_store.streams.account import AccountLimits
from delta_store.streams.copy_links import links_of
from delta_store.streams.stream_config_rules import normalise
from delta_store.values.records import stored_size
from delta_store.values.stream_message import MessageRun, StreamMessage
from ingest.publishing.copied_messages import store_copies
from tests.unit.ingest.test_publish_features import NOW, Gate

ONE = stored_size("s", None, b"x")


def gate(*configs: StreamConfig, **limits: Any) -> Gate:
    """Streams of an account with limits."""
    made = Gate(*configs)
    made.catalog.account.limits = AccountLimits(**limits)
    return made


def refused(frames: list[bytes]) -> int:
    """The error code in an acknowledgement, 0 for none."""
    return int(json.loads(frames[0].split(b"\r\n")[1]).get("error", {}).get("err_code", 0))


@pytest.mark.parametrize(
    "config", [{}, {"discard": "new", "max_bytes": 10_000}, {"max_msgs": 5}, {"allow_msg_ttl": True}]
)
def test_publishes_fit_to_the_byte(config: dict[str, Any]) -> None:
    """All streams of a storage count, as they stand before the message; others are not in the way."""
    account = gate(StreamConfig("S", ("s",), **config), StreamConfig("T", ("t",)), max_storage=2 * ONE)
    assert [refused(account.publish(subject, b"x")) for subject in ("s", "t", "s", "t")] == [0, 0, 10002, 10002]
    account.catalog.remove("T", 1, now_ns=NOW, rows=account.group.rows)
    assert [refused(account.publish("s", payload)) for payload in (b"xx", b"x", b"")] == [10002, 0, 10002]
    account.catalog.account.limits = AccountLimits(max_memory=0)
    assert refused(account.publish("s", b"x" * 100)) == 0


def test_an_atomic_batch_is_refused_whole() -> None:
    """Its messages count together."""
    account = gate(StreamConfig("S", ("s",), allow_atomic=True), max_storage=3 * ONE)
    batch = [{"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(number)} for number in (1, 2)]
    account.publish("s", b"x", **batch[0])
    assert refused(account.publish("s", b"x" * 100, **batch[1], Nats_Batch_Commit="1")) == 10002
    assert account.live("S") == []


@pytest.mark.parametrize("mirrors", [True, False])
def test_copies_wait_for_room(mirrors: bool) -> None:
    """As many are stored as there is room for, in order."""
    source = StreamSource(name="O")
    copies = {"mirror": source} if mirrors else {"sources": (source,)}
    account = gate(StreamConfig("C", **copies), max_storage=10 * ONE)
    [link] = links_of(account.catalog.streams["C"])
    run = MessageRun.of([StreamMessage("s", seq, NOW + seq, None, b"x" * 5 * ONE) for seq in (1, 2, 3)])

    def stored(wanted: MessageRun) -> int:
        return store_copies(account.catalog, link, wanted, identity="i", now_ns=NOW, group=account.group)

    assert stored(run) == 1
    assert stored(run[1:]) == 0
    account.catalog.account.limits = AccountLimits()
    assert stored(run[1:]) == 2
    assert len(account.live("C")) == 3


def test_sequences_begin_in_the_lower_half() -> None:
    """A stream, and a mirror's next message, no later than that, with an error that names the limit."""
    late = normalise({"name": "S", "subjects": ["s"], "first_seq": FIRST_SEQ_MAX})
    account = gate(late, StreamConfig("C", mirror=StreamSource(name="O")))
    account.publish("s", b"x")
    assert account.live("S") == [FIRST_SEQ_MAX]
    with pytest.raises(ApiRefusal, match=f"first sequence can not be above {FIRST_SEQ_MAX}"):
        normalise({"name": "S", "first_seq": FIRST_SEQ_MAX + 1})
    [link] = links_of(account.catalog.streams["C"])
    done = []
    for seq in (FIRST_SEQ_MAX, FIRST_SEQ_MAX + 1):
        run = MessageRun.of([StreamMessage("s", seq, NOW, None, b"x")])
        done.append(store_copies(account.catalog, link, run, identity="i", now_ns=NOW, group=account.group))
    assert done == [1, 0]
