"""Kill servers at random while clients of nats.go consume, publish and reconnect, and judge what they saw.

Run alone: ``python -m tests.faults.go_rounds --rounds 20 [--seed N] [--server silt|nats-server|up]``; without a server
the same rounds are run on nats-server and on Silt. A summary of each is printed; status 1 when something is wrong with
Silt.
"""

import argparse
import itertools
import json
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.go_history import DURABLES, Findings, Kill, judge
from tests.faults.killable import KINDS, Killable, killable
from tests.servers import wait_until
from tests.tools import GO_KILLS, go_program

_ALIVE_SECONDS = (0.5, 5.0)
_LONG_SECONDS = 12.0
_LONG_SHARE = 0.15
_DOWN_SECONDS = (0.0, 1.5)
_FINISH_SECONDS = 100.0
"""A client that waits for two heartbeats that don't come is among those that are waited for."""
_QUIET_SECONDS = 8.0


class Clients:
    """The running program and the lines that it wrote."""

    def __init__(self, program: Path, url: str, pause: str, folder: Path) -> None:
        self._seen = folder / "seen.ndjson"
        with self._seen.open("wb") as out, (folder / "clients.log").open("wb") as errors:
            self._process = subprocess.Popen([program, url, pause], stdin=subprocess.PIPE, stdout=out, stderr=errors)

    def lines(self) -> list[dict[str, Any]]:
        """All that was seen so far."""
        return [json.loads(text) for text in self._seen.read_text().split("\n")[:-1]]

    def order(self) -> None:
        """End the publishing, or then everything."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def is_ready(self) -> bool:
        """Whether all clients are at work."""
        assert self._process.poll() is None, "the clients ended early, see clients.log"
        return any(one["event"] == "ready" for one in self.lines())

    def has_all(self) -> bool:
        """Whether the durable consumers got all that was acknowledged."""
        lines = self.lines()
        wanted = {one["seq"] for one in lines if one["event"] == "published"}
        return all(
            wanted <= {one["seq"] for one in lines if one["event"] == "came" and one["name"] == name}
            for name in DURABLES
        )

    def end(self) -> None:
        """Kill them if they still run."""
        self._process.kill()
        self._process.wait(10)


@contextmanager
def _clients(url: str, folder: Path, pause: str) -> Iterator[Clients]:
    clients = Clients(go_program(GO_KILLS), url, pause, folder)
    try:
        wait_until(clients.is_ready, what="the clients are at work")
        yield clients
    finally:
        clients.end()


def rounds(kind: str, folder: Path, *, number: int, seed: int, pause: str = "10ms") -> Findings:
    """Kill ``number`` times in ``folder``; the same seed gives the same kills and pauses."""
    rng = random.Random(seed)
    kills: list[Kill] = []
    with killable(kind, folder) as server, _clients(server.url, folder, pause) as clients:
        for _ in range(number):
            long = rng.random() < _LONG_SHARE
            time.sleep(_LONG_SECONDS if long else rng.uniform(*_ALIVE_SECONDS))
            kills.append(_kill(server, rng))
        clients.order()
        late: list[str] = []
        try:
            wait_until(clients.has_all, what="the durable consumers got everything", seconds=_FINISH_SECONDS)
        except RuntimeError as error:
            late.append(str(error))
        time.sleep(_QUIET_SECONDS)
        lines = clients.lines()
    (folder / "kills.json").write_text(json.dumps([[kill.what, kill.at, kill.back] for kill in kills]))
    found = judge(lines, kills)
    found.problems += late
    return found


def _kill(server: Killable, rng: random.Random) -> Kill:
    groups = [group for size in (1, 2) for group in itertools.combinations(server.parts, size)]
    what, down = rng.choice(groups), rng.uniform(*_DOWN_SECONDS)
    at = time.time_ns() // 1_000_000
    server.kill(*what)
    time.sleep(down)
    server.come_back()
    return Kill(what, at, time.time_ns() // 1_000_000)


def main() -> int:
    """Run from the command line; status 1 when an invariant did not hold on Silt."""
    parser = argparse.ArgumentParser(description="Kill servers while clients of nats.go work.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--server", choices=sorted(KINDS))
    parser.add_argument("--pause", default="10ms", help="between two publishes")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="silt-go-kills-"))
    sys.stdout.write(f"seed {options.seed}, {folder}\n")
    wrong = 0
    for kind in [options.server] if options.server else ["nats-server", "silt"]:
        found = rounds(kind, folder / kind, number=options.rounds, seed=options.seed, pause=options.pause)
        sys.stdout.write(f"--- {kind}\n{found.table()}\n")
        wrong += kind != "nats-server" and len(found.problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
