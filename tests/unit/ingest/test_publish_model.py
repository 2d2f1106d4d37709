"""Publishing, removing and replaying, beside the model: same acknowledgements, same rows, same state."""

import json
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import iter_matching, last_by_subject, subjects_matching
from delta_store.streams.catalog import Catalog
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.replay import replay, replay_row, restore_watermarks
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Kind, Row, RowColumns
from delta_store.values.watermark import Watermark
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide
from tests.model import ModelStream, Outcome

BASE = 8185
"""Sequences start here, so that runs cross from one segment of the index to the next."""
START = 1_000_000_000_000
SUBJECTS = ("s.a", "s.b", "s.c.d", "s.é", "t.x")
LIMITS = st.fixed_dictionaries(
    {
        "max_msgs": st.sampled_from([-1, -1, 1, 3, 8]),
        "max_bytes": st.sampled_from([-1, -1, 60, 150, 400]),
        "max_msgs_per_subject": st.sampled_from([-1, -1, 1, 2, 4]),
        "max_age": st.sampled_from([0, 0, 50, 1000]),
        "max_msg_size": st.sampled_from([-1, -1, 40]),
        "discard": st.sampled_from(["old", "new"]),
        "duplicate_window": st.sampled_from([100, 100_000]),
    }
)
PLAIN: st.SearchStrategy[Any] = st.tuples(st.sampled_from(SUBJECTS), st.integers(0, 45), st.just({}))
HEADERS = st.one_of(
    st.just({}),
    st.just({"X-User": "yes"}),
    st.sampled_from("abcdef").map(lambda one: {"Nats-Msg-Id": one}),
    st.sampled_from("SX").map(lambda one: {"Nats-Expected-Stream": one}),
    st.integers(0, 3).map(lambda one: {"Nats-Expected-Last-Sequence": one}),
    st.integers(0, 3).map(lambda one: {"Nats-Expected-Last-Subject-Sequence": one}),
    st.tuples(st.integers(0, 3), st.sampled_from(["s.a", "s.>", "s.*", "q"])).map(
        lambda one: {
            "Nats-Expected-Last-Subject-Sequence": one[0],
            "Nats-Expected-Last-Subject-Sequence-Subject": one[1],
        }
    ),
    st.just({"Nats-Expected-Last-Subject-Sequence-Subject": "s.a"}),
    st.sampled_from("abcz").map(lambda one: {"Nats-Expected-Last-Msg-Id": one}),
    st.tuples(st.sampled_from("abcdef"), st.sampled_from("abc")).map(
        lambda one: {"Nats-Msg-Id": one[0], "Nats-Expected-Last-Msg-Id": one[1]}
    ),
)
ANY = st.tuples(st.sampled_from(SUBJECTS), st.integers(0, 45), HEADERS)
RUNS = st.one_of(st.lists(PLAIN, min_size=1, max_size=30), st.lists(ANY, min_size=1, max_size=12))


def snapshot(state: StreamState, now_ns: int | None) -> dict[str, object]:
    """All that can be seen of a stream; the ids as of ``now_ns``, left out when it is None."""
    index = state.index
    seen: dict[str, object] = {
        "config": state.config,
        "position": state.position,
        "totals": (index.msgs, index.bytes, index.first_seq, index.last_seq, index.first_ts),
        "deleted": (index.num_deleted, index.deleted()),
        "subjects": subjects_matching(index),
        "messages": [
            (seq, index.subject_of(seq), index.live.ts_of(seq), index.live.size_of(seq))
            for seq in iter_matching(index, None, 0)
        ],
    }
    if now_ns is not None:
        state.dedup.forget(now_ns)
        seen |= {"ids": state.dedup.items(), "last": (state.last_msg_id, index.last_ts)}
    return seen


def opened(rows: list[Row]) -> Catalog:
    """A catalog with the streams' first rows applied, as if :data:`BASE` messages had come and gone."""
    catalog = Catalog()
    for row in rows:
        replay_row(catalog, row)
        restore_watermarks(catalog, {row.stream: Watermark(row.stream_id, BASE, row.event_no, 0)})
    return catalog


def columns(rows: list[Row]) -> RowColumns:
    """Rows as columns."""
    gathered = RowColumns()
    for row in rows:
        gathered.append(row)
    return gathered


def settled(rows: list[Row]) -> list[Row]:
    """The rows without those that recorded effects have removed, as a settled table has them."""
    gone: dict[str, set[int]] = {}
    first: dict[str, int] = {}
    for row in rows:
        first[row.stream] = max(first.get(row.stream, 0), row.first_seq)
        lost = gone.setdefault(row.stream, set())
        lost.add(row.evicts)
        if row.kind == Kind.REMOVE:
            for low, high in read_removal(row.data)[0].ranges:
                lost.update(range(low, high + 1))
    return [
        row
        for row in rows
        if row.kind != Kind.MESSAGE or (row.seq >= first[row.stream] and row.seq not in gone[row.stream])
    ]


