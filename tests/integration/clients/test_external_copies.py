"""Mirrors and sources of another domain, set up by unmodified clients: in Silt as in nats-server."""

import asyncio
import json
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    ExternalStream,
    RetentionPolicy,
    StreamConfig,
    StreamConsumerSource,
    StreamInfo,
    StreamSource,
    SubjectTransform,
)
from nats.js.errors import NotFoundError

from tests.domains import Domains, Json, masked, reaches, two_domains, use
from tests.integration.clients.comparable import at_once, compare, outcome, pretty, run
from tests.tools import GO_MIRRORS, Missing, go_program, node_modules

WAIT_SECONDS = 90
HUB = ExternalStream("$JS.hub.API")
SCRIPT = "external_copies.mjs"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Domains, Domains]]:
    """A nats-server's JetStream in one domain; in the other a nats-server, and Silt."""
    folder = tmp_path_factory.mktemp("domains")
    with ExitStack() as running:
        reference, silt = (running.enter_context(two_domains(folder / str(one), silt=one)) for one in (False, True))
        for domains in (reference, silt):
            use(domains.hub, lambda _: asyncio.sleep(0))
        yield reference, silt


def _compare(both: tuple[Domains, Domains], ask: Callable[[str], Sequence[tuple[str, Any]]]) -> None:
    """Assert that a program's calls give the same with Silt in the one domain as with nats-server."""
    expected, actual = at_once(ask, [domains.hub.url for domains in both])
    assert [name for name, _ in actual] == [name for name, _ in expected]
    for (name, reference), (_, ours) in zip(expected, actual, strict=True):
        assert pretty(masked(ours)) == pretty(masked(reference)), name


def _printed(command: list[str], url: str) -> list[tuple[str, Any]]:
    status, text = run([*command, url])
    assert status == 0, text
    return [(one["name"], one["outcome"]) for one in map(json.loads, text.splitlines())]


def test_nats_go(both: tuple[Domains, Domains]) -> None:
    """Whole, filtered, transformed, named; followed, promoted, and back."""
    try:
        program = go_program(GO_MIRRORS)
    except Missing as missing:
        pytest.skip(str(missing))
    _compare(both, lambda url: _printed([str(program)], url))


def test_nats_js(both: tuple[Domains, Domains]) -> None:
    """The same, with Direct Gets for the origin's name."""
    try:
        folder = node_modules()
    except Missing as missing:
        pytest.skip(str(missing))
    for name in (SCRIPT, "outcomes.mjs"):
        shutil.copy(Path(__file__).with_name(name), folder / name)
    _compare(both, lambda url: _printed(["node", str(folder / SCRIPT)], url))


def test_nats_py(both: tuple[Domains, Domains]) -> None:
    """The same."""
    _compare(both, lambda url: asyncio.run(_python(url)))


async def _python(url: str) -> list[tuple[str, Any]]:
    client = await nats.connect(url)
    try:
        return await _PythonCalls(*(client.jetstream(domain=name, timeout=30) for name in ("hub", "silt"))).made()
    finally:
        await client.close()


def _source(name: str = "PY_ORIGIN", external: ExternalStream = HUB, **fields: Any) -> StreamSource:
    return StreamSource(name, external=external, **fields)


def _named(name: str) -> StreamSource:
    return _source(consumer=StreamConsumerSource(name, f"py_named.{name}"))


WHOLE = StreamConfig(name="PY_WHOLE", mirror=_source(), mirror_direct=True)
DELIVERED = ExternalStream("$JS.hub.API", "py_deliver")
MOVED = SubjectTransform("py.*", "moved.{{wildcard(1)}}")
PYTHON_COPIES = (
    (WHOLE, 6),
    (StreamConfig(name="PY_PART", mirror=_source(filter_subject="py.a", external=DELIVERED)), 6),
    (StreamConfig(name="PY_NAMED", mirror=_named("mirror")), 6),
    (StreamConfig(name="PY_NAMED_SOURCE", sources=[_named("source")]), 5),
    (StreamConfig(name="PY_MOVED", sources=[_source(subject_transforms=[MOVED])]), 5),
    (StreamConfig(name="PY_LATER", sources=[_source(opt_start_seq=4)], subjects=["py_later"]), 3),
)
"""Configurations, and the last sequences when they have caught up."""


