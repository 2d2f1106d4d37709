"""What a client printed, with all that may differ between two runs taken out."""

import dataclasses
import json
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from nats.js.errors import Error

from tests.tools import STALLED

T = TypeVar("T")
Call = Callable[[], Awaitable[Any]]
"""A call of nats-py."""
Varying = Sequence[tuple[re.Pattern[str], str]]
_COMMAND_SECONDS = 120
_STALLS_MAX = 3
_PLACEHOLDERS = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( \+0000 UTC|Z)?"), "<time>"),
    (re.compile(r"^\d\d:\d\d:\d\d ", re.MULTILINE), ""),
    (re.compile(r"\b\d\d:\d\d:\d\d\)"), "<time>)"),
    (re.compile(r"(Host Version:) \S+"), r"\1 <version>"),
    (re.compile(r"\bN[A-Z2-7]{55}\b"), "<server>"),
    (re.compile(r"(Leader:) \S+"), r"\1 <server>"),
    (re.compile(r'("leader": )"[^"]+"'), r'\1"<server>"'),
    (re.compile(r'("_nats.ver": )"[^"]+"'), r'\1"<version>"'),
    (re.compile(r"│ [\d.]+(ns|µs|ms|s|m\d+s) +│$", re.MULTILINE), "│ <age> │"),
    (re.compile(r"\([\d.]+(ns|µs|ms|s)\)"), "(<age>)"),
    # Go's diffs mix in no-break spaces at random.
    (re.compile("\xa0"), " "),
    # Columns are as wide as what is in them.
    (re.compile(r"─+"), "─"),
    (re.compile(r" +"), " "),
)
_TIME = re.compile(r"[1-9]\d{3}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


def run(command: list[str], *, cwd: Path | None = None) -> tuple[int, str]:
    """Exit status, and standard output followed by standard error."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def run_bench(command: list[str]) -> tuple[int, str, int]:
    """Like :func:`run`, and how often the bench was begun again because it stalled.

    nats.go gives an asynchronous publisher up when 200 ms bring no ack. On a disk that is busy with others' writes one
    fsync may take as long: against nats-server with ``sync_interval: always`` that ends in the same way.
    """
    stalls = 0
    status, text = run(command)
    while STALLED in text and stalls < _STALLS_MAX:
        stalls += 1
        status, text = run(command)
    return status, text, stalls


def comparable_text(text: str) -> str:
    """A command's output with times, ages, versions and server names replaced, and columns of one width."""
    for pattern, placeholder in _PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return text


def at_once(ask: Callable[[str], T], urls: Iterable[str]) -> list[T]:
    """What ``ask`` gives for each server, asked in threads of their own."""
    with ThreadPoolExecutor() as threads:
        return list(threads.map(ask, urls))


def output(cli: str, url: str, line: str, varies: Varying = ()) -> list[str]:
    """What a command of the nats CLI printed, after its exit status; ``varies`` are more patterns to replace."""
    status, text = run([cli, "--no-context", "-s", url, "--timeout=10s", *line.split()])
    text = comparable_text(text.replace(url, "<url>"))
    for pattern, placeholder in varies:
        text = pattern.sub(placeholder, text)
    return [f"status {status}", *text.splitlines()]


def compare(cli: str, urls: tuple[str, str], lines: Iterable[str], varies: Varying = ()) -> None:
    """Run commands one after another, each against both servers at once: same output, same exit status.

    Those that write a file, which is the same for both, follow each other.
    """
    for number, line in enumerate(lines, start=1):
        each = map if "--output=" in line else at_once
        expected, actual = each(lambda url, line=line: output(cli, url, line, varies), urls)
        assert actual == expected, f"command {number}: nats {line}"


def comparable_json(value: Any, key: str = "") -> Any:
    """A JSON value with times, versions and server names replaced; zero times stay."""
    if isinstance(value, dict):
        return {name: comparable_json(item, name) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [comparable_json(item, key) for item in value]
    if isinstance(value, datetime):
        value = str(value)
    if isinstance(value, str) and _TIME.fullmatch(value):
        return "<time>"
    return {"leader": "<server>", "_nats.ver": "<version>"}.get(key, value)


def pretty(value: Any) -> list[str]:
    """A JSON value as lines, so that pytest shows where two of them differ."""
    return json.dumps(comparable_json(value), indent=1, default=str, ensure_ascii=False).splitlines()


async def outcome(call: Call) -> Any:
    """What a call gave, as plain data; an error by its kind, codes and text."""
    try:
        value = await call()
    except Error as error:
        codes = [getattr(error, name, None) for name in ("code", "err_code", "description")]
        return {"error": type(error).__name__, "codes": codes}
    return _plain(value)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
