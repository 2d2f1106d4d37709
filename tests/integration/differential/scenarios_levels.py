"""The API level that a client demands: one header, five kinds of requests that look at it."""

from tests.integration.differential.scenarios_fast_batches import COMMIT, Publisher
from tests.integration.differential.scenarios_features import show
from tests.integration.differential.side import Side, scenario

_VALUES = (
    *(" 1", " 4", " 5", " 99", " 0", " -1", " +1", "1", "99", "   1", " 1 ", "\t1", " 1\t", " 1_0", " x", " 1.0"),
    *("", " ", "  ", f" {'0' * 30}1", f" {2**63 - 1}", f" {2**63}", f" -{2**63}", f" -{2**63 + 1}", f" {'9' * 5_000}"),
)
_NAME = "Nats-Required-Api-Level:"
_LINES = (
    *(_NAME + value for value in _VALUES),
    *(f"nats-required-api-level: 99\r\n{_NAME} 1", f"{_NAME.upper()} 99", f"X{_NAME} 99", f"X: {_NAME} 99"),
    *("\r\n".join([f"{_NAME} 1"] * 3), f"{_NAME} \r\n{_NAME} 1", f"{_NAME} 1\r\nKey: v\r\n{_NAME} x\r\n{_NAME} "),
    *(f"{_NAME} 1\r\n{_NAME} 99", f"{_NAME} 99\r\n{_NAME} 1", f"A: 1\r\n{_NAME} 99", f"{_NAME[:-1]} : 99"),
)


@scenario
async def api_levels(side: Side) -> None:
    """Every way to write the header, on every kind of request."""
    config = {"allow_direct": True, "allow_atomic": True, "allow_batched": True}
    await side.create("LEVEL", subjects=["level.>"], **config)
    await side.publish("level.first")
    consumer = {"name": "C", "ack_policy": "explicit", "filter_subject": "level.none"}
    await side.api("CONSUMER.CREATE.LEVEL.C", {"stream_name": "LEVEL", "config": consumer})
    fast = Publisher(side, "LEVEL")
    for number, line in enumerate(_LINES):
        block, shown = f"NATS/1.0\r\n{line}\r\n\r\n".encode(), f"{number}: {line[:60]!r}"
        for subject, body in (
            ("CONSUMER.DELETE.LEVEL.NONE", ""),
            ("DIRECT.GET.LEVEL", '{"seq":1}'),
            ("DIRECT.GET.LEVEL.level.first", ""),
            ("CONSUMER.MSG.NEXT.LEVEL.C", '{"batch":1,"no_wait":true}'),
        ):
            await side.request(f"$JS.API.{subject}", body, raw_header=block, label=f"{subject} {shown}")
        atomic = f"Nats-Batch-Id: {number}\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1"
        batch = f"NATS/1.0\r\n{atomic}\r\n{line}\r\n\r\n".encode()
        await side.request("level.atomic", "x", raw_header=batch, label=f"atomic {shown}")
        fields = [
            (name, value.removeprefix(" ")) for name, _, value in (one.partition(":") for one in line.split("\r\n"))
        ]
        await fast.send(f"fast{number}", (1, COMMIT, fields), label=f"fast {shown}")
    await show(side, "LEVEL", "after all")


@scenario
async def repeated_headers(side: Side) -> None:
    """Headers that are taken out or replaced, several times in one message."""
    await side.create(
        "TWICE", subjects=["twice"], allow_direct=True, allow_msg_ttl=True, subject_delete_marker_ttl=5_000_000_000
    )
    for name, *values in (
        ("Nats-Request-Info", "a", "b"),
        ("Nats-Request-Info", "", "b"),
        ("Nats-Request-Info", ""),
        ("Nats-TTL", "1s", "9s"),
        ("Nats-TTL", "", "9s"),
        ("Nats-Msg-Id", "one", "two"),
        ("Nats-Msg-Id", "", "three"),
    ):
        for around in ([], [("Key", "v")]):
            headers = [*around, *((name, value) for value in values), *around]
            await side.publish("twice", "x", headers=headers, label=f"{name} {values} {len(around)}")
    await show(side, "TWICE", "after all")
