"""The engine: who is told what and when, what leaves streams, and what the journal holds of consumers."""

import pytest

from conf.limits import CONSUMER_RETURN_SECONDS
from consumers.config.consumer_config import MachineConfig
from consumers.engine.ack_subject import AckMessage
from consumers.machine.effects import PullRequest, Reply, Status
from delta_store.config.stream_config import StreamConfig
from delta_store.values.records import Kind
from tests.unit.consumers.consumer_world import SECOND, START
from tests.unit.consumers.engine_shard import Shard

RETURN = CONSUMER_RETURN_SECONDS * SECOND


def test_what_is_stored_counts_before_it_is_durable() -> None:
    """Replies leave with the group: what they say is left counts its messages, which are delivered later."""
    shard = Shard()
    shard.store("s.a", "s.b")
    first = shard.create("A", filter_subject="s.a")
    assert first.num_pending == 1
    shard.commit()
    shard.store("s.a", "s.a", "s.b")
    last = shard.create("B", deliver_policy="last_per_subject", filter_subject="s.*")
    shard.store("s.a", "s.c")
    assert (first.num_pending, last.num_pending) == (4, 4)
    shard.state.index.remove(6)
    assert (first.num_pending, last.num_pending) == (3, 3)
    assert shard.pull(9, "A") == ["CREATED", ("A", 1)]
    assert (first.num_pending, last.num_pending) == (2, 3)
    assert shard.commit() == [("A", 3), ("A", 4)]
    assert (first.num_pending, last.num_pending) == (0, 3)


def test_push_consumers_follow_interest_and_durability() -> None:
    """Messages are pushed when they are durable and somebody listens, and never twice."""
    shard = Shard()
    consumer = shard.create(deliver_subject="d")
    shard.store("s.a")
    assert shard.commit() == ["CREATED"]
    shard.listened.add(b"d")
    shard.engine.interest_changed(b"d", shard.now)
    assert shard.said() == [("C", 1)]
    shard.store("s.b")
    assert shard.said() == []
    assert shard.commit() == [("C", 2)]
    shard.listened.clear()
    shard.engine.interest_changed(b"*", shard.now)
    assert not consumer.push_bound
    shard.store("s.c")
    assert shard.commit() == []
    assert not shard.engine.directory.homes[consumer].attentive


def test_a_push_consumer_may_find_a_listener() -> None:
    """Who listens already when a consumer is created gets its messages as soon as it is durable, not before."""
    shard = Shard()
    shard.listened.add(b"d")
    shard.store("s.a")
    shard.commit()
    shard.create(deliver_subject="d")
    assert shard.said() == ["CREATED"]
    assert shard.commit() == [("C", 1)]


def test_another_deliver_subject_is_another_interest() -> None:
    """After an update only listeners of the new deliver subject count."""
    shard = Shard()
    shard.listened |= {b"d", b"e"}
    consumer = shard.create(deliver_subject="d", ack_policy="none", ack_wait=0, max_ack_pending=0)
    shard.commit()
    changed = MachineConfig(name="C", deliver_subject="e", max_waiting=512)
    shard.engine.registry.update(shard.state, "C", changed, now_ns=shard.now, rows=shard.rows)
    shard.listened.remove(b"d")
    shard.engine.interest_changed(b"d", shard.now)
    assert consumer.push_bound
    shard.listened.remove(b"e")
    shard.engine.interest_changed(b"e", shard.now)
    assert not consumer.push_bound


def test_a_request_waits_for_durable_messages() -> None:
    """A waiting request gets a message when it is durable, and who got all waits no longer."""
    shard = Shard()
    consumer = shard.create()
    assert shard.pull(1) == ["CREATED"]
    shard.store("s.a", "s.a")
    assert shard.said() == []
    assert shard.commit() == [("C", 1)]
    assert not shard.engine.directory.homes[consumer].attentive
    assert not shard.engine.ready
    assert not shard.engine.pull("S", "D", PullRequest(b"r", b"1"), shard.now)


