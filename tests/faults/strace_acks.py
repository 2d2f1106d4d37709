"""Watch the gateway's system calls: before an acknowledgement leaves, its commit is on the disk.

The gateway runs under strace. Afterwards each acknowledgement that went out on the leaf link is taken from the trace,
the log entry that holds its sequence is taken from the journal, and for that entry four fsyncs must have *returned*
before the send *began*: the Parquet file, the journal's folder after the file got its name, the log entry, the log
folder after the entry got its name.

Reading the trace: ``-f`` interleaves threads, so a call may be split into ``<unfinished ...>`` and ``resumed``; an
fsync counts from where it returned, a send from where it began. ``-y`` names each descriptor; a file that is created
without a name (O_TMPFILE) is known by its descriptor until it is linked.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers import wait_until

WRITES = ("write", "writev", "pwrite64", "pwritev")
SENDS = ("write", "writev", "sendto", "sendmsg", "sendmmsg")
STRACE = (
    "strace",
    "--follow-forks",
    "--decode-fds=path",
    "--string-limit=1048576",
    "--trace=openat,open,creat,close,fsync,fdatasync,linkat,link,rename,renameat,renameat2,"
    + ",".join({*WRITES, *SENDS}),
    "--signal=none",
    "--quiet=attach,path-resolution,personality,thread-execve",
    "--daemonize",
)
"""To be followed by ``-o FILE`` and the command, which keeps the process id that strace was started with."""
_TRACE_SECONDS_MAX = 60
_LINE = re.compile(r"(?P<pid>\d+) +(?:<\.\.\. )?(?P<call>\w+)(?P<rest>.*)")
_RESUMED = re.compile(r" resumed>(?P<rest>.*)")
_RESULT = re.compile(r"= (?P<value>-?\d+)(?:<(?P<path>.*)>(?:\(deleted\))?)?$")
_FD = re.compile(r"^\(?(?P<fd>-?\d+|AT_FDCWD)(?:<(?P<path>[^>]*)>)?")
_NAMES = re.compile(r'(?:(?P<fd>\d+|AT_FDCWD)<(?P<folder>[^>]*)>, )?"(?P<name>[^"]*)"')
_ACK = re.compile(r'\\"stream\\":\\"(?P<stream>[^"\\]+)\\",\\"seq\\":(?P<seq>\d+)')
_SOCKET = "socket:"


class Call(NamedTuple):
    """One system call; positions are lines of the trace."""

    began: int
    returned: int
    pid: str
    name: str
    text: str
    """Arguments and result, as strace prints them."""


class Ack(NamedTuple):
    """An acknowledgement that left at ``position``."""

    stream: str
    seq: int
    position: int


@dataclass(slots=True)
class Durable:
    """Where in the trace things became durable."""

    synced: dict[str, int] = field(default_factory=dict)
    """Path → where the first fsync after the last write to it returned."""
    named: dict[str, int] = field(default_factory=dict)
    """Path → where it got its name."""
    folder_syncs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Folder → where its fsyncs began and returned."""

    def name_durable(self, path: str) -> int | None:
        """Where the first fsync of its folder returned that began after ``path`` got its name."""
        named, folder = self.named.get(path), path.rpartition("/")[0]
        if named is None:
            return None
        return next((returned for began, returned in self.folder_syncs.get(folder, ()) if began > named), None)


def read_trace(path: Path, pid: int) -> list[Call]:
    """The calls in a trace file, once strace has seen the process end."""
    ended = re.compile(rf"^{pid} +\+\+\+ (exited|killed)", re.MULTILINE)
    text = wait_until(
        lambda: text if ended.search(text := path.read_text(errors="replace")) else None,
        what=f"the end of process {pid} in {path}",
        seconds=_TRACE_SECONDS_MAX,
    )
    return list(calls(text.splitlines()))


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """The calls of a trace in the order of their return, split ones put together."""
    began: dict[str, tuple[int, str]] = {}
    for position, line in enumerate(lines):
        found = _LINE.match(line.rstrip("\n"))
        if found is None:
            continue
        pid, name, rest = found["pid"], found["call"], found["rest"]
        if rest.endswith("<unfinished ...>"):
            began[pid] = position, rest.removesuffix("<unfinished ...>")
        elif resumed := _RESUMED.match(rest):
            start, text = began.pop(pid, (position, ""))
            yield Call(start, position, pid, name, text + resumed["rest"])
        else:
            yield Call(position, position, pid, name, rest)


