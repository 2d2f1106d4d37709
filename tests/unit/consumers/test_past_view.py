"""Consumers of past states, whose messages are known later than the consumers are, and may be erased."""

from typing import Any

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.effects import Status
from consumers.machine.past_view import PastPlace, PastView
from delta_store.index.stream_index import StreamIndex
from delta_store.values.records import Kind
from tests.unit.consumers.consumer_world import EXPLICIT, START
from tests.unit.consumers.engine_shard import Shard

LAST = 6


def filled(**config: Any) -> Shard:
    """A stream whose messages 1 to 6 have subjects s.1, s.0, s.1 and so on, and a seventh."""
    shard = Shard(**config)
    shard.store(*(f"s.{seq % 2}" for seq in range(1, LAST + 1)), "s.late")
    shard.commit()
    return shard


def then() -> StreamIndex:
    """The messages up to the sixth."""
    index = StreamIndex()
    for seq in range(1, LAST + 1):
        index.append(seq, index.table.intern(f"s.{seq % 2}"), ts_ns=START, size=40)
    return index


def view_of(shard: Shard) -> PastView:
    """The view of the sixth message's state."""
    return shard.engine.registry.views.at(shard.state, PastPlace(LAST, 0))


def reader(shard: Shard, name: str = "C", view: PastView | None = None, **config: Any) -> ConsumerMachine:
    """A consumer of that state."""
    view = view or view_of(shard)
    if not view.is_open:
        view.open(then())
    made = MachineConfig(name=name, metadata={"silt.as_of.place": f"{LAST}.0"}, **{**EXPLICIT, **config})
    registry = shard.engine.registry
    return registry.create(shard.state, made, now_ns=shard.now, rows=shard.rows, view=view)


def opened(shard: Shard) -> list[object]:
    """Have the state of restored consumers read; what they say."""
    shard.engine.registry.views.open(view_of(shard), then(), now_ns=shard.now)
    return shard.said()


def delivered(said: list[object]) -> list[int]:
    """The sequences among what was said."""
    return [one[1] for one in said if isinstance(one, tuple) and not isinstance(one, Status)]


def statuses(said: list[object]) -> list[int]:
    """The codes of statuses among it."""
    return [one.code for one in said if isinstance(one, Status)]


def test_it_delivers_the_state_and_nothing_behind_it() -> None:
    """Also when more is stored; a pull that wants more waits."""
    shard = filled()
    consumer = reader(shard)
    assert consumer.num_pending == LAST
    assert delivered(shard.pull(4)) == [1, 2, 3, 4]
    shard.store("s.0")
    assert delivered(shard.commit()) == []
    assert delivered(shard.pull(4)) == [5, 6]
    assert consumer.num_pending == 0


def test_nothing_is_said_before_the_state_is_known() -> None:
    """After a restart pulls wait, acks count, and then all goes on where it was."""
    shard = filled()
    reader(shard)
    shard.pull(3)
    shard.ack(1)
    shard.engine.persist_dirty()
    shard.commit()
    again = shard.restarted()
    consumer = again.engine.directory.get("S", "C")
    assert consumer is not None
    assert not consumer.view.is_open
    assert again.pull(2) == []
    again.ack(2)
    assert consumer.num_ack_pending == 1
    assert delivered(opened(again)) == [4, 5]
    assert consumer.num_pending == 1
    assert consumer.ack_floor[1] == 2


def test_a_list_of_last_messages_goes_on_after_a_restart() -> None:
    """As a state with the whole list has it, though nothing of it was known meanwhile."""
    shard = filled()
    reader(shard, deliver_policy="last_per_subject", filter_subject="s.*")
    assert delivered(shard.pull(1)) == [5]
    shard.engine.persist_dirty()
    shard.commit()
    again = shard.restarted()
    again.pull(5)
    again.engine.persist_dirty()
    again.commit()
    for row in again.rows.rows():
        shard.rows.append(row)
    third = shard.restarted()
    third.pull(5)
    assert delivered(opened(third)) == [6]


def test_what_is_erased_leaves_the_state() -> None:
    """Before it is read, and while it is; what only leaves the stream does not."""
    shard = filled()
    view = view_of(shard)
    shard.catalog.remove("S", 2, now_ns=shard.now, rows=shard.rows)
    consumer = reader(shard, view=view)
    assert consumer.num_pending == LAST - 1
    shard.catalog.remove("S", 3, now_ns=shard.now, rows=shard.rows)
    shard.catalog.remove("S", 4, now_ns=shard.now, rows=shard.rows, erase=False)
    assert consumer.num_pending == LAST - 2
    assert delivered(shard.pull(9)) == [1, 4, 5, 6]


def test_a_state_is_shared_and_let_go() -> None:
    """By the last consumer of it; then it hears nothing any more."""
    shard = filled()
    one, other = reader(shard, "A"), reader(shard, "B")
    assert one.past is other.past
    assert len(shard.engine.registry.views.held()) == 1
    for name, left in (("A", 1), ("B", 0)):
        shard.engine.registry.delete(shard.state, name, now_ns=shard.now, rows=shard.rows)
        assert len(shard.state.on_erased) == left
        assert len(shard.engine.registry.views.held()) == left


def test_its_end_is_a_deletion() -> None:
    """Pulls get a status, an advisory is sent, the journal has it."""
    shard = filled()
    reader(shard, deliver_policy="new")
    other = shard.create("NOW", deliver_policy="new")
    shard.said()
    shard.pull(1)
    assert shard.engine.registry.views.end(view_of(shard), now_ns=shard.now, rows=shard.rows) == ["C"]
    said = shard.said()
    assert statuses(said) == [409]
    assert "DELETED" in said
    assert [row.subject for row in shard.rows.rows() if row.kind == Kind.CONSUMER_DELETE] == ["C"]
    assert list(shard.engine.directory.homes) == [other]


def test_it_keeps_and_removes_nothing_of_a_queue() -> None:
    """Messages leave when the others are done with them, not before and not later."""
    shard = Shard(retention="interest")
    shard.create("NOW")
    shard.store(*(f"s.{seq % 2}" for seq in range(1, LAST + 1)))
    shard.commit()
    everything = shard.live()
    reader(shard)
    reader(shard, "IDLE")
    assert delivered(shard.pull(9)) == everything
    shard.ack(*everything)
    shard.commit()
    assert shard.live() == everything
    assert delivered(shard.pull(9, "NOW")) == everything
    shard.ack(*everything, name="NOW")
    assert shard.live() == []
    shard.engine.registry.delete(shard.state, "NOW", now_ns=shard.now, rows=shard.rows)
    shard.store("s.0")
    shard.commit()
    assert shard.live() == []
