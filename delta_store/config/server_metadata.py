"""A configuration's ``metadata`` and the server's own keys in it. Pure.

The API level that the configuration needs is recorded with it; the server's version and level are added by replies.
"""

from collections.abc import Mapping
from typing import Final

from conf.limits import API_LEVEL

SERVER_VERSION: Final = "2.15.1"
"""The nats-server release whose API this is."""
_NEEDED: Final = "_nats.req.level"
_DYNAMIC: Final = {"_nats.ver": SERVER_VERSION, "_nats.level": str(API_LEVEL)}


def recorded(metadata: Mapping[str, str], level: int) -> dict[str, str]:
    """Return the metadata to record: without what replies add, with the API level that is needed."""
    return {key: value for key, value in metadata.items() if key not in _DYNAMIC} | {_NEEDED: str(level)}


def shown(metadata: Mapping[str, str], *, dynamic: bool = True) -> dict[str, str]:
    """Return the metadata as in replies; ``dynamic`` adds the server's version and level."""
    return dict(sorted({**metadata, **(_DYNAMIC if dynamic else {})}.items()))


def own(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what is not the server's."""
    return {key: value for key, value in metadata.items() if key not in (*_DYNAMIC, _NEEDED)}


def size(metadata: Mapping[str, str]) -> int:
    """Return the bytes of keys and values."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())
