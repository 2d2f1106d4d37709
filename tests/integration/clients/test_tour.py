"""docs/tour.md, from its first command to its last: each does what it says there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import ROOT, SILT_UP_SECONDS, Child, answers_api, http_open, wait_until
from tests.tools import Missing, nats_cli

TOUR = ROOT / "docs" / "tour.md"
READY = re.compile(r"ready (nats://\S+) (http://\S+)")
BLOCK = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """Commands and what they print."""

    language: str
    commands: str
    printed: str


def steps() -> list[Step]:
    """The steps of the tour but for the start; each block of commands has one of output behind it."""
    blocks = BLOCK.findall(TOUR.read_text())
    assert [(language, mark) for language, mark, _ in blocks[:2]] == [("sh", "up"), ("text", "")]
    pairs = list(zip(blocks[2::2], blocks[3::2], strict=True))
    assert {(commands[0] in ("sh", "python"), output[0]) for commands, output in pairs} == {(True, "text")}
    return [Step(commands[0], commands[2], output[2]) for commands, output in pairs]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str], tuple[str, str]]]:
    """The first command, on free ports: the folder it runs in, the environment of the others, and the addresses."""
    try:
        cli = nats_cli()
    except Missing as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("tour")
    binaries = Path(sys.executable).parent
    (_, _, started), *_ = BLOCK.findall(TOUR.read_text())
    command = started.split()
    assert command == ["silt", "up", "--data", "silt-data"]
    data = folder / command.pop()
    ports = ["--port", "0", "--http-port", "0"]
    child = Child([str(binaries / "silt"), "up", "--data", str(data), *ports], folder / "up.log")
    child.start()
    try:
        urls = child.wait_log(READY, seconds=SILT_UP_SECONDS).groups()
        wait_until(lambda: http_open(urls[1]), what="HTTP answers", log=child.log)
        wait_until(lambda: answers_api(urls[0]), what="JetStream answers", log=child.log)
        path = f"{binaries}:{cli.parent}:{os.environ['PATH']}"
        home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(ROOT)}
        yield folder, {**os.environ, "PATH": path, "NATS_URL": urls[0], **home}, (urls[0], urls[1])
    finally:
        child.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_step_prints_what_it_says(running: tuple[Path, dict[str, str], tuple[str, str]]) -> None:
    """In the order of the tour, as one reads it: by the time of the last ones the settle job is at work."""
    folder, env, (_, http) = running
    settled = folder / "silt-data" / "messages" / "_delta_log"
    for step in steps():
        if step.language == "python":
            wait_until(settled.is_dir, what="rows are settled", seconds=SILT_UP_SECONDS)
        lines = [step.commands] if step.language == "python" else step.commands.splitlines()
        printed = ""
        for line in lines:
            command = [sys.executable, "-c"] if step.language == "python" else ["bash", "-ec"]
            text = line.replace("http://127.0.0.1:8222", http)
            ran = subprocess.run(
                [*command, text], cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False
            )
            assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr[-3000:]}"
            printed += ran.stdout if ran.stdout.endswith("\n") or not ran.stdout else f"{ran.stdout}\n"
        pattern = ".*".join(map(re.escape, step.printed.strip().split("…")))
        assert re.fullmatch(pattern, printed.strip()), f"{step.commands}\nprinted\n{printed}"
