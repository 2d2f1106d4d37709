"""The ``nats`` CLI, unmodified, prints of consumers, buckets and objects what it prints against nats-server."""

import re
from pathlib import Path

from tests.integration.clients.comparable import compare, output, run_bench

OBJECT_BYTES = 3_000_000

CONSUMERS = (
    "stream add ORDERS --subjects=orders.> --defaults",
    "pub orders.{{Count}} m{{Count}} --count=6 --jetstream",
    "consumer add ORDERS PULL --pull --defaults --ack=explicit",
    "consumer add ORDERS PULL --pull --defaults --ack=none",
    "consumer add ORDERS BAD.NAME --pull --defaults",
    "consumer add ORDERS NONE --pull --defaults --ack=none --filter=orders.3 --deliver=last",
    "consumer next ORDERS PULL --count=2",
    "consumer next ORDERS PULL --no-ack --count=1",
    "consumer next ORDERS NONE --count=1",
    "consumer add ORDERS PUSH --target=push.me --defaults --deliver=all --ack=explicit --replay=instant --heartbeat=1s",
    "consumer ls ORDERS --names",
    "consumer report ORDERS",
    "consumer edit ORDERS PULL --description=edited --force",
    "consumer pause ORDERS PULL 2099-01-01T00:00:00Z --force",
    "consumer resume ORDERS PULL --force",
    "consumer copy ORDERS PULL PULL2 --defaults",
    "consumer state ORDERS PULL2",
    "consumer rm ORDERS PULL2 --force",
    "consumer rm ORDERS PULL2 --force",
    "consumer info ORDERS PULL",
    "consumer info ORDERS NOSUCH",
    "consumer find ORDERS --pull",
    "consumer cluster step-down ORDERS PULL",
    "stream state ORDERS",
    "stream rm ORDERS --force",
    "stream add WORK --subjects=work.> --defaults --retention=work",
    "pub work.{{Count}} w{{Count}} --count=5 --jetstream",
    "consumer add WORK W --pull --defaults --ack=explicit",
    "consumer add WORK W2 --pull --defaults --ack=explicit",
    "consumer next WORK W --count=3",
    "stream state WORK",
    "stream add WANTED --subjects=wanted.> --defaults --retention=interest",
    "pub wanted.1 lost --jetstream",
    "stream state WANTED",
)
BUCKETS = (
    "kv add CONFIG --history=5 --ttl=1h --description=things",
    "kv add CONFIG --history=6 --ttl=1h",
    "kv put CONFIG a.b 1",
    "kv put CONFIG a.b 2",
    "kv put CONFIG c 3",
    "kv create CONFIG c 4",
    "kv create CONFIG d 4",
    "kv update CONFIG a.b 9 2",
    "kv update CONFIG a.b 10 1",
    "kv get CONFIG a.b --raw",
    "kv get CONFIG nope --raw",
    "kv ls CONFIG",
    "kv ls CONFIG a.>",
    "kv del CONFIG c --force",
    "kv get CONFIG c --raw",
    "kv create CONFIG c 44",
    "kv history CONFIG a.b",
    "kv history CONFIG c",
    "kv purge CONFIG a.b --force",
    "kv history CONFIG a.b",
    "kv revert CONFIG c 3 --force",
    "kv status CONFIG",
    "kv ls",
    "kv compact CONFIG --force",
    "kv add MARKED --marker-ttl=5s --ttl=10s",
    "kv create MARKED k v --ttl=30s",
    "kv get MARKED k --raw",
    "kv rm MARKED --force",
    "kv rm CONFIG --force",
    "kv ls",
)
OBJECTS = (
    "object add FILES --description=files",
    "object put FILES {file} --name=one --force --no-progress",
    "object info FILES one",
    "object ls FILES",
    "object get FILES one --output={out} --force --no-progress",
    "object put FILES {file} --name=one --force --no-progress",
    "object rm FILES one --force",
    "object ls FILES",
    "object get FILES one --output={out} --force --no-progress",
    "object seal FILES --force",
    "object put FILES {file} --name=two --force --no-progress",
    "object info FILES",
    "object rm FILES --force",
)
BENCHES = (
    "bench js pub async bench.x --create --msgs=20000 --size=128",
    "bench js ordered --msgs=20000",
    "bench js consume --msgs=20000 --acks=explicit",
    "consumer rm benchstream nats-bench --force",
    "bench js fetch --msgs=20000 --acks=explicit",
    "consumer rm benchstream nats-bench --force",
    "bench js consume --msgs=500 --acks=explicit --doubleack",
    "bench kv put --msgs=200",
    "bench kv get --msgs=200",
)
_VARIES = (
    (re.compile(r"\[\d\d:\d\d:\d\d\]"), "<time>"),
    (re.compile(r"(Last (delivery|Ack): )[\d.]+(µs|ms|s) ago"), r"\1<age>"),
    (re.compile(r"(\$JS\.ACK\.\S+?\.\d+\.\d+\.\d+\.)\d{19}"), r"\1<ns>"),
    (re.compile(r"(Pause[^:\n]*: .*remaining) .*"), r"\1 <left>"),
    (re.compile(r"\d+h\d+m[\d.]+s|\d+y\d+d\S*"), "<left>"),
    (re.compile(r"[\d.]+(µs|ms|s)\b"), "<duration>"),
)


def test_consumer_commands(cli: str, pair: tuple[str, str]) -> None:
    """Consumers, work queues and interest streams, command by command: same output, same exit status."""
    compare(cli, pair, CONSUMERS, _VARIES)


def test_kv_commands(cli: str, pair: tuple[str, str]) -> None:
    """A bucket's whole life, command by command."""
    compare(cli, pair, BUCKETS, _VARIES)


def test_object_commands(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """An object store's whole life; what is fetched is what was put."""
    file, fetched = tmp_path / "file", tmp_path / "fetched"
    file.write_bytes(bytes(range(256)) * (OBJECT_BYTES // 256))
    for number, line in enumerate(OBJECTS, start=1):
        command = line.format(file=file, out=fetched)
        expected = output(cli, pair[0], command, _VARIES)
        fetched.unlink(missing_ok=True)
        actual = output(cli, pair[1], command, _VARIES)
        assert actual == expected, f"command {number}: nats {line}"
        if " get " in line and expected[0] == "status 0":
            assert fetched.read_bytes() == file.read_bytes()


def test_benches_run(cli: str, pair: tuple[str, str]) -> None:
    """The benches of consumers and buckets run to their end."""
    for line in BENCHES:
        options = ["--no-progress"] if line.startswith("bench") else []
        status, text, _ = run_bench([cli, "--no-context", "-s", pair[1], "--timeout=30s", *line.split(), *options])
        assert status == 0, f"nats {line}\n{text}"
        assert "msgs/sec" in text or not options