class _PythonCalls:
    """The calls of nats-py, one after the other."""

    def __init__(self, hub: JetStreamContext, silt: JetStreamContext) -> None:
        self._hub, self._silt = hub, silt
        self._seen: list[tuple[str, Any]] = []

    async def made(self) -> list[tuple[str, Any]]:
        """Make all calls; return what each gave."""
        await self._origin()
        await self._copies()
        await self._promotion()
        await self._back()
        for js in (self._silt, self._hub):
            for info in await js.streams_info():
                if str(info.config.name).startswith("PY_"):
                    await self._see(f"delete {info.config.name}", js.delete_stream(str(info.config.name)))
        return self._seen

    async def _see(self, name: str, call: Awaitable[Any]) -> None:
        self._seen.append((name, await outcome(lambda: call)))

    async def _origin(self) -> None:
        await self._hub.add_stream(name="PY_ORIGIN", subjects=["py.>"], allow_direct=True)
        for number in range(1, 7):
            headers = None if number % 3 else {"Key": "value"}
            await self._hub.publish(f"py.{'ab'[number % 2]}", b"m%d" % number, headers=headers)
        await self._hub.delete_msg("PY_ORIGIN", 2)
        for name in ("mirror", "source"):
            config = ConsumerConfig(
                durable_name=name, deliver_subject=f"py_named.{name}", ack_policy=AckPolicy.FLOW_CONTROL
            )
            await self._hub.add_consumer("PY_ORIGIN", config, flow_control=True, idle_heartbeat=1)

    async def _copies(self) -> None:
        silt, missing = self._silt, _source(name="NO_SUCH")
        for config, _ in PYTHON_COPIES:
            await self._see(f"create {config.name}", silt.add_stream(config))
        await self._see("of nothing", silt.add_stream(name="PY_MISSING", mirror=missing))
        await self._see("with subjects", silt.add_stream(name="PY_BAD", mirror=missing, subjects=["py_bad"]))
        for config, last in PYTHON_COPIES:
            await self._see(f"copied {config.name}", _reaches(silt, str(config.name), last))
            await self._see(f"messages {config.name}", _messages(silt, str(config.name), last))
        await self._see("direct of the origin", _messages(silt, "PY_ORIGIN", 6, direct=True))
        await self._hub.publish("py.a", b"m7")
        for config, last in PYTHON_COPIES:
            await self._see(f"followed {config.name}", _reaches(silt, str(config.name), last + 1))
        await self._see("its error", _until(silt, "PY_MISSING", lambda info: bool(info.mirror and info.mirror.error)))

    async def _promotion(self) -> None:
        silt = self._silt
        await self._see("another mirror", silt.update_stream(WHOLE.evolve(mirror=_source(filter_subject="py.b"))))
        await self._see("promoted", silt.update_stream(name="PY_WHOLE", subjects=["py_whole"]))
        await self._see("its own", silt.publish("py_whole", b"of its own"))
        await self._see("messages of its own", _messages(silt, "PY_WHOLE", 8))

    async def _back(self) -> None:
        hub, silt = self._hub, self._silt
        queue = RetentionPolicy.WORK_QUEUE
        await self._see("queue", silt.add_stream(name="PY_BACK", subjects=["py_back"], retention=queue))
        for number in range(3):
            await silt.publish("py_back", b"b%d" % number)
        source = StreamSource("PY_BACK", external=ExternalStream("$JS.silt.API"))
        await self._see("back", hub.add_stream(name="PY_BACK", sources=[source]))
        await self._see("copied back", _reaches(hub, "PY_BACK", 3))
        await self._see("messages that came back", _messages(hub, "PY_BACK", 3))
        await self._see("taken from the queue", _until(silt, "PY_BACK", lambda info: not info.state.messages))


async def _until(js: JetStreamContext, name: str, holds: Callable[[StreamInfo], bool]) -> StreamInfo:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            info = await js.stream_info(name)
            if holds(info):
                return info
            await asyncio.sleep(0.05)