class Publishing(RuleBasedStateMachine):
    """A catalog and the model of its two streams."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = START
        self.rows: list[Row] = []
        self.first_rows: list[Row] = []
        self.model: dict[str, ModelStream] = {}
        self.catalog = Catalog()

    @initialize(limits=LIMITS)
    def create(self, limits: dict[str, object]) -> None:
        """One stream with limits, one without."""
        group = Group()
        one = StreamConfig("S", ("s.>",), **limits)  # type: ignore[arg-type]
        other = StreamConfig("T", ("t.*",))
        for config in (one, other):
            Catalog().create(config, now_ns=self.now_ns, rows=group.rows)
            self.model[config.name] = ModelStream(config, last_seq=BASE, clock_ns=self.now_ns)
        self.first_rows = list(group.rows.rows())
        self.catalog = opened(self.first_rows)

    @rule(run=RUNS, passed=st.sampled_from([0, 1, 30, 500]))
    def publish(self, run: list[tuple[str, int, dict[str, object]]], passed: int) -> None:
        """A run of messages as a link hands them over."""
        self.now_ns += passed
        messages, wanted = [], []
        for number, (subject, size, drawn) in enumerate(run):
            stream = self.model["T" if subject[0] == "t" else "S"]
            headers = {
                name: str(self._expected(stream, subject, name, value) if isinstance(value, int) else value)
                for name, value in drawn.items()
            }
            block = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            raw = f"NATS/1.0\r\n{block}\r\n".encode() if headers else b""
            reply = b"" if number % 5 == 4 else b"_INBOX.%d" % number
            messages.append(WireMessage(subject.encode(), reply, raw, b"p" * size))
            wanted.append((subject, len(raw), size, headers))
        for name in dict.fromkeys("T" if subject[0] == "t" else "S" for subject, *_ in wanted):
            self._expire(self.model[name])
        group = Group()
        decide(self.catalog, messages, self.now_ns, group)
        self._compare(group, messages, wanted)

    def _expected(self, stream: ModelStream, subject: str, name: str, value: int) -> int:
        """An expected sequence near the right one."""
        if value == 3:
            return 0
        of = stream.last_of(subject) if "Subject" in name else stream.last_seq
        return max(0, of + value - 1)

    def _expire(self, stream: ModelStream) -> None:
        if stream.expire(self.now_ns):
            stream.tick(self.now_ns)

    def _compare(
        self, group: Group, messages: list[WireMessage], wanted: list[tuple[str, int, int, dict[str, str]]]
    ) -> None:
        acks: dict[str, list[bytes]] = {"S": [], "T": []}
        rows: dict[str, list[tuple[object, ...]]] = {"S": [], "T": []}
        for message, (subject, header, payload, headers) in zip(messages, wanted, strict=True):
            name = "T" if subject[0] == "t" else "S"
            outcome = self.model[name].publish(subject, sizes=(header, payload), headers=headers, now_ns=self.now_ns)
            if message.reply:
                acks[name].append(ack(name, message.reply, outcome))
            if not outcome.error and not outcome.duplicate:
                msg_id = headers.get("Nats-Msg-Id") or None
                effects = (outcome.seq, outcome.ts_ns, outcome.first_seq, outcome.evicts)
                rows[name].append((*effects, subject, msg_id, message.header or None, message.payload))
        made = list(group.rows.rows())
        for name in ("S", "T"):
            mine = [row for row in made if row.stream == name and row.kind == Kind.MESSAGE]
            assert [
                (row.seq, row.ts_ns, row.first_seq, row.evicts, row.subject, row.msg_id, row.headers, row.data)
                for row in mine
            ] == rows[name]
            assert [shortened(one) for one in group.replies if b'"stream":"%b"' % name.encode() in one] == acks[name]
        assert group.bytes == sum(len(row.data) + len(row.headers or b"") for row in made if row.kind == Kind.MESSAGE)
        self.rows += made

    @rule(back=st.integers(0, 12), passed=st.sampled_from([0, 10]))
    def remove(self, back: int, passed: int) -> None:
        """Delete a message near the end."""
        self.now_ns += passed
        rows, stream = RowColumns(), self.model["S"]
        seq = stream.last_seq - back
        assert self.catalog.remove("S", seq, now_ns=self.now_ns, rows=rows) == stream.remove(seq)
        self._took(rows, "S")

    @rule(pattern=st.sampled_from(["", ">", "s.a", "s.*", "q"]), back=st.integers(-2, 8), keep=st.integers(0, 3))
    def purge(self, pattern: str, back: int, keep: int) -> None:
        """Purge by filter, sequence or number."""
        rows, stream = RowColumns(), self.model["S"]
        seq = 0 if keep or back == 8 else stream.last_seq - back
        purged = self.catalog.purge("S", subject=pattern, seq=seq, keep=keep, now_ns=self.now_ns, rows=rows)
        assert purged == stream.purge(pattern, seq, keep)
        self._took(rows, "S")

    @rule(passed=st.sampled_from([0, 20, 400, 2000]))
    def expire(self, passed: int) -> None:
        """Time passes and the timer looks."""
        self.now_ns += passed
        rows, stream = RowColumns(), self.model["S"]
        assert self.catalog.expire(now_ns=self.now_ns, rows=rows) == stream.expire(self.now_ns)
        self._took(rows, "S")

    @precondition(lambda self: self.rows)
    @rule(limits=LIMITS)
    def reconfigure(self, limits: dict[str, object]) -> None:
        """Limits change, and apply at once."""
        rows, stream = RowColumns(), self.model["S"]
        config = replace(stream.config, **limits)  # type: ignore[arg-type]
        self.catalog.update(config, now_ns=self.now_ns, rows=rows)
        stream.ids = stream.live_ids(max(self.now_ns, stream.clock_ns + 1))
        stream.reconfigure(config)
        stream.expire(self.now_ns)
        self._took(rows, "S")

    def _took(self, rows: RowColumns, name: str) -> None:
        made = list(rows.rows())
        self.rows += made
        for row in made:
            assert row.ts_ns == self.model[name].tick(self.now_ns)
            assert row.first_seq <= self.model[name].first_seq

    @invariant()
    def same_state(self) -> None:
        """State and look-ups are the model's."""
        for name, stream in self.model.items():
            state = self.catalog.streams[name]
            index = state.index
            assert (index.msgs, index.bytes, index.first_seq, index.last_seq) == (
                len(stream.messages), stream.bytes, stream.first_seq, stream.last_seq,
            )  # fmt: skip
            assert index.last_ts == stream.last_ts
            assert index.first_ts == (stream.messages[0].ts_ns if stream.messages else 0)
            assert [(seq, index.subject_of(seq), index.live.ts_of(seq), index.live.size_of(seq))
                    for seq in iter_matching(index, None, 0)] == [one[:4] for one in stream.messages]  # fmt: skip
            live = {one.seq for one in stream.messages}
            assert index.deleted() == [seq for seq in range(stream.first_seq, stream.last_seq + 1) if seq not in live]
            for pattern in ("s.a", "s.*", ">", "q", "t.x"):
                assert last_by_subject(index, pattern) == stream.last_of(pattern)

    @precondition(lambda self: self.rows)
    @rule(split=st.floats(0, 1), overlap=st.integers(0, 6), cuts=st.integers(1, 7))
    def replays(self, split: float, overlap: int, cuts: int) -> None:
        """Replaying all rows, or settled rows and the tail, gives the state that deciding gave."""
        whole = opened(self.first_rows)
        for start in range(0, len(self.rows), cuts):
            replay(whole, columns(self.rows[max(0, start - overlap) : start + cuts]))
        at = int(split * len(self.rows))
        halved = opened(self.first_rows)
        replay(halved, columns(settled(self.rows[:at])))
        restore_watermarks(
            halved,
            {row.stream: Watermark(row.stream_id, row.seq, row.event_no, row.first_seq) for row in self.rows[:at]},
        )
        replay(halved, columns(self.rows[max(0, at - overlap) :]))
        for name, state in self.catalog.streams.items():
            assert snapshot(whole.streams[name], self.now_ns) == snapshot(state, self.now_ns)
            assert snapshot(halved.streams[name], None) == snapshot(state, None)
            if state.index.msgs:
                assert halved.streams[name].index.last_ts == state.index.last_ts


def ack(stream: str, reply: bytes, outcome: Outcome) -> bytes:
    """The acknowledgement of an outcome, an error's text left out."""
    if outcome.error:
        return b'%b {"error":%d,"stream":"%b","seq":0}' % (reply, outcome.error, stream.encode())
    tail = b',"duplicate": true' if outcome.duplicate else b""
    return b'%b {"stream":"%b","seq":%d%b}' % (reply, stream.encode(), outcome.seq, tail)


def shortened(frame: bytes) -> bytes:
    """A reply frame as :func:`ack` writes it; checks its sizes."""
    line, body = frame.split(b"\r\n", 1)
    kind, reply, size = line.split(b" ")
    assert kind == b"LMSG"
    assert int(size) == len(body) - 2
    assert body.endswith(b"\r\n")
    told = json.loads(body)
    if "error" in told:
        name, code = told["stream"].encode(), told["error"]["err_code"]
        return b'%b {"error":%d,"stream":"%b","seq":%d}' % (reply, code, name, told["seq"])
    return b"%b %b" % (reply, body[:-2])


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)
