"""A lease has one holder at a time, goes to the next when its holder is quiet, and compares no two machines' clocks."""

import os
import subprocess
import sys
from collections.abc import Mapping
from threading import Event
from typing import Any, cast

import pytest

from conf.limits import LEASE_DOUBT_SECONDS, LEASE_LOOK_SECONDS, LEASE_POLL_SECONDS, LEASE_QUIET_SECONDS
from delta_store.storage import lease as lease_module
from delta_store.storage.lease import Lease, LeaseObject, LeaseRead
from delta_store.values.journal_errors import StorageFailed
from tests.groups import SteppedClock


class Place:
    """An object in memory; ``fates`` of its next puts: request or reply lost."""

    def __init__(self) -> None:
        self.held: LeaseRead | None = None
        self.fates: list[str] = []
        self._version = 0

    def read(self) -> LeaseRead | None:
        """Return the object."""
        return self.held

    def put(self, said: Mapping[str, Any], before: LeaseRead | None) -> LeaseRead | None:
        """Replace the object if it is as before."""
        fate = self.fates.pop(0) if self.fates else "works"
        won = (self.held and self.held.version) == (before and before.version)
        if won and fate != "request lost":
            self._version += 1
            self.held = LeaseRead(dict(said), {"e_tag": str(self._version), "version": None})
        if fate != "works":
            raise StorageFailed("lease", fate)
        return self.held if won else None


@pytest.fixture
def place() -> Place:
    """No lease yet."""
    return Place()


def lease(place: Place, owner: str, clock: SteppedClock | None = None) -> Lease:
    """One process's part, with a clock of its own."""
    return Lease(cast(LeaseObject, place), owner=owner, clock=clock or SteppedClock())


def test_one_holds_and_the_other_waits_until_it_is_released(place: Place) -> None:
    """The holder is named, and what it released is free at once."""
    first, second = lease(place, "a"), lease(place, "b")
    assert first.attempt()
    assert not second.attempt()
    assert second.holder.startswith("process ")
    first.release()
    assert second.attempt()
    assert not first.attempt()


def test_a_lease_that_does_not_change_is_taken(place: Place) -> None:
    """By the waiter's own clock; one that changes is not, whatever its holder's clock says."""
    clock = SteppedClock()
    first, second = lease(place, "a"), lease(place, "b", clock)
    assert first.attempt()
    for _ in range(20):
        assert first._renew()
        assert not second.attempt()
        clock.seconds += LEASE_QUIET_SECONDS - LEASE_POLL_SECONDS
        assert not second.attempt()
    clock.seconds += LEASE_POLL_SECONDS
    assert second.attempt()
    assert not first._renew(), "the first, woken, finds that it has lost it"
    assert second._renew()


def test_who_waits_looks_again_when_it_may_take_over(place: Place) -> None:
    """So it takes a quiet lease when it has been quiet for long, not at the look after that."""
    clock = SteppedClock()
    first, second = lease(place, "a"), lease(place, "b", clock)
    assert first.attempt()
    assert not second.attempt()
    assert second.pause_seconds == LEASE_POLL_SECONDS
    clock.seconds += LEASE_QUIET_SECONDS - LEASE_POLL_SECONDS / 4
    assert not second.attempt()
    assert second.pause_seconds == pytest.approx(LEASE_POLL_SECONDS / 4)
    clock.seconds += second.pause_seconds
    assert second.attempt()


def test_a_holder_doubts_before_another_may_take_over(place: Place) -> None:
    """From the start of the request that last changed the lease; to find its own name there makes nothing sure."""
    clock, place.fates = SteppedClock(), ["works", "works", "reply lost"]
    first = lease(place, "a", clock)
    assert first.attempt()
    clock.seconds += 1
    assert first._renew()
    assert first.doubt_seconds == 0
    clock.seconds += 1
    with pytest.raises(StorageFailed):
        first._renew()
    clock.seconds += 1
    assert first._renew()
    assert first.doubt_seconds == 2
    assert first._renew()
    assert first.doubt_seconds == 0
    assert LEASE_DOUBT_SECONDS + LEASE_LOOK_SECONDS < LEASE_QUIET_SECONDS


@pytest.mark.parametrize("fate", ["request lost", "reply lost"])
def test_a_lost_message_loses_no_lease(place: Place, fate: str) -> None:
    """Neither when it is taken nor when it is renewed: what the store holds is read back."""
    first = lease(place, "a")
    place.fates = [fate]
    with pytest.raises(StorageFailed):
        first.attempt()
    assert first.attempt()
    place.fates = [fate]
    with pytest.raises(StorageFailed):
        first._renew()
    assert first._renew()


def test_a_deleted_lease_is_written_again(place: Place) -> None:
    """Its holder is alive, and says so."""
    first = lease(place, "a")
    assert first.attempt()
    place.held = None
    assert first._renew()
    assert place.held is not None


def test_a_dead_process_of_this_machine_leaves_its_lease_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such process runs here any more: nothing is to be waited for. One of another machine is waited for."""
    first, second = lease(place, "a"), lease(place, "b")
    assert first.attempt()
    assert place.held is not None
    place.held = place.held._replace(said={**place.held.said, "started": -1, "boot": "another machine"})
    assert not second.attempt()
    here = lease_module._process(1)
    place.held = place.held._replace(said={**place.held.said, "boot": here.get("boot")})
    assert second.attempt() == ("boot" in here)


def test_a_process_that_ended_is_dead_before_its_parent_asks(place: Place) -> None:
    """A supervisor may take its time."""
    first, second = lease(place, "a"), lease(place, "b")
    assert first.attempt()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert place.held is not None
        place.held = place.held._replace(said={**place.held.said, **lease_module._process(process.pid)})
        assert not second.attempt()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert second.attempt() == ("boot" in lease_module._process(1))


def test_waiting_ends_when_it_is_told_to(place: Place) -> None:
    """And who waits says once for whom."""
    first, second, stop = lease(place, "a"), lease(place, "b"), Event()
    assert first.wait(stop, pytest.fail)
    said: list[str] = []

    def told(holder: str) -> None:
        said.append(holder)
        stop.set()

    assert not second.wait(stop, told)
    assert len(said) == 1
