"""Fast batches as the publish decision takes them; what nats-server answers is compared in the differential tests."""

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from conf.limits import FAST_BATCHES_OPEN_MAX, FAST_BATCHES_SERVER_MAX
from delta_store.config.stream_config import StreamConfig
from delta_store.streams.catalog import Catalog
from delta_store.values.records import Row
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
START, APPEND, COMMIT, END, PING = range(5)
FAST = StreamConfig("S", ("s.>",), allow_batched=True)


def message(batch: str, seq: int, op: int, *, gap: str = "fail", flow: int = 3, header: bytes = b"") -> WireMessage:
    """One message of a batch."""
    reply = f"R.{batch}.{flow}.{gap}.{seq}.{op}.$FI".encode()
    return WireMessage(b"s.%d" % (seq % 3), reply, header, b"%d" % seq)


class Server:
    """A catalog with streams; :meth:`take` gives what is answered."""

    def __init__(self, *configs: StreamConfig) -> None:
        self.catalog = Catalog()
        self.now = NOW
        self.rows: list[Row] = []
        self.answers: list[bytes] = []
        for config in configs or (FAST,):
            self.catalog.create(config, now_ns=NOW, rows=Group().rows)

    def take(self, *messages: WireMessage) -> list[dict[str, Any]]:
        """Decide messages as one run."""
        group = Group()
        decide(self.catalog, messages, self.now, group)
        self.rows += group.rows.rows()
        self.answers += group.replies
        return [json.loads(frame.split(b"\r\n")[1]) for frame in group.replies]


def test_a_run_is_stored_in_bulk_and_answered_rarely() -> None:
    """A long run has an answer every so many messages, the last one with the place in the stream."""
    server = Server()
    run = [message("b", 1, START, flow=50), *(message("b", seq, APPEND, flow=50) for seq in range(2, 200))]
    answers = server.take(*run, message("b", 200, COMMIT, flow=50))
    assert answers == [
        {"type": "ack", "seq": 0, "msgs": 50},
        *({"type": "ack", "seq": seq, "msgs": 50} for seq in (50, 100, 150)),
        {"stream": "S", "seq": 200, "batch": "b", "count": 200},
    ]
    assert [row.seq for row in server.rows] == list(range(1, 201))
    assert not server.catalog.streams["S"].fast_batches


_HEADERS = st.sampled_from(
    [
        *[b""] * 4,
        b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n",
        b"NATS/1.0\r\nA: b\r\n\r\n",
        b"NATS/1.0\r\nNats-Expected-Stream: X\r\n\r\n",
        b"NATS/1.0\r\nNats-Required-Api-Level: 9\r\n\r\n",
    ]
)
_STEPS = st.tuples(
    st.sampled_from("abc"), st.sampled_from([0, 0, 0, 0, 0, 1, -1, 5]), st.sampled_from([0, 1, 1, 1, 1, 2, 3, 4]),
    st.sampled_from(["fail", "ok"]), _HEADERS,
)  # fmt: skip


def _messages(steps: list[tuple[str, int, int, str, bytes]]) -> list[WireMessage]:
    """Messages that mostly follow each other in their batches, with plain ones between."""
    last: dict[str, int] = {}
    found = []
    for batch, jump, op, gap, header in steps:
        begins = op == START or batch not in last
        seq = 1 if begins else max(1, last[batch] + 1 + jump)
        last[batch] = seq
        found.append(message(batch, seq, START if begins and op == APPEND else op, gap=gap, header=header))
        if jump == 1:
            found.append(WireMessage(b"s.plain", b"P", header, b"x"))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(_STEPS, max_size=60), st.integers(0, 1 << 30))
def test_runs_and_single_messages_come_to_the_same(steps: list[tuple[str, int, int, str, bytes]], seed: int) -> None:
    """However messages fall into runs, the same is stored, at the same places, and the same is answered."""
    messages = _messages(steps)
    singly, in_runs = Server(), Server()
    for one in messages:
        singly.take(one)
    rng, place = random.Random(seed), 0
    while place < len(messages):
        size = rng.randint(1, 20)
        in_runs.take(*messages[place : place + size])
        place += size
    assert [row._replace(ts_ns=0) for row in in_runs.rows] == [row._replace(ts_ns=0) for row in singly.rows]
    fast, plain = (
        [[a for a in server.answers if a.startswith(b"LMSG P ") is is_plain] for server in (singly, in_runs)]
        for is_plain in (False, True)
    )
    assert fast[0] == fast[1]
    assert plain[0] == plain[1]


