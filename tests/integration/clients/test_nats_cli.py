"""The ``nats`` CLI, unmodified, prints against Silt what it prints against nats-server."""

import json
from pathlib import Path

import pytest

from tests.integration.clients.comparable import compare, run, run_bench
from tests.servers import answers_api, nats_server, silt_server, silt_up, wait_until

STREAM_LIFE = (
    "stream ls",
    "stream report",
    "stream add ORDERS --subjects=orders.> --defaults",
    "stream add ORDERS --subjects=orders.> --defaults",
    "stream add EVENTS --subjects=events.*,audit.> --defaults --max-msgs=5 --max-age=1h --dupe-window=30s",
    "stream add THINGS --subjects=things --defaults --max-msg-size=1000 --max-msgs-per-subject=3 --discard=new",
    "stream add WORDS --subjects=words --defaults --description=things --metadata=team:silt",
    "stream add OVERLAP --subjects=orders.new --defaults",
    "stream add BAD.NAME --subjects=bad --defaults",
    "pub orders.new first",
    "pub orders.{{Count}} message-{{Count}} --count=5 --jetstream -H A:1",
    "pub events.x e{{Count}} --count=4 --jetstream",
    "pub nowhere lost --jetstream",
    "stream ls",
    "stream ls --names",
    "stream ls --json",
    "stream find --subject=orders.new",
    "stream report",
    "stream info ORDERS",
    "stream info NOSUCH",
    "stream state ORDERS",
    "stream subjects ORDERS --json",
    "stream subjects ORDERS --filter=orders.3",
    "stream get ORDERS 1",
    "stream get ORDERS 3",
    "stream get ORDERS 99",
    "stream get ORDERS --last-for=orders.4",
    "stream get NOSUCH 1",
    "stream edit ORDERS --description=edited --max-msgs=100 --force",
    "stream edit ORDERS --subjects=orders.>,more --force",
    "stream edit NOSUCH --description=x --force",
    "stream rmm ORDERS 3 --force",
    "stream rmm ORDERS 3 --force",
    "stream info ORDERS",
    "stream purge ORDERS --force --subject=orders.1",
    "stream purge ORDERS --force --keep=2",
    "stream purge ORDERS --force --seq=6",
    "stream purge ORDERS --force",
    "stream copy ORDERS COPY --subjects=copy.>",
    "stream info ORDERS",
    "stream report",
    "stream rm ORDERS --force",
    "stream rm ORDERS --force",
    "stream ls --names",
    "stream add KEPT --subjects=kept --defaults --deny-delete --deny-purge",
    "pub kept 1 --jetstream",
    "stream rmm KEPT 1 --force",
    "stream purge KEPT --force",
)
BENCHES = (
    ("bench js pub sync --msgs=200 --size=128", 200),
    ("bench js pub async --batch=500 --msgs=20000 --size=128", 20_000),
    ("bench js pub async --batch=5000 --msgs=20000 --size=128", 20_000),
    ("bench js pub async --batch=100 --msgs=2000 --multisubject --multisubjectmax=50", 2_000),
    ("bench js pub async --batch=100 --msgs=2000 --dedup", 2_000),
    ("bench js get sync --msgs=200", 0),
    ("bench js get batch --msgs=20000", 0),
)
"""Command lines, and how many messages each publishes."""


def test_stream_commands(cli: str, pair: tuple[str, str]) -> None:
    """A stream's whole life, command by command: same output, same exit status."""
    compare(cli, pair, STREAM_LIFE)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stream_commands_while_settling(cli: str, tmp_path: Path) -> None:
    """The same against ``silt up``, where Spark settles meanwhile."""
    with nats_server(tmp_path / "reference", jetstream=True) as reference, silt_up(tmp_path / "up") as silt:
        wait_until(lambda: answers_api(reference.url), what="nats-server's JetStream answers")
        compare(cli, (reference.url, silt.url), STREAM_LIFE)


def test_json_output(cli: str, pair: tuple[str, str]) -> None:
    """``--json`` prints replies as they are: same keys and values."""
    lines = (
        "stream add JSON --subjects=json.> --defaults --json",
        "stream edit JSON --description=edited --force --json",
        "stream info JSON --json",
        "stream ls --json --names",
    )
    compare(cli, pair, lines)


def test_benches(cli: str, tmp_path: Path) -> None:
    """The CLI's own benchmarks run to their end, and every message they published is there."""
    with silt_server(tmp_path) as silt:
        base = [cli, "--no-context", "-s", silt.hub.url]
        made = run([*base, "stream", "add", "benchstream", "--subjects=bench.>", "--defaults"])
        assert made[0] == 0, made[1]
        stored = 0
        for line, published in BENCHES:
            subject = ["bench.x"] if published else []
            status, text, stalls = run_bench([*base, *line.split(), "--no-progress", *subject])
            assert status == 0, f"nats {line}\n{text}"
            assert "msgs/sec" in text
            _, info = run([*base, "stream", "info", "benchstream", "--json"])
            before, stored = stored, json.loads(info)["state"]["messages"]
            assert stored == before + published or (stalls and stored > before + published), line
