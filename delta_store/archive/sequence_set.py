"""Sets of sequences as nats-server encodes them: words of bits at bases. Source: server/avl/seqset.go, versions 1, 2.

A set is as large in memory as it is in its file, however many sequences it has.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.varints import VarintReader

_MAGIC: Final = 22
_HEAD_BYTES: Final = 10
_WORDS: Final = {1: 64, 2: 32}
"""Words of 64 bits of a node, by the version."""
_NODE_WORDS: Final = 32
_NODE_BITS: Final = 64 * _NODE_WORDS

Sequences = npt.NDArray[np.uint64]


class SequenceSet:
    """Some sequences; nodes of bits by their bases, each a multiple of :data:`_NODE_BITS`."""

    def __init__(self, bases: Sequences, bits: Sequences) -> None:
        """``bits`` has a row of words for each base, of which some may be equal."""
        self.bases, places = np.unique(bases, return_inverse=True)
        self.bits = np.zeros((len(self.bases), _NODE_WORDS), np.uint64)
        np.bitwise_or.at(self.bits, places, bits)

    def has(self, seqs: Sequences) -> npt.NDArray[np.bool_]:
        """Return which sequences are in the set."""
        if not len(self.bases):
            return np.zeros(len(seqs), bool)
        within = seqs % np.uint64(_NODE_BITS)
        bases = seqs - within
        places = np.minimum(np.searchsorted(self.bases, bases), len(self.bases) - 1)
        words = self.bits[places, (within >> np.uint64(6)).astype(np.int64)]
        found: npt.NDArray[np.bool_] = (self.bases[places] == bases) & (
            words >> (within & np.uint64(63)) & np.uint64(1)
        ).astype(bool)
        return found


def joined_sets(sets: list[SequenceSet]) -> SequenceSet:
    """Return a set of all the sequences of sets."""
    bases, bits = np.zeros(0, np.uint64), np.zeros((0, _NODE_WORDS), np.uint64)
    return SequenceSet(
        np.concatenate([bases, *(each.bases for each in sets)]), np.concatenate([bits, *(each.bits for each in sets)])
    )


def read_set(reader: VarintReader, fault: str) -> SequenceSet:
    """Read a set: the number of nodes, and of each its base, its bits, and a height. Raises :class:`BadArchive`."""
    magic, version, *counts = reader.take(_HEAD_BYTES)
    if magic != _MAGIC or version not in _WORDS:
        raise BadArchive(fault)
    words = _WORDS[version]
    kind = np.dtype([("base", "<u8"), ("bits", "<u8", (words,)), ("height", "<u2")])
    nodes = np.frombuffer(reader.take(int.from_bytes(bytes(counts[:4]), "little") * kind.itemsize), kind)
    steps = np.arange(0, 64 * words, _NODE_BITS, dtype=np.uint64)
    bases = (nodes["base"][:, None] + steps).ravel()
    if (bases % np.uint64(_NODE_BITS)).any():
        raise BadArchive(fault)
    return SequenceSet(bases, nodes["bits"].reshape(-1, _NODE_WORDS))
