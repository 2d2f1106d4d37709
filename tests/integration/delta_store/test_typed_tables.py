"""Typed tables beside ``messages``, kept as the settle job keeps them: every message once, in the table or its dlq."""

import itertools
import json
import random
from pathlib import Path
from unittest import mock

import pytest

from delta_store.beside.beside_table import BesideTable
from delta_store.entries.beside_entry import Change
from delta_store.values.journal_errors import CommitUnknown, StorageFailed
from tests.typed_store import NUMBERS, WORDS, TypedStore


@pytest.fixture
def store(tmp_path: Path) -> TypedStore:
    """An empty store."""
    return TypedStore(tmp_path)


def _publish(store: TypedStore, *numbers: object, name: str = "S") -> None:
    for place, number in enumerate(numbers):
        store.tick()
        store.publish(name, f"k{place % 3}", json.dumps({"n": number}).encode())


def test_every_message_is_in_the_table_or_its_dead_letters(store: TypedStore) -> None:
    """Whether it came with the batch that made the table, with the next, or while the process ended."""
    store.typed_stream("S", NUMBERS)
    _publish(store, 1, "x", 3)
    store.settle()
    _publish(store, 4, 5.5)
    store.settle()
    _publish(store, 6, None)
    store.settle(ends_before_typed=True)
    store.caught_up()
    assert store.table("S").select(["seq", "n"]).to_pylist() == [{"seq": n, "n": n} for n in (1, 3, 4, 6)]
    assert store.rejected("S") == [2, 5, 7]


def test_a_schema_grows(store: TypedStore) -> None:
    """A new column is there for what comes after."""
    store.typed_stream("S", NUMBERS)
    _publish(store, 1)
    store.settle()
    store.update("S", WORDS)
    store.publish("S", "k", b'{"n":2,"word":"two"}')
    store.settle()
    store.publish("S", "k", b'{"n":3,"word":"three"}')
    store.settle()
    store.caught_up()
    assert store.table("S")["word"].to_pylist() == [None, "two", "three"]


class _Walk:
    """A random history of a stream with a typed table, with failures, and what the table must then have."""

    def __init__(self, store: TypedStore, seed: int, *, kind: str) -> None:
        self.store, self.random, self.kind = store, random.Random(seed), kind
        self.schemas = itertools.cycle([WORDS, NUMBERS])
        self.payloads: dict[int, tuple[str, bytes, bool]] = {}
        store.typed_stream("S", NUMBERS, table=kind)

    def step(self) -> None:
        """Do something."""
        deeds = (
            [self._publish] * 4
            + [self._settle] * 3
            + [self._delete, self._clean, self._fail, self._renew, self._restart]
        )
        self.random.choice(deeds)()

    def check(self) -> None:
        """Compare, once all is settled, cleaned and caught up."""
        self.store.settle()
        self.store.clean("S")
        for stream in self.store.typed._streams.values():
            stream.rest_until = 0.0
        self.store.caught_up()
        live = self.store.live("S")
        fits = [seq for seq in live if self._fits(seq)]
        if self.kind == "latest":
            newest = {self.payloads[seq][0]: seq for seq in live}
            fits = [seq for seq in sorted(newest.values()) if self._fits(seq)]
        rows = self.store.table("S")
        assert rows["seq"].to_pylist() == fits
        assert rows["n"].to_pylist() == [json.loads(self.payloads[seq][1])["n"] for seq in fits]
        assert rows["subject"].to_pylist() == [self.payloads[seq][0] for seq in fits]
        misfits = [seq for seq in live if not self._fits(seq) and not self.payloads[seq][2]]
        assert self.store.rejected("S") == misfits

    def _fits(self, seq: int) -> bool:
        _, payload, marker = self.payloads[seq]
        return not marker and b'"x"' not in payload

    def _publish(self) -> None:
        for _ in range(self.random.randrange(1, 9)):
            token, marker = f"k{self.random.randrange(4)}", self.random.random() < 0.1
            payload = b"" if marker else json.dumps({"n": self.random.choice([1, 2, 3, "x"])}).encode()
            self.store.tick()
            headers = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n" if marker else None
            seq = self.store.publish("S", token, payload, headers=headers)
            self.payloads[seq] = (f"S.{token}", payload, marker)

    def _settle(self) -> None:
        self.store.settle(ends_before_typed=self.random.random() < 0.2)

    def _delete(self) -> None:
        live = self.store.live("S")
        if live:
            seq, now_ns = self.random.choice(live), self.store.tick()
            self.store.catalog.remove("S", seq, now_ns=now_ns, rows=self.store.rows)

    def _clean(self) -> None:
        self._settle()
        self.store.clean("S")
        if self.random.random() < 0.5:
            self.store.caught_up()

    def _fail(self) -> None:
        """Let one of the next commits fail, before or after it is made."""
        left, after = self.random.randrange(3), self.random.random() < 0.5
        put = BesideTable._put

        def failing(table: BesideTable, change: Change) -> int:
            nonlocal left
            left -= 1
            if left == 0 and not after:
                raise StorageFailed("x", "no more")
            version = put(table, change)
            if left == 0:
                raise CommitUnknown(version)
            return version

        with mock.patch.object(BesideTable, "_put", failing):
            self._publish()
            self._settle()
            self.store.caught_up()
        self._restart()

    def _renew(self) -> None:
        if self.random.random() < 0.5:
            self.store.update("S", None)
            self._settle()
        self.store.update("S", next(self.schemas), table=self.kind)

    def _restart(self) -> None:
        self.store.start()


@pytest.mark.parametrize("kind", ["append", "latest"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_each_message_is_in_one_place(store: TypedStore, seed: int, kind: str) -> None:
    """In the table or its dead letters, once, as long as it is in ``messages``."""
    walk = _Walk(store, seed, kind=kind)
    for _ in range(40):
        walk.step()
    walk.check()
