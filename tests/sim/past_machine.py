"""Random histories with cuts, branches, rewinds and undeletes against a plain model.

``python -m tests.sim.past_machine`` lives through some of them. After each step every stream has the model's messages,
now and at some of its points, by NATS and by SQL.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.sim.past_model import Held, Limits, Model, Stood
from tests.sim.past_replays import Replays
from tests.sim.past_world import PastWorld
from tests.sql_answers import engine_on, rows_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STREAMS_MAX = 5
_SUBJECTS = 4
_CUTS_MAX = 6
_HORIZON = "horizon"
_VACUUMED = (_HORIZON, "is gone", "b'410")
"""What the surfaces say of points whose files vacuum has deleted."""
_LIVE = "SELECT 'live' AS what, seq, subject, data FROM \"{}\""
_THEN = " UNION ALL SELECT 'then', seq, subject, data FROM as_of($1, $2)"


class PastMachine:
    """One seed."""

    def __init__(self, root: Path, seed: int, steps: int) -> None:
        self._dice = dice = random.Random(seed)
        self._steps = steps
        self._short = dice.random() < 0.3
        """Whether vacuum leaves nothing of the past."""
        self._world = PastWorld(root, dice, horizon_seconds=0.0 if self._short else 86_400.0)
        self._models: dict[str, Model] = {}
        self._cuts: dict[str, dict[str, Stood]] = {}
        """How each stream stood at each cut."""
        self._engine = engine_on(root, clock=self._world.clock)
        self._born = 0
        self.counts: Counter[str] = Counter()
        self._replays = Replays(self._world, dice, self.counts, short=self._short)

    def run(self) -> None:
        """Live through all steps."""
        self._world.run(self._live())

    async def _live(self) -> None:
        self._world.begin()
        await self._create()
        for _ in range(self._steps):
            step = self._dice.choices(list(_STEPS), weights=list(_STEPS.values()))[0]
            self.counts[step.__name__] += 1
            await step(self)
            await asyncio.sleep(0.001)
            now_ns = self._world.clock.now_ns() // 1_000 * 1_000
            for model in self._models.values():
                model.at_time[now_ns] = model.stands
            await asyncio.sleep(0.001)
            await self._check(step.__name__)

    # --- steps ---

    async def _create(self) -> None:
        limits = self._limits()
        name = self._name()
        await self._asked(f"STREAM.CREATE.{name}", self._config(name, limits))
        self._models[name] = Model(name, limits)

    async def _publish(self) -> None:
        model = self._any()
        for _ in range(self._dice.choice((1, 3, 9))):
            subject, data = f"{model.name}.{self._dice.randrange(_SUBJECTS)}", b"%d" % self._dice.randrange(10**9)
            assert await self._world.publish(subject, data) == model.last + 1
            model.publish(subject, data)

    async def _delete(self) -> None:
        model = self._any()
        if model.live:
            seq, no_erase = self._dice.choice(model.live), self._dice.random() < 0.7
            await self._asked(f"STREAM.MSG.DELETE.{model.name}", {"seq": seq, "no_erase": no_erase})
            model.remove([seq], erase=not no_erase)

    async def _purge(self) -> None:
        model = self._any()
        keep = self._dice.choice((1, 3))
        await self._asked(f"STREAM.PURGE.{model.name}", {"keep": keep})
        model.remove(model.live[:-keep], erase=True)

    async def _limit(self) -> None:
        model, limits = self._any(), self._limits()
        await self._asked(f"STREAM.UPDATE.{model.name}", self._config(model.name, limits))
        model.limit(limits)

    async def _cut(self) -> None:
        name = f"C{self.counts['_cut']}"
        await self._asked(f"CUT.CREATE.{name}")
        self._cuts[name] = {model.name: model.stands for model in self._models.values()}
        if len(self._cuts) > _CUTS_MAX:
            gone = self._dice.choice(sorted(self._cuts))
            await self._asked(f"CUT.DELETE.{gone}")
            del self._cuts[gone]
        told = (await self._asked("CUT.LIST"))["cuts"]
        assert [one["name"] for one in told] == list(self._cuts)

    async def _branch(self) -> None:
        verb, body, branch = await self._branching()
        if await self._done(verb, body):
            self._models[branch.name] = branch

    async def _branch_by_files(self) -> None:
        """What is settled is taken from the origin's files, while the origin goes on."""
        self._world.settle()
        before = self._world.tables.based
        async with self._world.settling():
            await self._branch()
        self.counts["files"] += self._world.tables.based - before

    async def _rewind(self) -> None:
        model = self._any()
        point, then = self._point(model)
        if await self._done(f"STREAM.REWIND.{model.name}", {"silt_as_of": point}):
            model.rewind(then)

    async def _undelete(self) -> None:
        model = self._any()
        point, then = self._point(model)
        own = sorted({model.ever[seq][0] for seq in model.of(then)})
        if own:
            subject = self._dice.choice(own)
            if await self._done(f"STREAM.UNDELETE.{model.name}", {"silt_as_of": point, "filter": subject}):
                self.counts["undeleted"] += model.undelete(then, subject)

    async def _replay(self) -> None:
        model = self._any()
        await self._replays.begin(model, *self._point(model))

    async def _drop(self) -> None:
        name = self._dice.choice(sorted(self._models))
        await self._asked(f"STREAM.DELETE.{name}")
        del self._models[name]
        if not self._models:
            await self._create()

    async def _settle(self) -> None:
        self._world.settle()
        await asyncio.sleep(self._dice.choice((0.0, 0.4)))

    async def _clean(self) -> None:
        tables = self._world.tables
        self._world.settle()
        tables.apply_limits()
        if self._dice.random() < 0.5:
            tables.compact()
        tables.owner.vacuum()

    async def _restart(self) -> None:
        await (self._world.stop() if self._dice.random() < 0.5 else self._world.kill())
        self._world.begin()

    async def _kill_a_branch(self) -> None:
        """What was on its way is whole or not there."""
        verb, body, branch = await self._branching()
        async with AsyncExitStack() as stack:
            if by_files := self._dice.random() < 0.5:
                self._world.settle()
                await stack.enter_async_context(self._world.settling())
            request = asyncio.ensure_future(self._world.ask(verb, body))
            await asyncio.sleep(self._dice.choice((0.0, 0.001, 0.004, 0.02, *((0.1, 0.3, 0.6) if by_files else ()))))
            await self._world.kill()
        request.cancel()
        self._world.begin()
        if branch.name in ((await self._asked("STREAM.NAMES"))["streams"] or []):
            self._models[branch.name] = branch
            self.counts["branched in spite of a kill"] += 1

    # --- what they are made of ---

    async def _branching(self) -> tuple[str, dict[str, Any], Model]:
        """A request for a branch (verb and body), and the stream that it makes."""
        if len(self._models) == _STREAMS_MAX:
            await self._drop()
        model = self._any()
        point, then = self._point(model)
        name = self._name()
        body = {"name": name, "silt_as_of": point, "config": self._config(name, None)}
        return f"STREAM.BRANCH.{model.name}", body, model.branch(name, then)

    def _any(self) -> Model:
        return self._models[self._dice.choice(sorted(self._models))]

    def _name(self) -> str:
        self._born += 1
        return f"S{self._born}"

    def _limits(self) -> Limits:
        return Limits(self._dice.choice((-1, -1, 12)), self._dice.choice((-1, -1, 1, 2)))

    def _config(self, name: str, limits: Limits | None) -> dict[str, Any]:
        said: dict[str, Any] = {"name": name, "subjects": [f"{name}.*"], "allow_direct": True}
        if limits is not None:
            said |= {"max_msgs": limits.max_msgs, "max_msgs_per_subject": limits.per_subject}
        return said

    def _point(self, model: Model) -> tuple[str, Stood]:
        """A point as text, and how the stream stood then."""
        cuts = [name for name, stood in self._cuts.items() if model.name in stood and stood[model.name].last]
        if cuts and self._dice.random() < 0.4:
            name = self._dice.choice(cuts)
            return f"cut:{name}", self._cuts[name][model.name]
        times = [time for time, then in model.at_time.items() if then.last]
        if times and self._dice.random() < 0.4:
            time = self._dice.choice(times)
            return (_EPOCH + timedelta(microseconds=time // 1_000)).isoformat(), model.at_time[time]
        if not model.last:
            return "", model.stands
        seq = self._dice.randrange(1, model.last + 1)
        return str(seq), model.at(seq)

    async def _asked(self, verb: str, body: Any = None) -> dict[str, Any]:
        answer = await self._world.ask(verb, body)
        assert "error" not in answer, (verb, body, answer["error"])
        return answer

    async def _done(self, verb: str, body: dict[str, Any]) -> bool:
        """Whether it was done; it may be refused for what vacuum has taken."""
        if not body["silt_as_of"]:
            return False
        answer = await self._world.ask(verb, body)
        if "error" in answer:
            said = answer["error"]["description"]
            assert self._short, (verb, body, said)
            assert _HORIZON in said, (verb, body, said)
            self.counts["past the horizon"] += 1
        return "error" not in answer

    # --- comparison ---

    async def _check(self, step: str) -> None:
        """Compare all streams by NATS, consumers of their pasts too; one, now and at a point, by SQL as well."""
        await self._replays.go_on(self._models)
        for model in self._models.values():
            heard = await self._world.read(model.name, {"seq": 1, "next_by_subj": ">", "batch": 1_000})
            assert heard == model.held(model.stands), (step, model.name)
        if self._cuts:
            await self._check_cut(self._dice.choice(sorted(self._cuts)), step)
        model = self._any()
        point, then = self._point(model)
        live, where = model.held(model.stands), (step, model.name, point)
        if not point:
            assert self._by_sql(_LIVE.format(model.name)).get("live", []) == live, where
            return
        try:
            await self._check_past(model, point, then, where)
        except Exception as error:
            if not self._short or not any(word in str(error) for word in _VACUUMED):
                raise
            self.counts["past the horizon"] += 1
            assert self._by_sql(_LIVE.format(model.name)).get("live", []) == live, where

    async def _check_cut(self, cut: str, step: str) -> None:
        """Compare all streams as of a cut, also those that were not there yet."""
        for model in self._models.values():
            body = {"seq": 1, "next_by_subj": ">", "batch": 1_000, "silt_as_of": f"cut:{cut}"}
            then = self._cuts[cut].get(model.name)
            try:
                heard = await self._world.read(model.name, body)
            except AssertionError as error:
                if not self._short or not any(word in str(error) for word in _VACUUMED):
                    raise
                self.counts["past the horizon"] += 1
            else:
                assert heard == (model.held(then) if then else []), (step, model.name, cut)

    async def _check_past(self, model: Model, point: str, then: Stood, where: tuple[str, ...]) -> None:
        """Compare a stream, now and at a point."""
        held = model.held(then)
        asked, parameter = _asked_for(point)
        found = self._by_sql(_LIVE.format(model.name) + _THEN, model.name, parameter)
        assert found.get("live", []) == model.held(model.stands), where
        assert found.get("then", []) == held, where
        last = {subject: (seq, subject, data) for seq, subject, data in held}
        heard = await self._world.read(model.name, {"multi_last": [">"], **asked})
        assert heard == sorted(last.values()), where

    def _by_sql(self, text: str, *parameters: Any) -> dict[str, list[Held]]:
        found: dict[str, list[Held]] = {}
        for row in rows_of(self._engine, text, *parameters):
            found.setdefault(row["what"], []).append((row["seq"], row["subject"], row["data"]))
        return {what: sorted(rows) for what, rows in found.items()}


def _asked_for(point: str) -> tuple[dict[str, Any], Any]:
    """A point as a field of a Direct Get, and as a parameter of SQL."""
    if point.startswith("cut:"):
        return {"silt_as_of": point}, point
    if point.isdecimal():
        return {"up_to_seq": int(point)}, int(point)
    return {"up_to_time": point}, datetime.fromisoformat(point)


_STEPS: dict[Callable[[PastMachine], Any], int] = {
    PastMachine._publish: 30,
    PastMachine._delete: 10,
    PastMachine._purge: 3,
    PastMachine._limit: 5,
    PastMachine._cut: 8,
    PastMachine._branch: 6,
    PastMachine._branch_by_files: 5,
    PastMachine._rewind: 10,
    PastMachine._undelete: 8,
    PastMachine._replay: 12,
    PastMachine._drop: 1,
    PastMachine._settle: 12,
    PastMachine._clean: 5,
    PastMachine._restart: 4,
    PastMachine._kill_a_branch: 4,
}


def simulate(seed: int, steps: int) -> Counter[str]:
    """Live through one seed; return what happened how often."""
    with tempfile.TemporaryDirectory(prefix="silt-past-") as root:
        machine = PastMachine(Path(root), seed, steps)
        machine.run()
        return machine.counts


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--steps", type=int, default=60, help="of each")
    chosen = parser.parse_args()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        sys.stdout.write(f"seed {seed}: {dict(simulate(seed, chosen.steps))}\n")


if __name__ == "__main__":
    main()
