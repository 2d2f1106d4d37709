"""docs/moving.md, from its first command to its last: each does what it says there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT, Child

PAGE = ROOT / "docs" / "moving.md"
BLOCK = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PORTS = "nats://127.0.0.1:4222", "nats://127.0.0.1:4223"


def told(text: str, pair: tuple[str, str]) -> str:
    """Commands with the addresses of this test."""
    for port, url in zip(PORTS, pair, strict=True):
        text = text.replace(port, url)
    return text


@pytest.mark.slow
def test_each_step_prints_what_it_says(cli: str, new_pair: tuple[str, str], tmp_path: Path) -> None:
    """In the order of the page; the two servers are those of the test, without Spark."""
    blocks = BLOCK.findall(PAGE.read_text())
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert {(commands[0], output[0]) for commands, output in pairs} == {("sh", "text")}
    assert pairs[0][0][1] == "up"
    binaries = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{binaries}:{Path(cli).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    follower: Child | None = None
    try:
        for (_, mark, commands), (_, _, printed) in pairs[1:]:
            pattern = ".*".join(map(re.escape, printed.strip().split("…")))
            if mark == "follow":
                line = ["bash", "-ec", f"exec {told(commands, new_pair)}"]
                follower = Child(line, tmp_path / "follower.log", env)
                follower.start()
                follower.wait_log(re.compile(pattern))
                continue
            ran = subprocess.run(
                ["bash", "-ec", told(commands, new_pair)],
                cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
            assert ran.returncode == 0, f"{commands}\n{ran.stdout}\n{ran.stderr[-3000:]}"
            assert re.fullmatch(pattern, ran.stdout.strip()), f"{commands}\nprinted\n{ran.stdout}"
    finally:
        if follower is not None:
            follower.stop()
