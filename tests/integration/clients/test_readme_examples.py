"""The examples in the READMEs of nats-py and nats.js, do the same on both servers."""

import re
import sys
from importlib.metadata import metadata
from typing import NamedTuple

import pytest

from tests.integration.clients.comparable import at_once, comparable_text, run
from tests.tools import Missing, node_modules

_PRELUDE = """
import { AckPolicy, jetstream, jetstreamManager, StorageType } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { connect, Empty } from "@nats-io/transport-node";
import { inspect } from "node:util";
inspect.defaultOptions.depth = null;
const sc = { encode: (text) => new TextEncoder().encode(text), decode: (bytes) => new TextDecoder().decode(bytes) };
const nc = await connect({ servers: process.argv[2] });
"""
_ATTEMPT = """
try {
  await (async () => {
%s
  })();
} catch (error) {
  console.log(`ended by ${error.name}: ${error.message}`);
}
await nc.close();
"""
_WITH_CONSUMER = """
  const made = await jetstreamManager(nc);
  await made.streams.add({ name: "a", subjects: ["a.*"] });
  await made.consumers.add("a", { durable_name: "a", ack_policy: AckPolicy.Explicit });
  for (let number = 0; number < 30; number++) await jetstream(nc).publish(`a.${number % 4}`, Empty);
"""
_BLOCK = re.compile(r"^```(?:typescript|javascript|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What TypeScript has beyond JavaScript, as far as the examples use it.
_TYPES = (
    (re.compile(r"\b(buf|data|rs): (?:Promise<\w+>|ReadableStream<\w+>|\w+)(?:\[\])?(?=[,)]| =)"), r"\1"),
    (re.compile(r"\): ReadableStream<\w+> \{"), ") {"),
    (re.compile(r"\b(ReadableStream|Map)<[\w, ]+>"), r"\1"),
    (re.compile(r"\b([ir])!\."), r"\1."),
)
_VARIES = (
    (re.compile(r"leader: '[^']*'"), "leader: '<server>'"),
    (re.compile(r"\$JS\.ACK\.([\w-]+)\.[^ ',]*"), r"$JS.ACK.\1.<delivery>"),
    (re.compile(r"_ack_reply=.*"), "<rest>"),
    (re.compile(r"<nats\.[^>]*>|<nats client [^>]*>"), "<client>"),
    (re.compile(r"QSUB [AB]"), "QSUB <one>"),
    (re.compile(r"_sid=\d+"), "_sid=<number>"),
)


class Example(NamedTuple):
    """Which blocks of a package's README make up one program."""

    package: str
    marks: tuple[str, ...]
    """A text that only the block has, for each block."""
    before: str = ""
    mended: tuple[str, str] = ("", "")
    """A mistake of the example and what was meant."""


EXAMPLES = {
    "manager": Example("jetstream", ("for await (const si of jsm.streams.list())",)),
    "manager, mended": Example(
        "jetstream", ("for await (const si of jsm.streams.list())",), mended=("`${subj}.a`", "`${stream}.A`")
    ),
    "client": Example("jetstream", ("// create a jetstream client:",)),
    "consumers": Example(
        "jetstream",
        ("// getting an ordered consumer requires", "const m = await c.next()", "batch completed", "new Map<string"),
        before=_WITH_CONSUMER,
    ),
    "kv": Example("kv", ("// danger: destroys all values",)),
    "obj": Example("obj", ("// chunk 11: d",)),
}


def _block(readme: str, mark: str) -> str:
    (found,) = [block for block in _BLOCK.findall(readme) if mark in block]
    return str(found)


def _comparable(text: str) -> list[str]:
    text = comparable_text(text)
    for pattern, placeholder in _VARIES:
        text = pattern.sub(placeholder, text)
    return text.splitlines()


def _apart(lines: list[str]) -> tuple[list[str], list[str]]:
    """What the program printed, and what its watch printed beside it."""
    watched = [line for line in lines if line.startswith("watch: ")]
    return [line for line in lines if not line.startswith("watch: ")], watched


@pytest.mark.parametrize("name", EXAMPLES)
def test_nats_js(pair: tuple[str, str], name: str) -> None:
    """An example of nats.js prints the same; its watch, which the example stops at any time, begins the same."""
    try:
        folder = node_modules()
    except Missing as missing:
        pytest.skip(str(missing))
    example = EXAMPLES[name]
    readme = (folder / "node_modules" / "@nats-io" / example.package / "README.md").read_text()
    body = example.before + "\n".join(_block(readme, mark) for mark in example.marks)
    for pattern, without in _TYPES:
        body = pattern.sub(without, body)
    assert example.mended[0] in body
    script = folder / "readme_example.mjs"
    script.write_text(_PRELUDE + _ATTEMPT % body.replace(*example.mended))

    def printed(url: str) -> tuple[list[str], list[str]]:
        status, text = run(["node", str(script), url], cwd=folder)
        assert status == 0, text
        return _apart(_comparable(text))

    (expected, theirs), (actual, ours) = at_once(printed, pair)
    assert actual == expected
    common = min(len(theirs), len(ours))
    assert ours[:common] == theirs[:common]
    assert bool(ours) == bool(theirs)


def test_nats_py(pair: tuple[str, str]) -> None:
    """The JetStream example of nats-py prints the same lines, those of its queue subscribers in any order."""
    program = _block(str(metadata("nats-py").json["description"]), "js = nc.jetstream()")

    def printed(url: str) -> list[str]:
        status, text = run([sys.executable, "-c", program.replace('"localhost"', repr(url))])
        assert status == 0, text
        return _comparable(text)

    expected, actual = at_once(printed, pair)
    assert [line for line in actual if "QSUB" not in line] == [line for line in expected if "QSUB" not in line]
    assert sorted(actual) == sorted(expected)
    assert expected[-1].startswith("All data in stream")
