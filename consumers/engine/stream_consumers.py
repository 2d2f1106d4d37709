"""The consumers of one stream, their view of it, and the removal of messages that nobody needs. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from consumers.config.consumer_create_rules import Company
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.index.segments import Ints
from delta_store.index.stream_index import StreamIndex
from delta_store.streams.copy_links import CopyLink, Want
from delta_store.streams.stream_state import StreamState

LIMITS: Final = "limits"
INTEREST: Final = "interest"


class StreamConsumers:
    """One stream's consumers and their :class:`consumers.machine.stream_view.StreamView` of it."""

    __slots__ = (
        "_copied_by",
        "_copies",
        "_removals_seen",
        "_retained_by",
        "attentive",
        "by_name",
        "checked_seq",
        "company",
        "consumed",
        "durable_seq",
        "state",
    )

    def __init__(
        self, state: StreamState, *, durable_seq: int, copies: Callable[[], Sequence[CopyLink]] = tuple
    ) -> None:
        self.state = state
        self.durable_seq = durable_seq
        """The last sequence that may be delivered."""
        self.by_name: dict[str, ConsumerMachine] = {}
        self.attentive: dict[ConsumerMachine, None] = {}
        """Consumers that wait for the next message."""
        self.company = Company()
        """The counts of all consumers."""
        self.consumed: list[int] = []
        """Sequences removed because nobody needs them, and not recorded yet."""
        self._copies = copies
        self._copied_by = self._copiers()
        self._retained_by = state.config.retention
        self._removals_seen = self.removals
        self.checked_seq = state.index.last_seq
        """Sequence up to which an interest stream was checked for messages that nobody wanted on arrival."""

    is_open: Final = True

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.state.config.name

    @property
    def index(self) -> StreamIndex:
        """Live messages; may hold some above :attr:`durable_seq`."""
        return self.state.index

    @property
    def removals(self) -> int:
        """A number that changes whenever messages leave the stream."""
        index = self.state.index
        return index.last_seq - index.msgs

    @property
    def retention(self) -> str:
        """``limits``, ``interest`` or ``workqueue``."""
        return self.state.config.retention

    def removals_changed(self) -> bool:
        """Whether messages left the stream since the last call."""
        before, self._removals_seen = self._removals_seen, self.removals
        return before != self._removals_seen

    def retention_changed(self) -> bool:
        """Whether the stream's retention has changed since the last call."""
        before, self._retained_by = self._retained_by, self.state.config.retention
        return before != self._retained_by

    def copies_changed(self) -> bool:
        """Whether the mirrors and sources of the stream have changed since the last call."""
        before, self._copied_by = self._copied_by, self._copiers()
        return before != self._copied_by

    def content_size(self, seq: int) -> int:
        """Return the bytes of headers and payload, as the index has them."""
        return self.state.index.content_size(seq)

    def done(self, seqs: Iterable[int], by: ConsumerMachine | None) -> None:
        """Remove messages with which a consumer, or a copy (None), is done and that no other needs."""
        retention = self.state.config.retention
        if retention == LIMITS:
            return
        wants, index = self._wants(), self.state.index
        shared = retention == INTEREST or wants or by is None
        others = [one for one in self._present() if one is not by] if shared else []
        for seq in seqs:
            if not self._needed(seq, others, wants) and index.remove(seq):
                self.consumed.append(seq)

    def drop_unwanted(self) -> None:
        """Remove new messages that no consumer wants from an interest stream."""
        index = self.state.index
        start, self.checked_seq = self.checked_seq + 1, index.last_seq
        if self.state.config.retention == INTEREST and start <= index.last_seq:
            self._drop(index.live.sequences(start, index.last_seq))

    def drop_all_unwanted(self) -> bool:
        """Remove all durable messages that no consumer wants from an interest stream; return whether there were any."""
        if self.state.config.retention != INTEREST:
            return False
        return self._drop(self.state.index.live.sequences(self.state.index.first_seq, self.durable_seq))

    def take_consumed(self) -> list[int]:
        """Return :attr:`consumed` ascending, for a REMOVE row, and clear it."""
        taken, self.consumed = sorted(self.consumed), []
        return taken

    def _drop(self, seqs: Ints) -> bool:
        consumers, wants = self._present(), self._wants()
        if consumers or wants:
            seqs = np.array([seq for seq in seqs.tolist() if not self._needed(seq, consumers, wants)], np.int64)
        if not len(seqs):
            return False
        self.state.index.remove_many(seqs)
        self.consumed += seqs.tolist()
        return True

    def _present(self) -> list[ConsumerMachine]:
        """Return the consumers of the stream as it is now; those of past states need nothing of it."""
        return [one for one in self.by_name.values() if one.past is None]

    def _copiers(self) -> list[tuple[int, str]]:
        return [(link.target.stream_id, link.label) for link in self._copies()]

    def _wants(self) -> list[Want]:
        """Return what mirrors and sources have yet to copy."""
        return [Want(link.selection, link.next_seq(self.state)) for link in self._copies()]

    def _needed(self, seq: int, consumers: Sequence[ConsumerMachine], wants: Sequence[Want]) -> bool:
        if any(one.progress.needs(seq) for one in consumers):
            return True
        subject = self.state.index.subject_of(seq) if wants else None
        return subject is not None and any(one.needs(seq, subject) for one in wants)
