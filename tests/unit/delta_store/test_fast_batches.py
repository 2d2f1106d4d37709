"""Open fast batches: when they are acknowledged, and when they are given up."""

from hypothesis import given
from hypothesis import strategies as st

from delta_store.streams.fast_batches import FastBatch, FastBatches

SECOND = 1_000_000_000


def opened(batches: FastBatches, batch_id: bytes, *, flow: int = 10, now_ns: int = 0) -> FastBatch:
    """A new batch."""
    return batches.open(batch_id, gap_ok=False, flow=flow, now_ns=now_ns)


def test_the_first_batch_gets_what_it_wants() -> None:
    """A batch alone begins with its own flow, at most 500; one that joins others with 1."""
    assert opened(FastBatches(), b"a", flow=65535).flow == 500
    batches = FastBatches()
    assert [opened(batches, name, flow=20).flow for name in (b"a", b"b")] == [20, 1]


@given(st.integers(1, 65535), st.lists(st.tuples(st.integers(1, 900), st.integers(1, 1000)), max_size=60))
def test_acknowledged_often_enough(flow: int, steps: list[tuple[int, int]]) -> None:
    """Fewer messages than the flow are left unacknowledged, and the flow stays within the publisher's bound."""
    batch = opened(FastBatches(), b"a", flow=flow)
    for more, open_batches in steps:
        batch.last += more
        before, every = batch.acked, batch.flow
        if batch.due(open_batches):
            assert (batch.acked - before) % every == 0
            assert batch.acked > before
        else:
            assert batch.acked == before
        assert batch.last - batch.acked < every
        assert 1 <= batch.flow <= min(flow, 500)


def test_the_flow_follows_the_share() -> None:
    """It is doubled or halved towards 500 messages for all batches together."""
    batch = opened(FastBatches(), b"a", flow=400)
    seen = []
    for open_batches in (4, 4, 100, 100, 100, 100, 100, 1, 1, 1, 1, 1, 1, 1):
        batch.last += batch.flow
        assert batch.due(open_batches)
        seen.append(batch.flow)
    assert seen == [200, 125, 62, 31, 15, 7, 5, 10, 20, 40, 80, 160, 320, 400]


def test_silent_batches_are_given_up() -> None:
    """Ten seconds after its last message a batch is gone, found or not; one that goes on stays."""
    batches = FastBatches()
    for name in (b"a", b"b", b"c"):
        opened(batches, name)
    batches[b"b"].touched_ns = 5 * SECOND
    assert batches.find(b"a", 10 * SECOND) is not None
    assert batches.find(b"a", 10 * SECOND + 1) is None
    batches.forget(12 * SECOND)
    assert list(batches) == [b"b"]
    batches.forget(16 * SECOND)
    assert not batches
