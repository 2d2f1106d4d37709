"""The layout of ``messages``: which streams have a partition for each subject, and which share buckets. Pure.

Messages of small batches wait in ``$recent``. A stream starts with a partition for each subject and turns to buckets
for good once it has had more subjects than ``SUBJECT_PARTITIONS_EXACT_MAX``, so that a key-value bucket never floods
the table with folders. A layout hint only: readers go by file statistics, so a change needs no rewrite.
"""

import re
from collections.abc import Iterable, Mapping
from zlib import crc32

from conf.limits import SUBJECT_BUCKETS, SUBJECT_PARTITIONS_EXACT_MAX
from delta_store.values.schemas import CONSUMERS_PARTITION, EVENTS_PARTITION, RECENT_PARTITION

SUBJECT_HASHES = 1024
"""Number of hash values by which subjects are counted: bounds the memory for a stream."""
UNSPREAD = frozenset((CONSUMERS_PARTITION, EVENTS_PARTITION, RECENT_PARTITION))
"""Partitions that are no subject's."""
_BUCKET = re.compile(r"b\d\d")
_FOLDER_SAFE_SUBJECT = re.compile(r"[A-Za-z0-9_.$=-]{1,128}")
"""Subjects that may be a folder's name unchanged; others share the buckets."""


def subject_hash(subject: str) -> int:
    """Return the hash by which a subject is counted."""
    return crc32(subject.encode()) % SUBJECT_HASHES


def subject_folder(subject: str, *, exact: bool) -> str:
    """Return the partition of a subject's messages: the subject itself where the stream has few, else a bucket."""
    if exact and _FOLDER_SAFE_SUBJECT.fullmatch(subject) and subject not in UNSPREAD:
        return subject
    return f"b{crc32(subject.encode()) % SUBJECT_BUCKETS:02d}"


class FolderLayout:
    """The layout of all streams; lost with the process and rebuilt from the folders that exist."""

    def __init__(self, folders: Mapping[str, Iterable[str]]) -> None:
        """Start from ``folders``: the subject partitions that the table has of each stream."""
        self._seen: dict[str, set[int]] = {}
        self._bucketed: set[str] = set()
        for stream, partitions in folders.items():
            names = set(partitions) - UNSPREAD
            if any(_BUCKET.fullmatch(name) for name in names):
                self._bucketed.add(stream)
            else:
                self.admit(stream, {subject_hash(name) for name in names})

    def admit(self, stream: str, hashes: Iterable[int]) -> None:
        """Count the subjects, by hash, of a batch that is about to be settled."""
        if stream in self._bucketed:
            return
        seen = self._seen.setdefault(stream, set())
        seen.update(hashes)
        if len(seen) > SUBJECT_PARTITIONS_EXACT_MAX:
            del self._seen[stream]
            self._bucketed.add(stream)

    @property
    def bucketed(self) -> frozenset[str]:
        """The streams that share buckets."""
        return frozenset(self._bucketed)
