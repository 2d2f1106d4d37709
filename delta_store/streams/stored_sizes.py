"""Stored sizes of many messages: :func:`delta_store.values.records.stored_size` column by column."""

from collections.abc import Sequence

import numpy as np

from delta_store.index.segments import Ints
from delta_store.values.records import HEADERS_OVERHEAD, MESSAGE_OVERHEAD


def stored_sizes(subjects: Sequence[str], headers: Sequence[bytes | None] | None, data: Sequence[bytes]) -> Ints:
    """Return the stored size of each message (equal lengths); ``headers`` is None when no message has any."""
    number = len(subjects)
    sizes = np.fromiter(map(len, data), np.int64, number) + MESSAGE_OVERHEAD
    if headers is not None:
        sizes += np.array([len(header) + HEADERS_OVERHEAD if header else 0 for header in headers], np.int64)
    encoded = subjects if "".join(subjects).isascii() else [subject.encode() for subject in subjects]
    sizes += np.fromiter(map(len, encoded), np.int64, number)
    return sizes