async def _reaches(js: JetStreamContext, name: str, seq: int) -> StreamInfo:
    """Wait until a copy has a sequence, and nothing left to copy."""

    def holds(info: StreamInfo) -> bool:
        return info.state.last_seq >= seq and not any(one.lag for one in [*(info.sources or ()), info.mirror] if one)

    return await _until(js, name, holds)


async def _messages(js: JetStreamContext, name: str, last: int, *, direct: bool = False) -> list[Any]:
    found: list[Any] = []
    for seq in range(1, last + 1):
        try:
            found.append(await js.get_msg(name, seq=seq, direct=direct))
        except NotFoundError as error:
            found.append(str(error))
    return found


CLI_NAMED = "--ack=flow_control --flow-control --heartbeat=1s --deliver=all --replay=instant --defaults"
CLI_ORIGIN = (
    "stream add CLI_ORIGIN --subjects=cli.> --defaults",
    *(f"consumer add CLI_ORIGIN {name} --target=cli_named.{name} {CLI_NAMED}" for name in ("mirror", "source")),
    "pub cli.a a{{Count}} --count=3 --jetstream",
    "pub cli.b b{{Count}} --count=3 --jetstream -H Key:value",
    "stream rmm CLI_ORIGIN 2 --force",
)
CLI_COPIES: dict[str, tuple[Json, int]] = {
    "CLI_WHOLE": ({"mirror": {}}, 6),
    "CLI_PART": ({"mirror": {"filter_subject": "cli.b"}}, 6),
    "CLI_NAMED": ({"mirror": {"consumer": {"name": "mirror", "deliver_subject": "cli_named.mirror"}}}, 6),
    "CLI_NAMED_SOURCE": ({"sources": {"consumer": {"name": "source", "deliver_subject": "cli_named.source"}}}, 5),
    "CLI_MOVED": ({"sources": {"subject_transforms": [{"src": "cli.*", "dest": "moved.{{wildcard(1)}}"}]}}, 5),
}
CLI_READS = (
    *(f"stream info {name}" for name in CLI_COPIES),
    "stream get CLI_WHOLE 5",
    "stream get CLI_WHOLE 2",
    "stream get CLI_PART --last-for=cli.b",
    "stream subjects CLI_MOVED --json",
    "stream edit CLI_WHOLE --no-mirror --subjects=cli_whole --force",
    "pub cli_whole own --jetstream",
    "stream info CLI_WHOLE",
    "stream get CLI_WHOLE 7",
    *(f"stream rm {name} --force" for name in CLI_COPIES),
)
CLI_DEFAULTS = {
    "retention": "limits",
    "storage": "file",
    "discard": "old",
    "num_replicas": 1,
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
}
CLI_VARIES = (
    (re.compile(r"(Active|Last Seen|Created|First Message|Last Message|Bytes)(.*?): .*"), r"\1\2: <varies>"),
    (re.compile(r"(Nats-Stream-Source: .*) \w+"), r"\1"),
)


def test_nats_cli(cli: str, both: tuple[Domains, Domains], tmp_path: Path) -> None:
    """Origins, named consumers and copies made, shown, read, promoted and removed by commands."""
    urls = both[0].hub.url, both[1].hub.url
    compare(cli, urls, [f"{line} --js-domain=hub" for line in CLI_ORIGIN])
    for name, (config, _) in CLI_COPIES.items():
        ((kind, more),) = config.items()
        source = {"name": "CLI_ORIGIN", "external": {"api": "$JS.hub.API", "deliver": ""}} | more
        shown = {"name": name, kind: source if kind == "mirror" else [source], "allow_direct": True}
        (tmp_path / name).write_text(json.dumps(CLI_DEFAULTS | shown))
        compare(cli, urls, [f"stream add {name} --config={tmp_path / name} --js-domain=silt"], CLI_VARIES)
    for domains in both:
        use(domains.hub, _have_copied)
    compare(cli, urls, [f"{line} --js-domain=silt" for line in CLI_READS], CLI_VARIES)
    compare(cli, urls, ["stream rm CLI_ORIGIN --force --js-domain=hub"])


async def _have_copied(connection: Client) -> None:
    for name, (_, last) in CLI_COPIES.items():
        await reaches(connection, "silt", name, last)
