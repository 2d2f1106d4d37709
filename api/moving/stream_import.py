"""The import of one stream: copied whole where it is absent, and in any case compared with its origin.

What there is needs no record of its own: a stream that is there is compared, one that is not is copied. So an import
that was cut off is simply begun again; a Silt that it was to goes on behind the messages that it has already.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from api.moving.moved_config import Json, moved_config
from api.moving.origin import NotMoved
from api.moving.range_checksums import RangeChecksums
from api.moving.stream_arrival import Arrival, store
from api.moving.stream_comparison import ComparedSpan, StreamComparison, as_mirrored
from consumers.client.api_call import Api
from consumers.client.errors import ApiError, StreamNotFound
from delta_store.values.stream_message import MessageRun

_NAME_TAKEN: Final = 10130
_RESTORE_ENDS_SECONDS: Final = 20.0
"""How long a server may take to give up a restore whose sender is gone."""


class Imported(NamedTuple):
    """What became of a stream."""

    stream: str
    outcome: str
    """``imported``, ``resumed`` where an earlier import was gone on with, ``there`` where it was there before."""
    messages: int
    first_seq: int
    last_seq: int
    consumers: int
    ranges: int
    """Ranges of sequences whose checksums were compared with the origin's."""
    behind: int
    """Sequences that the origin has gone on by meanwhile."""


class _Copied(NamedTuple):
    """A stream that was copied."""

    info: Json
    sums: RangeChecksums
    """Of what was read at its origin."""
    behind: int
    """The sequence up to which it was there already."""


class StreamImport:
    """Imports of streams from one server to another."""

    def __init__(self, comparison: StreamComparison, configured: Callable[[Json], Json] = moved_config) -> None:
        """``configured`` makes a stream's configuration of the origin's."""
        self._comparison = comparison
        self._origin = comparison.origin
        self._target = comparison.target
        self._configured = configured

    async def run(self, name: str) -> Imported:
        """Import a stream. Raises :class:`NotMoved`, ``JetStreamError`` or ``BadArchive``."""
        there, sums = await stream_info(self._target.api, name), None
        outcome = "there"
        if there is None:
            copied = await self._copy(name)
            there, sums, outcome = copied.info, copied.sums, "resumed" if copied.behind else "imported"
        state = there["state"]
        span = ComparedSpan(name, state["last_seq"], state["messages"], bool(there["config"].get("mirror")))
        ranges, difference = await self._comparison.of(span, sums)
        if difference:
            raise NotMoved(
                f"{name} differs from its origin: of the messages up to {span.upto:,} there are {difference}; if "
                f"something else made it, move that away; else nats stream rm {name} here, and import it again"
            )
        now = await self._origin.info(name)
        behind = max(0, now["state"]["last_seq"] - state["last_seq"])
        counts = state["messages"], state["first_seq"], state["last_seq"], state["consumer_count"]
        return Imported(name, outcome, *counts, ranges, behind)

    async def _copy(self, name: str) -> _Copied:
        """Copy a stream."""
        # Another stream of the same name is not gone on with.
        word = (await self._origin.info(name))["created"]
        deadline = asyncio.get_running_loop().time() + _RESTORE_ENDS_SECONDS
        while True:
            try:
                return await self._copy_once(name, word)
            except ApiError as refused:
                if refused.err_code != _NAME_TAKEN or asyncio.get_running_loop().time() > deadline:
                    raise NotMoved(f"{name} is refused: {refused}") from None
            await asyncio.sleep(1)

    async def _copy_once(self, name: str, word: str) -> _Copied:
        sums = RangeChecksums()
        async with self._origin.read(name) as reading:
            config = self._configured(reading.config)
            with self._comparison.steps(f"{name} copied", reading.state.messages) as done:

                def seen(run: MessageRun) -> None:
                    sums.add(as_mirrored(run) if config.get("mirror") else run)
                    done(sums.messages)

                info, behind = await store(self._target.api, reading, Arrival(config, word, seen))
        return _Copied(info, sums, behind)


async def stream_info(api: Api, name: str) -> dict[str, Any] | None:
    """Return a stream's information, None where there is none."""
    try:
        return await api.call(f"STREAM.INFO.{name}")
    except StreamNotFound:
        return None
