"""The cutover of a stream: the mirror here takes the place of its origin.

Before clients notice anything, the mirror is compared with its origin, and what left the origin meanwhile leaves the
mirror, too. Then the origin's subjects are parked, so that no publish is acknowledged there any more, its consumers
paused, and when the mirror has the last message it gets the consumers' positions and then the subjects. What fails
before that is undone. What the origin had is noted in the mirror's metadata first, so a cutover that was killed is
begun again.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from api.moving import consumer_positions
from api.moving.moved_config import Json, moved_config, not_followed
from api.moving.origin import NotMoved, Origin
from api.moving.stream_comparison import ComparedSpan, StreamComparison
from api.moving.stream_import import stream_info
from consumers.client.errors import ApiError, JetStreamError, MessageNotFound, RequestError
from delta_store.archive.bad_archive import BadArchive

NOTE: Final = "silt.cutover"
"""Key of the mirror's metadata: what the origin had before the cutover began."""
PAUSE_LEVEL: Final = 1
"""API level of servers that pause consumers."""
_LOOK_SECONDS: Final = 0.005
_STALLED_SECONDS: Final = 30.0
"""How long a mirror may bring nothing before it is given up."""
_GAP_SECONDS: Final = 1.0
"""How long it may bring nothing before it is asked whether there is more."""
_CATCH_UP_SECONDS: Final = 10.0
"""How long clients wait at most for the last messages."""
_REMOVED_AT_ONCE: Final = 256
_ACKS_SECONDS: Final = 1.0
_ACKS_QUIET_SECONDS: Final = 0.25
"""How long acks on their way are waited for at most, and after the last one."""


class CutOver(NamedTuple):
    """A stream that has taken its origin's place."""

    stream: str
    messages: int
    first_seq: int
    last_seq: int
    consumers: int
    removed: int
    """Messages that had left the origin while it was followed."""
    pause_ms: int
    """For how long clients could neither publish nor consume."""


class _Before(NamedTuple):
    """The origin before the cutover."""

    config: Json
    pauses: dict[str, str]
    """Consumers, and until when they were paused; empty for not."""