def test_a_deleted_consumer_leaves_nothing_behind() -> None:
    """Whoever waits is told, and neither timers nor interest nor the next group know the consumer any more."""
    shard = Shard()
    pulled, pushed = shard.create(), shard.create("D", deliver_subject="d", idle_heartbeat=SECOND)
    shard.listened.add(b"d")
    shard.commit()
    shard.store("s.a")
    shard.commit()
    shard.pull(5)
    assert shard.engine.next_wake_ns
    shard.ack(1, reply=b"ok")
    rows = len(shard.rows)
    for name in "CD":
        shard.engine.ready[shard.engine.directory.streams["S"].by_name[name]] = None
        shard.engine.registry.delete(shard.state, name, now_ns=shard.now, rows=shard.rows)
    assert not shard.engine.ready
    assert shard.said() == [Status(b"r", 409, "Consumer Deleted"), "DELETED", "DELETED"]
    assert [Kind(kind) for kind in shard.rows.kind[rows:]] == [Kind.CONSUMER_DELETE] * 2
    assert shard.engine.next_wake_ns == 0
    assert not shard.engine.persist_dirty()
    assert pulled not in shard.engine.directory.homes
    assert pushed not in shard.engine.directory.homes
    assert not list(shard.engine.directory.delivering.overlapping(">"))
    assert not shard.engine.directory.streams["S"].attentive
    assert not shard.restarted().engine.directory.streams["S"].by_name


def test_an_unused_consumer_is_deleted_in_time() -> None:
    """A consumer that nobody used for its threshold goes by itself, and the journal knows."""
    shard = Shard()
    shard.create(inactive_threshold=5 * SECOND)
    shard.commit()
    shard.now = shard.engine.next_wake_ns
    shard.engine.wake(shard.now)
    assert shard.said() == ["DELETED"]
    assert shard.engine.next_wake_ns == 0
    assert not shard.restarted().engine.directory.streams["S"].by_name


def test_nobody_uses_a_consumer_while_the_hub_is_away() -> None:
    """The time that a hub is away does not count as unused; then clients have their time to come back."""
    shard = Shard()
    shard.create(inactive_threshold=5 * SECOND)
    shard.create("P", deliver_subject="d", inactive_threshold=5 * SECOND)
    shard.create("Q", inactive_threshold=2 * RETURN)
    shard.commit()
    shard.engine.attached(False, shard.now)
    for _ in range(10):
        shard.now += SECOND
        shard.engine.wake(shard.now)
    shard.engine.attached(True, shard.now)
    shard.pass_time(RETURN - 1)
    assert shard.said() == []
    shard.pass_time(1)
    assert shard.said() == ["DELETED", "DELETED"]
    shard.pass_time(RETURN + SECOND)
    assert shard.said() == ["DELETED"]


def test_who_came_back_has_the_threshold_alone() -> None:
    """The time to come back is for those that have not: a consumer that was used since goes at its threshold."""
    shard = Shard()
    shard.create(inactive_threshold=5 * SECOND)
    shard.create("P", deliver_subject="d", inactive_threshold=5 * SECOND)
    shard.commit()
    shard.pass_time(SECOND)
    shard.engine.attached(True, shard.now)
    shard.pass_time(SECOND)
    shard.listened.add(b"d")
    shard.engine.interest_changed(b"d", shard.now)
    shard.pull(1, expires=2 * SECOND)
    shard.listened.clear()
    shard.engine.interest_changed(b"d", shard.now)
    shard.pass_time(6 * SECOND)
    assert [one for one in shard.said() if one == "DELETED"] == ["DELETED"]
    shard.pass_time(2 * SECOND)
    assert shard.said() == ["DELETED"]


def test_time_that_passed_at_once_is_not_disuse() -> None:
    """Where a clock stepped, or the process stood still, clients had no chance: unused time begins anew."""
    shard = Shard()
    shard.create(inactive_threshold=5 * SECOND)
    shard.create("P", deliver_subject="d", inactive_threshold=5 * SECOND)
    shard.commit()
    assert shard.pull(1, expires=30 * SECOND) == []
    shard.now += 600 * SECOND
    shard.engine.wake(shard.now)
    assert [one for one in shard.said() if one == "DELETED"] == []
    shard.pass_time(RETURN)
    assert shard.said() == ["DELETED", "DELETED"]


