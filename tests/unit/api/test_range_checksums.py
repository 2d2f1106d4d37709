"""Checksums by range: the same messages have the same, however they are cut; any difference is found and named."""

from hypothesis import given
from hypothesis import strategies as st

from api.moving.range_checksums import (
    RANGE_SEQUENCES,
    MessageChecksums,
    RangeChecksums,
    difference,
    range_of,
    unequal,
    up_to,
)
from delta_store.values.stream_message import MessageRun, StreamMessage

STREAMS = st.lists(
    st.builds(
        lambda seq, header, data: StreamMessage(f"s.{seq % 7}", seq, 10**18 + seq, header, data),
        st.integers(1, 4 * RANGE_SEQUENCES),
        st.one_of(st.none(), st.just(b"NATS/1.0\r\nA: b\r\n\r\n")),
        st.binary(max_size=20),
    ),
    unique_by=lambda one: one.seq,
    max_size=30,
).map(lambda found: sorted(found, key=lambda one: one.seq))


def summed(messages: list[StreamMessage], cuts: list[int]) -> RangeChecksums:
    """The checksums of messages that come in several runs."""
    sums = RangeChecksums()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(messages)], strict=True):
        sums.add(MessageRun.of(messages[start:end]))
    return sums


@given(STREAMS, st.data())
def test_cuts_do_not_matter_and_differences_do(messages: list[StreamMessage], data: st.DataObject) -> None:
    """Equal streams have equal ranges; one that lost or changed a message differs in that range alone, by that one."""
    cuts = data.draw(st.lists(st.integers(0, len(messages)), max_size=4))
    whole = summed(messages, [])
    assert summed(messages, cuts).ranges == whole.ranges
    assert whole.messages == len(messages)
    if not messages:
        return
    at = data.draw(st.integers(0, len(messages) - 1))
    seq = messages[at].seq
    fewer = [*messages[:at], *messages[at + 1 :]]
    changed = [*messages[:at], messages[at]._replace(data=messages[at].data + b"!"), *messages[at + 1 :]]
    for other, missing, altered in ((fewer, (seq,), ()), (changed, (), (seq,))):
        places = unequal(whole.ranges, summed(other, cuts).ranges)
        assert places == [range_of(seq)]
        ours, theirs = MessageChecksums(places), MessageChecksums(places)
        ours.add(MessageRun.of(other))
        theirs.add(MessageRun.of(messages))
        found = difference(theirs.by_seq, ours.by_seq)
        assert (found.missing, found.altered, found.surplus) == (missing, altered, ())
        assert found
        assert str(seq) in str(found)
        assert not difference({}, theirs.by_seq)


@given(STREAMS, st.integers(0, 5 * RANGE_SEQUENCES))
def test_a_run_is_cut_at_a_sequence(messages: list[StreamMessage], seq: int) -> None:
    """As many messages as have sequences up to it."""
    assert up_to(MessageRun.of(messages), seq) == sum(one.seq <= seq for one in messages)