def test_an_acknowledgement_tells_only_of_what_is_there() -> None:
    """With gaps not allowed, each acknowledged batch sequence has its row in the same group or an earlier one."""
    server = Server()
    server.take(message("b", 1, START))
    for first in range(2, 50, 4):
        answers = server.take(*(message("b", seq, APPEND) for seq in range(first, first + 4)))
        acked = max((answer["seq"] for answer in answers), default=0)
        assert {int(row.data) for row in server.rows} >= set(range(1, acked + 1))


def test_a_silent_batch_is_unknown() -> None:
    """Ten seconds of silence end a batch; what comes then is refused, and it may begin again."""
    server = Server()
    server.take(message("b", 1, START), message("b", 2, APPEND))
    server.now += 10 * SECOND + 1
    for late in (message("b", 3, APPEND), message("b", 3, PING), message("b", 3, END)):
        (answer,) = server.take(late)
        assert answer["error"]["err_code"] == 10208
    assert server.take(message("b", 1, START))[0] == {"type": "ack", "seq": 0, "msgs": 3}
    assert len(server.rows) == 3


def test_a_late_message_after_an_error_ends_the_batch() -> None:
    """Where gaps are fine and a message was refused, going back still gets the whole acknowledged."""
    server = Server()
    wrong = b"NATS/1.0\r\nNats-Expected-Stream: X\r\n\r\n"
    run = [message("b", 1, START, gap="ok"), message("b", 2, APPEND, gap="ok", header=wrong)]
    server.take(*run)
    assert server.take(message("b", 1, COMMIT, gap="ok")) == [
        {"type": "gap", "last_seq": 3, "seq": 1},
        {"stream": "S", "seq": 1, "batch": "b", "count": 2},
    ]


def test_a_wrong_last_message_id_is_an_error_like_others() -> None:
    """It ends a batch without gaps, which is acknowledged up to there."""
    server = Server()
    header = b"NATS/1.0\r\nNats-Expected-Last-Msg-Id: x\r\n\r\n"
    first, error, whole = server.take(message("b", 1, START), message("b", 2, APPEND, header=header))
    assert first["type"] == "ack"
    assert (error["type"], error["seq"], error["error"]["err_code"]) == ("err", 2, 10070)
    assert whole == {"stream": "S", "seq": 1, "batch": "b", "count": 1}


def test_all_streams_together_have_a_limit() -> None:
    """So many batches of all streams may be open, however they are spread."""
    streams = FAST_BATCHES_SERVER_MAX // FAST_BATCHES_OPEN_MAX + 1
    server = Server(*(StreamConfig(f"S{n}", (f"s{n}",), allow_batched=True) for n in range(streams)))
    for state in list(server.catalog.streams.values())[:-1]:
        for number in range(FAST_BATCHES_OPEN_MAX):
            state.fast_batches.open(b"%d" % number, gap_ok=False, flow=1, now_ns=NOW)
    begin = message("b", 1, START)._replace(subject=b"s%d" % (streams - 1))
    assert server.take(begin)[0]["error"]["err_code"] == 10211
    server.catalog.streams["S0"].fast_batches.popitem()
    assert server.take(begin)[0]["type"] == "ack"


def test_streams_without_fast_batches_refuse_them() -> None:
    """Whatever the reply subject says, and whatever else the message is."""
    server = Server(StreamConfig("S", ("s.>",), allow_atomic=True))
    header = b"NATS/1.0\r\nNats-Batch-Id: x\r\nNats-Batch-Sequence: 1\r\n\r\n"
    messages = [message("b", 1, START), message("b", 2, COMMIT, header=header), WireMessage(b"s.1", b"x.$FI", b"", b"")]
    assert [answer["error"]["err_code"] for answer in server.take(*messages)] == [10205] * 3
    assert server.rows == []
