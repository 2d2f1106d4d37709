"""The journal in an object store behind a bad network: each commit is landed, lost or unknown, and never guessed."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NamedTuple

import pytest
from obstore.store import S3Store

from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import JournalReader
from delta_store.storage.object_storage import ObjectStorage
from delta_store.values.journal_errors import CommitUnknown, JournalPoisoned, StorageFailed
from tests.faults.s3_proxy import Fate, S3Proxy, is_entry_put, s3_proxy
from tests.groups import SHARD, SteppedClock, group, live_rows, sequences
from tests.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, s3_server, storage_options

COMMITS = 60
_BAD = tuple(fate for fate in Fate if fate is not Fate.WORKS)
_folders = iter(range(1 << 30))


class World(NamedTuple):
    """A server, and the proxy before it."""

    server: str
    proxy: S3Proxy

    def storage(self, folder: str, *, proxied: bool) -> ObjectStorage:
        """The journal's folder, reached directly or through the proxy, with little patience."""
        url = self.proxy.url if proxied else self.server
        store = S3Store(
            BUCKET,
            prefix=folder,
            endpoint=url,
            region=REGION,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            client_options={"allow_http": True, "timeout": "1500ms" if proxied else "20s"},
            retry_config={
                "max_retries": 1,
                "retry_timeout": timedelta(seconds=2),
                "backoff": {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(milliseconds=10)},
            },
        )
        return ObjectStorage(store, uri=f"s3://{BUCKET}/{folder}", options=storage_options(url))

    def stored(self, folder: str) -> list[int]:
        """The sequences that a reader finds."""
        return sequences(live_rows(JournalReader.read_only(self.storage(folder, proxied=False), shard=SHARD)))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """An S3 server with one bucket, and a proxy."""
    with s3_server() as server, s3_proxy(server.host, server.port) as proxy:
        yield World(server.url, proxy)


@pytest.fixture
def folder(world: World) -> Iterator[str]:
    """An empty folder; afterwards the proxy lets everything pass."""
    yield f"journal-{next(_folders)}"
    world.proxy.choose = lambda _head: Fate.WORKS


def owner(world: World, folder: str) -> Journal:
    """The journal, claimed through the proxy while it lets everything pass."""
    before, world.proxy.choose = world.proxy.choose, lambda _head: Fate.WORKS
    journal = Journal.open(world.storage(folder, proxied=True), shard=SHARD, clock=SteppedClock())
    journal.claim()
    world.proxy.choose = before
    return journal


def once(fate: Fate, chosen: Callable[[bytes], bool]) -> Callable[[bytes], Fate]:
    """This fate for the first request that is chosen."""
    left = [fate]
    return lambda head: left.pop() if left and chosen(head) else Fate.WORKS


@pytest.mark.parametrize("fate", _BAD)
def test_one_bad_answer_to_an_entry_is_settled(world: World, folder: str, fate: Fate) -> None:
    """Whether the entry had landed or not: the commit returns, and is in the log once."""
    journal = owner(world, folder)
    world.proxy.choose = once(fate, is_entry_put)
    journal.commit(group(1))
    journal.commit(group(2))
    assert world.stored(folder) == [1, 2]
    assert world.proxy.done[fate] >= 1


def test_a_store_that_stays_away_leaves_the_outcome_unknown(world: World, folder: str) -> None:
    """Whether the last entry landed can't be told: the owner stops, and the next one reads which."""
    for fate, landed in ((Fate.REPLY_LOST, True), (Fate.REQUEST_LOST, False)):
        journal = owner(world, folder)
        seen = world.stored(folder)
        world.proxy.choose = _away_from_entry(fate)
        with pytest.raises(CommitUnknown):
            journal.commit(group(len(seen) + 1))
        with pytest.raises(JournalPoisoned):
            journal.commit(group(len(seen) + 1))
        world.proxy.choose = lambda _head: Fate.WORKS
        assert world.stored(folder) == seen + [len(seen) + 1] * landed


def _away_from_entry(fate: Fate) -> Callable[[bytes], Fate]:
    """The file of rows arrives; with the entry's first put the store goes away."""
    gone: list[bool] = []

    def choose(head: bytes) -> Fate:
        if is_entry_put(head) and not gone:
            gone.append(True)
            return fate
        return Fate.REQUEST_LOST if gone else Fate.WORKS

    return choose


def test_a_store_that_is_away_before_the_entry_is_waited_for(world: World, folder: str) -> None:
    """No entry can name the file: the same rows are committed when the store is back."""
    journal = owner(world, folder)
    world.proxy.choose = lambda head: Fate.UNAVAILABLE if head.startswith(b"PUT ") else Fate.WORKS
    with pytest.raises(StorageFailed) as caught:
        journal.commit(group(1))
    assert caught.value.retryable
    world.proxy.choose = lambda _head: Fate.WORKS
    journal.commit(group(1))
    assert world.stored(folder) == [1]


def _some_fate(head: bytes, rng: random.Random) -> Fate:
    """One request in three fails; only a put may be answered by 200 with an error, and patience is for other tests."""
    if rng.random() > 1 / 3:
        return Fate.WORKS
    fate = rng.choice([fate for fate in _BAD if fate is not Fate.HALF_OPEN])
    is_put = head.startswith(b"PUT ")
    return fate if is_put or "error in its body" not in fate else Fate.UNAVAILABLE


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_commits_on_a_bad_day(world: World, folder: str, seed: int) -> None:
    """A third of all requests go wrong in some way: what was acknowledged is there once and in order, and no more."""
    rng = random.Random(seed)
    world.proxy.choose = lambda head: _some_fate(head, rng)
    before = world.proxy.done.copy()
    journal, acked, owners = owner(world, folder), 0, 1
    while acked < COMMITS:
        try:
            journal.commit(group(acked + 1))
        except (CommitUnknown, StorageFailed) as error:
            if error.retryable:
                continue
            found = world.stored(folder)
            assert found in (list(range(1, acked + 1)), list(range(1, acked + 2)))
            journal, acked, owners = owner(world, folder), len(found), owners + 1
        else:
            acked += 1
    assert world.stored(folder) == list(range(1, acked + 1))
    assert (world.proxy.done - before).total() > 2 * COMMITS
    assert owners < COMMITS // 4, "most bad answers are settled without a new owner"
