"""What an archive holds, of either kind."""

import json
from typing import Any, Final, NamedTuple

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun
from delta_store.archive.sequence_set import Sequences, SequenceSet

METADATA_BYTES_MAX: Final = 64 * 1024 * 1024
"""Most bytes of what is no message."""


class ArchivedState(NamedTuple):
    """The bounds of an archived stream."""

    first_seq: int
    last_seq: int
    messages: int
    consumers: int


class ArchivedConsumer(NamedTuple):
    """A consumer's entry."""

    name: str
    content: bytes


class ArchivedDeleted(NamedTuple):
    """Messages that came before and are deleted, or were gone already."""

    seqs: Sequences


class ArchivedEnd(NamedTuple):
    """What stands behind the messages of an archive that holds deleted ones as well."""

    messages: int | None
    """How many are left; None where that is not told."""
    first_seq: int
    """Those below are deleted."""
    last_seq: int
    deleted: SequenceSet
    """Others that are deleted, whether they came or not."""


Item = ArchivedState | ArchivedConsumer | EntryRun | ArchivedDeleted | ArchivedEnd
"""What an archive holds: one state, then its consumers and messages, or messages, their end and consumers."""


def read_object(content: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object. Raises :class:`BadArchive`, whose text begins with ``what``."""
    try:
        shown = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadArchive(f"{what}: {error}") from None
    if not isinstance(shown, dict):
        raise BadArchive(f"{what}: it is no object")
    return shown
