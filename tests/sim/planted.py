"""Faults put into the gateway on purpose: the simulation must find each of them."""

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

from api.gateway import gateway_upkeep
from api.gateway.gateway_stores import Stores
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.consumer_state import ConsumerState
from delta_store.storage import local_storage
from delta_store.values.schemas import LOG_FOLDER
from ingest.flow.group_commit import GroupCommitter
from ingest.publishing.group import Group
from tests.sim.gateway_simulation import Plant


def _entry_before_data(stack: ExitStack) -> None:
    """The entry becomes visible and durable before the file that it names is on the disk."""

    def run(self: Any) -> None:
        disk_os = local_storage.os
        root, log = self._storage.folder(""), self._storage.folder(LOG_FOLDER)
        if self._data is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._data_fd = disk_os.open(self._data.name, flags, 0o644, dir_fd=root)
            local_storage._write_all(self._data_fd, self._data)
        self._stage(log)
        disk_os.fsync(self._entry_fd)
        self._link(log)
        disk_os.fsync(log)
        if self._data is not None:
            disk_os.fsync(self._data_fd)
            disk_os.fsync(root)

    stack.enter_context(mock.patch.object(local_storage._Publishing, "run", run))


def _ack_before_commit(stack: ExitStack) -> None:
    """Replies leave when the group is taken, not when it is durable."""
    commit = GroupCommitter._make_durable

    async def make_durable(self: Any, group: Group, loop: asyncio.AbstractEventLoop) -> None:
        self._decider.release(group)
        group.replies.clear()
        group.deferred.clear()
        await commit(self, group, loop)

    stack.enter_context(mock.patch.object(GroupCommitter, "_make_durable", make_durable))


def _ids_forgotten(stores: Stores) -> Stores:
    """A gateway that starts knows no message id."""
    for state in stores.catalog.streams.values():
        state.dedup.forget(1 << 62)
    return stores


def _floor_too_high(stack: ExitStack) -> None:
    """What is recorded of a consumer says that all that was delivered is acked."""
    state: Callable[[ConsumerMachine], ConsumerState] = ConsumerMachine.state

    def too_high(self: ConsumerMachine) -> ConsumerState:
        true = state(self)
        return true._replace(ack_floor=true.delivered, pending={})

    stack.enter_context(mock.patch.object(ConsumerMachine, "state", too_high))


def _truncated_too_early(stack: ExitStack) -> None:
    """The journal forgets what is settled without having it fsynced."""
    stack.enter_context(mock.patch.object(gateway_upkeep, "make_durable", return_value=0))


PLANTS = {
    "fsync order": Plant(_entry_before_data),
    "ack before commit": Plant(_ack_before_commit),
    "dedup after restart": Plant(opened=_ids_forgotten),
    "ack floor": Plant(_floor_too_high),
    "truncation before settle is durable": Plant(_truncated_too_early),
}
