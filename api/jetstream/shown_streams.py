"""The streams that a reply of the API shows, judged by the request's subject. Pure."""

from collections.abc import Collection
from typing import Final

from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import links_of

_ALL: Final = frozenset({"INFO", "STREAM.NAMES", "STREAM.LIST", "CUT.LIST"})


def shows_any(catalog: Catalog, path: bytes, names: Collection[str]) -> bool:
    """Whether the reply to a request may show any of the streams ``names``; True when in doubt.

    ``path`` is the request's subject behind ``$JS.API.``.
    """
    text = path.decode(errors="replace")
    if not names or text in _ALL:
        return bool(names)
    tokens = text.split(".")
    asked = (catalog.streams[token] for token in tokens if token in catalog.streams)
    origins = {link.source.name for state in asked for link in links_of(state)}
    return not origins.union(tokens).isdisjoint(names)