def durable(trace: Iterable[Call]) -> Durable:
    """What became durable when."""
    found = Durable()
    nameless: dict[str, str] = {}
    for call in trace:
        result = _RESULT.search(call.text)
        if result is None or int(result["value"]) < 0:
            continue
        if call.name in ("fsync", "fdatasync"):
            _note_sync(found, call)
        elif call.name in WRITES and (target := _FD.match(call.text)):
            found.synced.pop(target["path"] or "", None)
        elif call.name in ("open", "openat", "creat"):
            _note_open(found, call, result, nameless)
        elif call.name in ("link", "linkat", "rename", "renameat", "renameat2"):
            _note_name(found, call, nameless)
    return found


def acks(trace: Iterable[Call]) -> list[Ack]:
    """Successful acknowledgements in what was written to sockets."""
    found = []
    for call in trace:
        target = _FD.match(call.text)
        if call.name in SENDS and target and _SOCKET in (target["path"] or ""):
            found += [Ack(ack["stream"], int(ack["seq"]), call.began) for ack in _ACK.finditer(call.text)]
    return found


def too_early(trace: list[Call], journal: Path) -> list[str]:
    """Acknowledgements that left before their commit was durable, in words; empty when there are none."""
    state, commits = durable(trace), journal_commits(journal)
    problems = []
    for ack in acks(trace):
        entry = next((commit for commit in commits if commit.watermarks.get(ack.stream, 0) >= ack.seq), None)
        if ack.seq == 0:
            continue
        if entry is None:
            problems.append(f"{ack.stream} {ack.seq} was acknowledged and is in no commit")
            continue
        for what, when in entry.steps(state).items():
            if when is None or when >= ack.position:
                problems.append(f"{ack.stream} {ack.seq} left at line {ack.position}, {what} at {when}")
    return problems


@dataclass(frozen=True, slots=True)
class Commit:
    """One log entry of the journal."""

    path: str
    files: tuple[str, ...]
    watermarks: Mapping[str, int]

    def steps(self, state: Durable) -> dict[str, int | None]:
        """Where in the trace each of its parts became durable."""
        steps = {
            f"log entry {self.path} fsynced": state.synced.get(self.path),
            f"log folder of {self.path} fsynced": state.name_durable(self.path),
        }
        for path in self.files:
            steps[f"file {path} fsynced"] = state.synced.get(path)
            steps[f"folder of {path} fsynced"] = state.name_durable(path)
        return steps


def journal_commits(journal: Path) -> list[Commit]:
    """The journal's log entries in order, with the last sequence of each stream after them."""
    commits = []
    for path in sorted((journal / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        marks = info.get("silt", {}).get("watermarks", {})
        files = tuple(str(journal / action["add"]["path"]) for action in actions if "add" in action)
        commits.append(Commit(str(path), files, {name: mark["seq"] for name, mark in marks.items()}))
    return commits


def _note_sync(found: Durable, call: Call) -> None:
    target = _FD.match(call.text)
    assert target is not None, call
    path = target["path"] or ""
    found.synced.setdefault(path, call.returned)
    found.folder_syncs.setdefault(path, []).append((call.began, call.returned))


def _note_open(found: Durable, call: Call, result: re.Match[str], nameless: dict[str, str]) -> None:
    path = result["path"] or ""
    if "O_TMPFILE" in call.text:
        nameless[result["value"]] = path
    elif "O_CREAT" in call.text or call.name == "creat":
        found.named.setdefault(path, call.returned)


def _note_name(found: Durable, call: Call, nameless: dict[str, str]) -> None:
    old, new = list(_NAMES.finditer(call.text))[:2]
    source, target = _resolve(old), _resolve(new)
    if source.startswith("/proc/self/fd/"):
        source = nameless.get(source.rpartition("/")[2], source)
    found.named[target] = call.returned
    if source in found.synced:
        found.synced[target] = found.synced[source]
        # The next nameless file may get the same number.
        del found.synced[source]


def _resolve(name: re.Match[str]) -> str:
    text = name["name"]
    return text if text.startswith("/") else f"{name['folder'] or ''}/{text}"
