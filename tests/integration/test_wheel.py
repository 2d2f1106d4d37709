"""The wheel in an environment of its own, without the source tree."""

import asyncio
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import nats
import pytest
from deltalake import DeltaTable

from tests.servers import Child

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"ready (nats://\S+) (http://\S+)")
PUBLISHED = 20


def _installed(folder: Path) -> Path:
    """Build the wheel and install it beside the packages of this environment, but not its Silt; returns the Python."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run(
        [*pip, "wheel", ROOT, "--no-deps", "--no-build-isolation", "-w", folder], check=True, timeout=300, cwd=folder
    )
    [wheel] = folder.glob("silt-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=120)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True, timeout=300, cwd=folder)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files count for nothing
    return python


async def _publish(url: str) -> bytes:
    """Publish, and read the last message back."""
    client = await nats.connect(url)
    try:
        jetstream = client.jetstream(timeout=60)
        await jetstream.add_stream(name="ORDERS", subjects=["orders.*"], allow_direct=True)
        for number in range(PUBLISHED):
            await jetstream.publish("orders.new", b"order %d" % number)
        return (await jetstream.get_last_msg("ORDERS", "orders.new", direct=True)).data or b""
    finally:
        await client.close()


def _settled(data: Path) -> int:
    if not (data / "messages" / "_delta_log").exists():
        return 0
    table = DeltaTable(data / "messages").to_pyarrow_table(columns=["seq"], filters=[("kind", "=", "message")])
    return int(table.num_rows)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_runs_without_the_source_tree(tmp_path: Path) -> None:
    """``silt up`` of the installed wheel acknowledges, answers and settles; the Databricks bundle came along."""
    python = _installed(tmp_path)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import conf, delta_store; print(conf.__file__, delta_store.__file__)"
    where = subprocess.run([python, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True)
    assert str(ROOT) not in where.stdout
    assert (Path(where.stdout.split()[0]).parent / "databricks" / "databricks.yml").is_file()
    silt = python.with_name("silt")
    path = os.pathsep.join([str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["env", "-C", tmp_path, silt, "up", "--data", tmp_path / "data", "--port", "0", "--http-port", "0"]
    up = Child([*map(str, command)], tmp_path / "up.log", {"PATH": path})
    up.start()
    try:
        url = up.wait_log(READY, seconds=120).group(1)
        assert asyncio.run(_publish(url)) == b"order %d" % (PUBLISHED - 1)
        deadline = time.monotonic() + 300
        while _settled(tmp_path / "data") < PUBLISHED:
            assert time.monotonic() < deadline, up.log.read_text()[-3000:]
            time.sleep(1)
        assert _settled(tmp_path / "data") == PUBLISHED
    finally:
        up.stop()