def test_who_waits_for_long_is_recorded() -> None:
    """Who waits for messages is known after a kill although none came; who asks anew soon needs no record."""
    shard = Shard()
    shard.create()
    shard.commit()
    assert shard.pull(1, expires=SECOND) == []
    assert not shard.engine.unsaved
    for _ in range(2):
        assert shard.pull(1, expires=30 * SECOND) == []
    assert shard.engine.persist_dirty()
    shard.commit()
    assert shard.pull(1, expires=30 * SECOND) == []
    assert not shard.engine.unsaved
    again = shard.restarted()
    again.engine.call_back()
    called = [(one.subject, one.code) for one in again.said() if isinstance(one, Status)]
    assert called == [(b"r", 409), (b"r", 408)]
    again.engine.persist_dirty()
    again.commit()
    assert again.pull(1, expires=30 * SECOND) == []
    assert again.engine.unsaved


def test_who_waits_is_sent_off_and_called_back_once() -> None:
    """Who waited outlives the process as a reply subject, and so do consumers in memory, unless it is killed."""
    shard = Shard()
    shard.create()
    shard.create("M", mem_storage=True)
    shard.commit()
    assert shard.pull(3) == shard.pull(3, "M") == []
    shard.store("s.a")
    assert shard.commit() == [("C", 1), ("M", 1)]
    shard.engine.send_off(shard.now)
    left = (("Nats-Pending-Messages", "2"), ("Nats-Pending-Bytes", "0"))
    assert shard.said() == [Status(b"r", 409, "Server Shutdown", left)] * 2
    assert shard.engine.persist_dirty()
    shard.commit()
    again = shard.restarted()
    memory = again.engine.directory.get("S", "M")
    assert memory is not None
    assert (memory.delivered, memory.num_ack_pending) == ((1, 1), 1)
    again.engine.call_back()
    assert [(one.code, one.text) for one in again.said() if isinstance(one, Status)] == [
        (409, "Leadership Change"),
        (408, "Request Timeout"),
    ] * 2
    assert again.engine.persist_dirty()
    again.commit()
    for row in again.rows.rows():
        shard.rows.append(row)
    last = shard.restarted()
    last.engine.call_back()
    assert (last.said(), last.engine.directory.names("S")) == ([], ["C"])


def test_timers_reach_their_consumers() -> None:
    """A message that was not acked comes again when the engine is woken at its next time."""
    shard = Shard()
    shard.create()
    shard.store("s.a")
    shard.commit()
    shard.pull(1)
    shard.pull(1)
    while shard.engine.next_wake_ns < START + 30 * SECOND:
        shard.now = shard.engine.next_wake_ns
        shard.engine.wake(shard.now)
        assert shard.said() == []
    shard.now = shard.engine.next_wake_ns
    shard.engine.wake(shard.now)
    assert shard.said() == [("C", 1)]


def test_a_double_ack_is_recorded_with_its_answer() -> None:
    """The group that holds the answer to a double ack holds the state too; other acks follow when asked for."""
    shard = Shard()
    consumer = shard.create()
    shard.store("s.a", "s.a", "s.a")
    shard.commit()
    shard.pull(3)
    assert shard.ack(1, reply=b"ok") == [Reply(b"ok")]
    shard.commit()
    assert shard.restarted().engine.directory.streams["S"].by_name["C"].ack_floor == (1, 1)
    shard.ack(2)
    rows = len(shard.rows)
    shard.commit()
    assert len(shard.rows) == rows
    assert shard.engine.persist_dirty()
    shard.commit()
    assert not shard.engine.persist_dirty()
    again = shard.restarted().engine.directory.streams["S"].by_name["C"]
    assert (again.ack_floor, again.num_ack_pending, again.config) == ((2, 2), 1, consumer.config)
    assert again.created_ns == consumer.created_ns


def test_consumers_in_memory_have_no_rows() -> None:
    """Nothing of a consumer with storage in memory reaches the journal, not even an acked state."""
    shard = Shard()
    rows = len(shard.rows)
    shard.create(mem_storage=True)
    shard.pull(1)
    assert not shard.engine.persist_dirty()
    shard.engine.registry.show(shard.state, "C", now_ns=shard.now)
    shard.commit()
    shard.engine.registry.delete(shard.state, "C", now_ns=shard.now, rows=shard.rows)
    assert len(shard.rows) == rows