class Cutover:
    """Cutovers of mirrors at a target."""

    def __init__(self, comparison: StreamComparison, clock: Callable[[], float]) -> None:
        self._comparison = comparison
        self._origin: Origin = comparison.origin
        self._there = comparison.origin.api
        self._here = comparison.target.api
        self._clock = clock

    async def run(self, name: str) -> CutOver:
        """Cut a stream over.

        Raises :class:`NotMoved`, ``BadArchive``, or ``JetStreamError`` or ``OSError`` where a server is away.
        """
        if (done := await self._done(name)) is not None:
            return done
        await self._mirror(name)
        origin = await self._origin.info(name)
        if why := not_followed(origin["config"]):
            raise NotMoved(f"{name} can't be cut over: {why}")
        await self._caught_up(name, origin["state"]["last_seq"])
        removed = await self._align(name)
        before = await self._before(name)
        await self._note(name, before)
        begun = self._clock()
        try:
            removed += await self._stop_origin(name, before)
            final = (await self._origin.info(name))["state"]
            found = await self._origin.positions(name, last_seq=final["last_seq"])
            count = await consumer_positions.put(self._here, name, found, before.pauses)
        except (NotMoved, BadArchive, JetStreamError, OSError):
            await self._undo(name, before)
            raise
        info = await self._promote(name, before)
        pause_ms = int((self._clock() - begun) * 1000)
        return _cut_over(info, count, removed=removed, pause_ms=pause_ms)

    async def _done(self, name: str) -> CutOver | None:
        """Return what a cutover that was killed at its very end has done; None of any other stream."""
        info = await stream_info(self._here, name)
        if info is None or info["config"].get("mirror"):
            return None
        if (await self._origin.info(name))["config"].get("subjects") != [_parked(name)]:
            return None
        return _cut_over(info, info["state"]["consumer_count"], removed=0, pause_ms=0)

    async def _mirror(self, name: str) -> Json:
        """Return a mirror's information. Raises :class:`NotMoved` where it is none."""
        info = await stream_info(self._here, name)
        if info is None:
            raise NotMoved(
                f"there is no stream {name!r} here; silt import --follow {name} makes one that can be cut over"
            )
        if not info["config"].get("mirror"):
            raise NotMoved(f"{name} is no mirror: it stands for itself already")
        return info

    async def _before(self, name: str) -> _Before:
        """Return what the origin has, or had before a cutover that was killed, and has got since."""
        config = (await self._origin.info(name))["config"]
        infos = await consumer_positions.consumer_infos(self._there, name)
        pauses = {one["name"]: one["config"].get("pause_until", "") for one in infos}
        noted = ((await self._mirror(name))["config"].get("metadata") or {}).get(NOTE)
        told = json.loads(noted) if noted else {"subjects": config.get("subjects"), "pauses": {}}
        return _Before(config | {"subjects": told["subjects"]}, pauses | told["pauses"])

    async def _caught_up(self, name: str, seq: int, *, within: float | None = None) -> None:
        """Wait until the mirror has a sequence. Raises :class:`NotMoved` where it stands still."""
        begun = moved = asked = self._clock()
        last = -1
        while (info := await self._mirror(name))["state"]["last_seq"] < seq:
            now = self._clock()
            if info["state"]["last_seq"] > last:
                last, moved = info["state"]["last_seq"], now
            if now > max(moved, asked) + _GAP_SECONDS:
                asked = now
                if not await self._origin.has_more(name, last):
                    raise NotMoved(
                        f"{name} has all messages, but the origin's last sequences ({last + 1:,} to {seq:,}) are those "
                        "of deleted ones, of which no mirror hears: publish one more message there, and try again"
                    )
            if now > moved + _STALLED_SECONDS or (within is not None and now > begun + within):
                error = (info.get("mirror") or {}).get("error", {}).get("description", "")
                raise NotMoved(
                    f"{name} stands at {last:,} of {seq:,}{': ' + error if error else ''}; "
                    "is silt import --follow still running, or the origin's server cut off from Silt's hub?"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _align(self, name: str) -> int:
        """Compare with the origin and remove what it has lost meanwhile; return how many messages these were."""
        first_seq = (await self._origin.info(name))["state"]["first_seq"]
        removed = 0
        if first_seq > (await self._mirror(name))["state"]["first_seq"]:
            cut = {"seq": first_seq, "silt_no_erase": True}
            removed = (await self._here.call(f"STREAM.PURGE.{name}", cut))["purged"]
        state = (await self._mirror(name))["state"]
        span = ComparedSpan(name, state["last_seq"], state["messages"], mirrored=True)
        _, difference = await self._comparison.of(span)
        if difference:
            raise NotMoved(
                f"{name} differs from its origin: of the messages up to {span.upto:,} there are {difference}; "
                f"nats stream rm {name} here, and follow it anew"
            )
        for start in range(0, len(difference.surplus), _REMOVED_AT_ONCE):
            seqs = difference.surplus[start : start + _REMOVED_AT_ONCE]
            removed += sum(await asyncio.gather(*(self._removed(name, seq) for seq in seqs)))
        return removed

    async def _removed(self, name: str, seq: int) -> bool:
        """Remove a message; return whether it was there: a limit may have removed it here, too."""
        with suppress(MessageNotFound):
            await self._here.call(f"STREAM.MSG.DELETE.{name}", {"seq": seq, "no_erase": True})
            return True
        return False

    async def _note(self, name: str, before: _Before) -> None:
        noted = json.dumps({"subjects": before.config.get("subjects") or [], "pauses": before.pauses})
        config = (await self._mirror(name))["config"]
        config["metadata"] = (config.get("metadata") or {}) | {NOTE: noted}
        await self._here.call(f"STREAM.UPDATE.{name}", config)

    async def _stop_origin(self, name: str, before: _Before) -> int:
        """Let nothing happen at the origin, and have all of it here; return how many more messages had left it."""
        await self._there.call(f"STREAM.UPDATE.{name}", before.config | {"subjects": [_parked(name)]})
        if self._origin.level >= PAUSE_LEVEL:
            await consumer_positions.pause(self._there, name, dict.fromkeys(before.pauses, consumer_positions.FOREVER))
        final = (await self._origin.info(name))["state"]
        await self._caught_up(name, final["last_seq"], within=_CATCH_UP_SECONDS)
        await self._acks_arrived(name)
        here = (await self._mirror(name))["state"]
        same = all(here[key] == final[key] for key in ("messages", "first_seq", "last_seq"))
        return 0 if same else await self._align(name)

    async def _acks_arrived(self, name: str) -> None:
        """Wait for acks on their way: until none is owed, or none has come for a while."""
        begun = moved = self._clock()
        last: list[int] = []
        while (now := self._clock()) < min(begun + _ACKS_SECONDS, moved + _ACKS_QUIET_SECONDS):
            infos = await consumer_positions.consumer_infos(self._there, name)
            owed = [one.get("num_ack_pending", 0) for one in infos]
            if not any(owed):
                return
            if owed != last:
                last, moved = owed, now
            await asyncio.sleep(_LOOK_SECONDS)

    async def _promote(self, name: str, before: _Before) -> dict[str, Any]:
        """Give the mirror what the origin had; what happened where no answer comes is not guessed."""
        try:
            return await self._here.call(f"STREAM.UPDATE.{name}", moved_config(before.config))
        except RequestError as error:
            raise NotMoved(
                f"whether {name} has taken its origin's place is not known ({error}), and the origin is stopped: "
                f"say silt cutover {name} again, which finds out"
            ) from None
        except ApiError as refused:
            await self._undo(name, before)
            raise NotMoved(f"{name} can't take its origin's place: {refused}; the origin goes on as before") from None

    async def _undo(self, name: str, before: _Before) -> None:
        """Give the origin back what it had."""
        await self._there.call(f"STREAM.UPDATE.{name}", before.config)
        if self._origin.level >= PAUSE_LEVEL:
            await consumer_positions.pause(self._there, name, before.pauses)
        with suppress(JetStreamError, NotMoved):
            config = (await self._mirror(name))["config"]
            config["metadata"].pop(NOTE, None)
            await self._here.call(f"STREAM.UPDATE.{name}", config)


def _parked(name: str) -> str:
    """Return the subject that an origin has in place of its own."""
    return f"silt.cutover.{name}"


def _cut_over(info: Json, consumers: int, *, removed: int, pause_ms: int) -> CutOver:
    state = info["state"]
    counts = state["messages"], state["first_seq"], state["last_seq"]
    return CutOver(info["config"]["name"], *counts, consumers, removed, pause_ms)
