"""The layout of ``messages``: which streams have a partition for each subject, and which share buckets. Pure.

A stream starts with a partition for each subject and turns to buckets for good once it has had more subjects than
``SUBJECT_PARTITIONS_EXACT_MAX``, so that a key-value bucket never floods the table with folders. A layout hint only:
readers go by file statistics, so a change needs no rewrite.
"""

import re
from collections.abc import Iterable, Mapping
from zlib import crc32

from conf.limits import SUBJECT_PARTITIONS_EXACT_MAX

SUBJECT_HASHES = 1024
"""Number of hash values by which subjects are counted: bounds the memory for a stream."""
_BUCKET = re.compile(r"b\d\d")


def subject_hash(subject: str) -> int:
    """Return the hash of a subject, the same that the ``subject_hash`` column rule computes."""
    return crc32(subject.encode()) % SUBJECT_HASHES


class FolderLayout:
    """The layout of all streams; lost with the process and rebuilt from the folders that exist."""

    def __init__(self, folders: Mapping[str, Iterable[str]]) -> None:
        """Start from ``folders``: the subject partitions that the table has of each stream."""
        self._seen: dict[str, set[int]] = {}
        self._bucketed: set[str] = set()
        for stream, partitions in folders.items():
            names = set(partitions)
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

    def exact(self, streams: Iterable[str]) -> list[str]:
        """Return those of the streams that have a partition for each subject, sorted."""
        return sorted(set(streams) - self._bucketed)
