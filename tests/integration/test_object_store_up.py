"""All of Silt on an object store, Spark too; slow, and only where Spark's jars for it were fetched (`make jars-s3`)."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from deltalake import DeltaTable

from delta_store.reading.settled import SettledTable
from tests.s3 import BUCKET, SECRET_KEY, S3Server, s3_server, storage_options, store_variables
from tests.servers import ROOT, Child, Gateway, gateway_command, nats_server, wait_until
from tests.until_acked import publish

TAKEN_OVER_SECONDS = 15.0
"""From the end of the first settle job to the second's first batch; under five on an idle machine (README)."""
_READY = re.compile(r'^{"ready": true', re.MULTILINE)
_STANDS_BY = re.compile(r'^{"answering": true', re.MULTILINE)


def _has_jars() -> bool:
    from delta_store.settling.spark_session import ARTIFACT_FOLDERS
    from delta_store.settling.spark_store import fetched_store_jars

    return any(fetched_store_jars(Path.home() / name) for name in ARTIFACT_FOLDERS)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not _has_jars(), reason="make jars-s3 has not been made"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server with one bucket."""
    with s3_server() as running:
        yield running


def test_the_demonstration_on_an_object_store(server: S3Server, tmp_path: Path) -> None:
    """Three equal answers, a store that verify finds whole, nothing of it on this disk, and no key in any log."""
    url = f"s3://{BUCKET}/demo"
    env = {**os.environ, **store_variables(server.url), "SILT_STORAGE__LOCAL_FOLDER": str(tmp_path)}

    def silt(*arguments: str) -> str:
        command = [sys.executable, "-m", "api.cli.main", *arguments]
        ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    said = silt("demo", "--rows", "3000", "--data", url)
    assert said.count("yes") == 3
    assert "nothing is damaged" in silt("verify", "--data", url)
    table = DeltaTable(f"{url}/messages", storage_options=storage_options(server.url))
    assert table.to_pyarrow_table(columns=["seq"]).num_rows >= 3000
    assert not [path for path in tmp_path.rglob("*.parquet") if path.is_file()]
    logs = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.log"))
    assert SECRET_KEY not in logs + said


def test_standbys_take_over_gateway_and_settle_job(server: S3Server, tmp_path: Path) -> None:
    """Both are killed at once: what clients send again is stored once, and settled once, soon, for Spark is warm."""
    url = f"s3://{BUCKET}/two-of-each"
    env = {**store_variables(server.url), "SILT_STORAGE__LOCAL_FOLDER": str(tmp_path)}
    settled = SettledTable(f"{url}/messages", storage_options=storage_options(server.url))

    def settled_up_to(seq: int) -> bool | None:
        mark = settled.refresh().watermarks.get("S")
        return (mark is not None and mark.seq == seq) or None

    def settled_on() -> bool | None:
        mark = settled.refresh().watermarks.get("S")
        return (mark is not None and mark.seq > 20) or None

    command = [sys.executable, "-m", "delta_store.settling.settle_main", "--data", url]
    first, second = (Child(command, tmp_path / f"{name}-settle.log", env) for name in ("first", "second"))
    with nats_server(tmp_path / "hub", leaf=True) as hub:
        gateways = [
            Gateway(hub, url, Child(gateway_command(hub, url), tmp_path / f"{name}-gateway.log", env))
            for name in ("first", "second")
        ]
        try:
            gateways[0].start()
            asyncio.run(_publish(hub.url, range(1, 21)))
            gateways[1].child.start()
            gateways[1].child.wait_log(_STANDS_BY)
            first.start()
            first.wait_log(_READY, seconds=300)
            second.start()
            second.wait_log(_STANDS_BY, seconds=300)
            wait_until(lambda: settled_up_to(20), what="the first settles", seconds=120, log=first.log)
            first.kill()
            gateways[0].child.kill()
            killed = time.monotonic()
            asyncio.run(_publish(hub.url, range(21, 41)))
            wait_until(settled_on, what="the second settles", seconds=120, log=second.log)
            assert time.monotonic() - killed < TAKEN_OVER_SECONDS
            wait_until(lambda: settled_up_to(40), what="the second settles all", seconds=120, log=second.log)
        finally:
            for child in (first, second, *(one.child for one in gateways)):
                child.kill()
    rows = DeltaTable(f"{url}/messages", storage_options=storage_options(server.url)).to_pyarrow_table()
    assert sorted(row["seq"] for row in rows.to_pylist() if row["kind"] == "message") == list(range(1, 41))


async def _publish(hub_url: str, numbers: range) -> None:
    """Publish to a stream, which is made if need be; each message until it is acknowledged, with its sequence."""
    connection = await nats.connect(hub_url)
    if numbers[0] == 1:
        await connection.jetstream().add_stream(name="S", subjects=["s"])
    for number in numbers:
        assert await publish(connection, "s", number) == number
    await connection.close()
