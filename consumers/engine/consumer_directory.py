"""What the API needs of all consumers; :class:`consumers.engine.engine.ConsumerEngine` is it."""

from typing import Protocol

from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_create_rules import Company
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns


class FollowsStreams(Protocol):
    """Who must hear of streams that were created, changed or deleted."""

    def sync_streams(self, now_ns: int) -> None:
        """Follow the catalog; what nobody wants leaves a stream that keeps by interest from now on."""
        ...


class Consumers(FollowsStreams, Protocol):
    """The consumers by stream and name. Changes are made at once and appended to ``rows``."""

    def names(self, stream: str) -> list[str]:
        """Names of a stream's consumers, sorted; none for a stream that is not there."""
        ...

    def get(self, stream: str, name: str) -> ConsumerMachine | None:
        """A consumer, None when there is none of that name."""
        ...

    def newest(self, stream: str) -> ConsumerMachine | None:
        """The consumer that was created last, None when there is none."""
        ...

    def company(self, stream: str) -> Company:
        """A stream's consumers, counted; none for a stream that is not there."""
        ...

    def create(self, state: StreamState, config: MachineConfig, *, now_ns: int, rows: RowColumns) -> ConsumerMachine:
        """Add a consumer whose configuration has been checked and whose name is free."""
        ...

    def update(
        self, state: StreamState, name: str, config: MachineConfig, *, now_ns: int, rows: RowColumns
    ) -> ConsumerMachine:
        """Give a consumer another configuration, which has been checked."""
        ...

    def tell_if_paused(self, state: StreamState, name: str, *, now_ns: int) -> None:
        """Advise of a pause that lasts: what asking for a consumer does, be it there already or not."""
        ...

    def delete(self, state: StreamState, name: str, *, now_ns: int, rows: RowColumns) -> None:
        """Take a consumer away."""
        ...

    def pause(self, state: StreamState, name: str, until_ns: int, *, now_ns: int, rows: RowColumns) -> ConsumerMachine:
        """Let a consumer deliver nothing until then; 0 or a time that is past resumes."""
        ...

    def reset(self, state: StreamState, name: str, seq: int | None, *, now_ns: int, rows: RowColumns) -> int:
        """Start over at a sequence, or behind the ack floor; returns where.

        Raises :class:`consumers.machine.consumer_machine.InvalidReset`.
        """
        ...

    def unpin(self, state: StreamState, name: str, group: str, *, now_ns: int) -> None:
        """Let another client of a priority group be pinned."""
        ...

    def show(self, state: StreamState, name: str, *, now_ns: int) -> None:
        """Make what an info is about to say of a consumer durable before the info leaves."""
        ...

    def purged(self, state: StreamState, subject: str, *, now_ns: int) -> None:
        """Let consumers pass over what a purge took: messages of a subject, or all when it is empty."""
        ...

    def listened_to(self, config: MachineConfig) -> bool:
        """Whether somebody listens where a consumer of this configuration delivers of its own accord."""
        ...

    def interested(self, subject: bytes) -> bool:
        """Whether somebody listens to a subject right now."""
        ...