def test_what_an_info_shows_is_recorded() -> None:
    """Before somebody is told of a consumer's state, the state becomes part of the next group."""
    shard = Shard()
    shard.create()
    shard.store("s.a")
    shard.commit()
    shard.pull(1)
    rows = len(shard.rows)
    shard.commit()
    assert len(shard.rows) == rows
    shard.engine.registry.show(shard.state, "C", now_ns=shard.now)
    shard.commit()
    assert [Kind(kind) for kind in shard.rows.kind[rows:]] == [Kind.CONSUMER_STATE]


def test_a_work_queue_loses_what_was_acked() -> None:
    """An acked message leaves a work queue, and the next group records it."""
    shard = Shard(retention="workqueue")
    shard.create()
    shard.store("s.a", "s.a", "s.a")
    shard.commit()
    shard.pull(3)
    shard.ack(3, 1)
    assert shard.live() == [2]
    assert shard.engine.persist_dirty()
    shard.commit()
    assert not shard.engine.persist_dirty()
    assert shard.restarted().live() == [2]


def test_an_interest_stream_keeps_what_somebody_needs() -> None:
    """Messages leave when the last consumer that wants them is through, and at once when nobody wants them."""
    shard = Shard(retention="interest")
    shard.create()
    shard.create("D", filter_subject="s.a")
    shard.store("s.a", "s.b", "s.a")
    shard.commit()
    shard.pull(3)
    shard.pull(3, "D")
    shard.ack(1, 2)
    assert shard.live() == [1, 3]
    shard.engine.acks([AckMessage(b"$JS.ACK.S.D.1.1.1.1.0", b"", b"", b"")], shard.now)
    assert shard.live() == [3]
    shard.engine.registry.delete(shard.state, "C", now_ns=shard.now, rows=shard.rows)
    assert shard.live() == [3]
    shard.store("s.b", "s.a")
    assert shard.live() == [3, 5]
    shard.commit()
    assert shard.restarted().live() == [3, 5]
    shard.engine.registry.delete(shard.state, "D", now_ns=shard.now, rows=shard.rows)
    assert shard.live() == []


def test_limits_streams_keep_everything() -> None:
    """On a stream with limits neither acks nor missing interest remove messages; a change to interest does."""
    shard = Shard()
    shard.create(filter_subject="s.a")
    shard.store("s.a", "s.b", "s.a")
    shard.commit()
    shard.pull(1)
    shard.ack(1)
    assert shard.live() == [1, 2, 3]
    config = StreamConfig("S", ("s.>",), retention="interest")
    shard.catalog.update(config, now_ns=shard.now, rows=shard.rows)
    shard.engine.registry.sync_streams(shard.now)
    assert shard.live() == [3]


def test_removed_messages_are_told_when_that_is_durable() -> None:
    """A consumer that waits for the ack of a deleted message learns of it with the next group."""
    shard = Shard()
    consumer = shard.create()
    shard.store("s.a", "s.a")
    shard.commit()
    shard.pull(2)
    assert shard.commit() == []
    shard.catalog.remove("S", 1, now_ns=shard.now, rows=shard.rows)
    assert shard.commit() == ["MSG_TERMINATED"]
    assert consumer.num_ack_pending == 1


@pytest.mark.parametrize(("headers", "data", "size"), [(None, b"", 0), (None, b"1234567", 7), (b"ab", b"1", 7)])
def test_content_sizes(headers: bytes | None, data: bytes, size: int) -> None:
    """What a message weighs without its row and subject; a message that is not there weighs nothing."""
    shard = Shard()
    shard.store("s.long.subject", headers=headers, data=data)
    home = shard.engine.directory.streams["S"]
    assert home.content_size(1) == size
    assert home.content_size(2) == 0


def test_acks_that_nobody_takes() -> None:
    """The beginnings of ack subjects without a consumer, or of one without acks, are given back."""
    shard = Shard()
    shard.create(ack_policy="none", ack_wait=0, max_ack_pending=0)
    subjects = [b"$JS.ACK.S.C.1.1.1.1.0", b"$JS.ACK.S.X.1.1.1.1.0"]
    unheard = shard.engine.acks([AckMessage(one, b"", b"", b"") for one in subjects], shard.now)
    assert unheard == [b"$JS.ACK.S.C.", b"$JS.ACK.S.X."]
