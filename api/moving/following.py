"""Streams that follow their origin as mirrors, until they are cut over."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from hashlib import blake2b
from typing import Final

from api.moving.moved_config import OriginPrefixes, not_followed
from api.moving.origin import NotMoved, Origin
from api.moving.relay import RelayPrefix
from api.moving.stream_import import stream_info
from consumers.client.api_call import Api
from consumers.client.errors import JetStreamError

_ASK_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 2.0


async def check(origin: Origin, target: Api, names: Sequence[str]) -> None:
    """Raise :class:`NotMoved` where a stream can't be followed, before any is copied."""
    for name in names:
        if why := not_followed((await origin.info(name))["config"]):
            raise NotMoved(f"{name} can't be followed: {why}; import it without --follow, its clients stopped")
        there = await stream_info(target, name)
        if there is not None and not there["config"].get("mirror"):
            raise NotMoved(f"{name} is here already and stands for itself: nats stream rm {name} here, to follow it")


async def way_by_hub(origin: Origin, target: Api, name: str, *, domain: str) -> OriginPrefixes | None:
    """Return by what subjects the target's hub reaches the origin's JetStream; None where it does not."""
    if not domain:
        return None
    prefix = f"$JS.{domain}.API"
    try:
        seen = await Api(target.client, prefix=prefix, timeout=_ASK_SECONDS).call(f"STREAM.INFO.{name}")
    except JetStreamError:
        return None
    return OriginPrefixes(prefix) if seen["created"] == (await origin.info(name))["created"] else None


def way_by_relay(address: str, api_prefix: str) -> RelayPrefix:
    """Return the subjects of a relay to an origin."""
    return RelayPrefix(blake2b(f"{address} {api_prefix}".encode(), digest_size=5).hexdigest())


async def stay(
    here: Callable[[], AbstractAsyncContextManager[Api]], names: Sequence[str], tell: Callable[[str], None]
) -> None:
    """Stay until all are cut over or deleted; tell when one is up to date for the first time, and when it is no mirror.

    ``here`` connects anew for each look, so that either server may go and come back.
    """
    left, new = set(names), set(names)
    while left:
        await asyncio.sleep(_LOOK_SECONDS)
        with suppress(JetStreamError, OSError):
            async with here() as api:
                for name in sorted(left):
                    info = await stream_info(api, name)
                    mirror = (info or {}).get("mirror")
                    if info is None or mirror is None:
                        left.discard(name)
                        tell(f"{name} is followed no more: " + ("it stands for itself" if info else "it is deleted"))
                    elif name in new and not mirror["lag"] and mirror["active"] >= 0:
                        new.discard(name)
                        tell(f"{name} is up to date with its origin, and follows it")
