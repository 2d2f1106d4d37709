"""Publishes to a stream that takes only payloads with its schema: refused by a code of Silt's own, and not stored."""

import json
import random

import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.streams.catalog import Catalog
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide

NOW = 1_700_000_000_000_000_000
SCHEMA = json.dumps({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
RULE = {"silt.schema": SCHEMA, "silt.validate": "reject"}
MISFIT = "message does not fit the stream's schema: Expected `int`, got `str` - at `$.n`"
GOOD, BAD = b'{"n":1}', b'{"n":"x"}'
DEL = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
ID = b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n"


class Gate:
    """A catalog with the stream ``S``."""

    def __init__(self, **config: object) -> None:
        self.catalog, self.group = Catalog(), Group()
        self.catalog.create(
            StreamConfig(**{"name": "S", "subjects": ("s",), "metadata": RULE, **config}),
            now_ns=NOW,
            rows=self.group.rows,
        )

    def publish(self, *messages: tuple[bytes, bytes] | tuple[bytes, bytes, bytes]) -> list[dict[str, object]]:
        """Publish messages (header block, payload, reply) as one run; the answers."""
        run = [WireMessage(b"s", *(rest or [b"_R"]), header, payload) for header, payload, *rest in messages]
        before = len(self.group.replies)
        decide(self.catalog, run, NOW, self.group)
        return [json.loads(frame.split(b"\r\n")[1] or b"{}") for frame in self.group.replies[before:]]

    @property
    def stored(self) -> list[bytes]:
        """The payloads in the stream."""
        rows = self.group.rows
        return [data for kind, data in zip(rows.kind, rows.data, strict=True) if kind == "message"]


def _codes(answers: list[dict[str, object]]) -> list[object]:
    return [answer.get("error", {}).get("err_code", answer.get("seq")) for answer in answers]  # type: ignore[attr-defined]


def test_a_misfit_is_refused_with_the_reason() -> None:
    """And its neighbours in the same run are stored."""
    gate = Gate()
    answers = gate.publish((b"", GOOD), (b"", BAD), (b"", GOOD), (b"", b""))
    assert _codes(answers) == [1, 20001, 2, 20001]
    assert answers[1] == {"error": {"code": 400, "err_code": 20001, "description": MISFIT}, "stream": "S", "seq": 0}
    assert gate.stored == [GOOD, GOOD]


def test_a_deletion_in_a_bucket_is_taken() -> None:
    """It has no payload by its nature."""
    assert _codes(Gate().publish((DEL, b""))) == [1]


def test_a_refused_message_leaves_no_trace() -> None:
    """Its id is free for the next one; a duplicate is one, whatever it brings."""
    gate = Gate()
    assert _codes(gate.publish((ID, BAD), (ID, GOOD), (ID, BAD))) == [20001, 1, 1]


@pytest.mark.parametrize("config", [{}, {"max_msgs": 3, "discard": "new"}, {"max_msgs_per_subject": 2}])
def test_runs_are_decided_as_each_message_alone(config: dict[str, object]) -> None:
    """Whatever the mixture."""
    chosen = random.Random(7)
    messages = [(chosen.choice([b"", ID, DEL]), chosen.choice([GOOD, BAD])) for _ in range(60)]
    together, apart = Gate(**config), Gate(**config)
    assert together.publish(*messages) == [answer for one in messages for answer in apart.publish(one)]
    assert together.stored == apart.stored


def test_batches_are_checked_too() -> None:
    """An atomic one is refused whole, of a fast one the message."""
    gate = Gate(allow_atomic=True, allow_batched=True)
    header = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n%b\r\n"
    gate.publish((header % (1, b""), GOOD))
    assert _codes(gate.publish((header % (2, b"Nats-Batch-Commit: 1\r\n"), BAD))) == [20001]
    fast = [(b"", payload, b"R.f.1.ok.%d.%d.$FI" % (seq, seq > 1)) for seq, payload in ((1, GOOD), (2, BAD), (3, GOOD))]
    gate.publish(*fast)
    assert gate.stored == [GOOD, GOOD]


def test_the_rule_follows_the_configuration() -> None:
    """An update to another schema holds for the next message."""
    gate = Gate()
    state = gate.catalog.streams["S"]
    assert _codes(gate.publish((b"", BAD))) == [20001]
    for metadata in ({"silt.schema": SCHEMA}, {**RULE, "silt.schema": "no schema"}):
        config = StreamConfig(name="S", subjects=("s",), metadata=metadata)
        gate.catalog.update(config, now_ns=NOW, rows=gate.group.rows)
        assert state.payload_rule is None
    assert _codes(gate.publish((b"", BAD))) == [1]
