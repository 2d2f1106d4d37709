"""Scenarios that play tables: stream configurations, API requests, and consumers' lives."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.integration.differential.api_steps import SESSION, UNANSWERED, Ask
from tests.integration.differential.config_cases import CASES
from tests.integration.differential.consumer_steps import LIVES, Life
from tests.integration.differential.desk import Desk
from tests.integration.differential.random_requests import KINDS
from tests.integration.differential.side import SCENARIOS, Scenario, Side, scenario
from tests.wire import SILENCE_SECONDS

SEEDS = range(4)


@scenario
async def config_cases(side: Side) -> None:
    """The same normalised configuration, or the same error code and text, each case without streams to begin with."""
    for name, steps in CASES.items():
        for number, step in enumerate(steps):
            await side.request(f"$JS.API.STREAM.{step.op}.{step.stream}", step.body, label=f"{number} {name}")
        subjects = [f"$JS.API.STREAM.DELETE.{stream}" for stream in dict.fromkeys(step.stream for step in steps)]
        await side.requests(subjects, label=f"delete the streams of {name}")


@scenario
async def api_session(side: Side) -> None:
    """Every endpoint of streams and messages in one session, and how its requests are counted."""
    counted: list[dict[str, int]] = []
    for number, step in enumerate(SESSION):
        if isinstance(step, Ask):
            headers = [("Nats-Required-Api-Level", step.level)] if step.level is not None else []
            answer = await side.api(
                step.endpoint, step.body, headers=headers, label=f"{number} {step.endpoint} {step.body}"
            )
            counted += [answer["api"]] if "api" in answer else []
        else:
            await side.publish(step.subject, step.data, headers=list((step.headers or {}).items()))
    side.note("counted", [{name: counted[-1][name] - counted[0][name] - side.tries for name in ("total", "errors")}])


@scenario
async def api_unanswered(side: Side) -> None:
    """What nats-server leaves unanswered Silt leaves unanswered; a hub may say that nobody is there."""
    asked = (side.wire.ask(f"$JS.API.{endpoint}", seconds=SILENCE_SECONDS) for endpoint in UNANSWERED)
    replies = await asyncio.gather(*asked)
    answered = [reply is not None and reply.status != "503" for reply in replies]
    side.note("answered", [dict(zip(UNANSWERED, answered, strict=True))])


_VERBS: dict[str, Callable[..., Awaitable[None]]] = {
    "publish": lambda desk, subject, size: desk.publish(subject, "x" * size),
    "pull": lambda desk, to, body: desk.pull(body, to=to),
    "ack": lambda desk, seq, body, to: desk.ack(seq, body, to=to),
    "deafen": Desk.stop_listening,
    "wait": lambda desk, seconds: desk.wait(seconds, slack=0.04),
    "pause": Desk.pause,
    "flow": lambda desk, cseq, seq: desk.flow(
        header=[("Nats-Last-Consumer", f"{cseq}"), ("Nats-Last-Stream", f"{seq}")]
    ),
    "delete": lambda desk, seq: desk.api("STREAM.MSG.DELETE.S", {"seq": seq}),
    "purge": lambda desk, seq: desk.api("STREAM.PURGE.S", {"seq": seq}),
    "reset": lambda desk, seq: desk.api("CONSUMER.RESET.S.C", {"seq": seq} if seq else None),
    "unpin": lambda desk, group: desk.api("CONSUMER.UNPIN.S.C", {"group": group}),
}


def _lived(life: Life) -> Scenario:
    async def steps(side: Side) -> None:
        config = life.config.copy()
        desk = await Desk(side).open(retention=config.pop("retention", "limits"))
        for verb, *args in life.steps:
            await (desk.make(**config) if verb == "create" else _VERBS[verb](desk, *args))

    return steps


def at_random(kind: str, seed: int) -> tuple[str, Scenario]:
    """A scenario of random requests, and a name that says what they are."""
    asks = KINDS[kind](random.Random(seed))

    async def steps(side: Side) -> None:
        for number, ask in enumerate(asks):
            await side.pace.abreast()
            label = f"{number} {ask.subject} {ask.body.decode()[:200]} {ask.header.decode()!r}"
            if ask.many:
                await side.batch(ask.subject.removeprefix("$JS.API.DIRECT.GET."), ask.body, label=label)
            else:
                await side.request(ask.subject, ask.body, raw_header=ask.header, label=label)

    in_memory = any(b'"memory"' in ask.body for ask in asks)
    return f"random_{kind}_{seed}{'_in_memory' if in_memory else ''}", steps


SCENARIOS |= {f"life_{name.replace(' ', '_').replace(',', '')}": _lived(life) for name, life in LIVES.items()}
SCENARIOS |= dict(at_random(kind, seed) for kind in KINDS for seed in SEEDS)
