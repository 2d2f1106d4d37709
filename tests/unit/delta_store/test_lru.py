"""The bounded cache against a list of what was used last."""

from hypothesis import given
from hypothesis import strategies as st

from delta_store.values.lru import Lru

KEYS = st.integers(0, 6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 12)),
        st.tuples(st.sampled_from(["get", "peek", "pop"]), KEYS, st.just(0)),
        st.tuples(st.just("clear"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Model:
    """Keys with values (which are their own sizes), the one used last at the end."""

    def __init__(self, most: int, least: int, *, counted: bool) -> None:
        self.most, self.least, self.counted = most, least, counted
        self.kept: list[tuple[int, int]] = []

    def size(self) -> int:
        """What all values come to."""
        return sum(1 if self.counted else value for _, value in self.kept)

    def put(self, key: int, value: int) -> list[int]:
        """Keep it, and give what leaves."""
        self.pop(key)
        if (1 if self.counted else value) > self.most and not self.least:
            return []
        self.kept.append((key, value))
        left = []
        while self.size() > self.most and len(self.kept) > self.least:
            left.append(self.kept.pop(0)[1])
        return left

    def peek(self, key: int) -> int | None:
        """Look without using."""
        return dict(self.kept).get(key)

    def pop(self, key: int) -> int | None:
        """Forget it."""
        found = self.peek(key)
        self.kept = [pair for pair in self.kept if pair[0] != key]
        return found

    def get(self, key: int) -> int | None:
        """Look and use."""
        found = self.pop(key)
        self.kept += [] if found is None else [(key, found)]
        return found


@given(STEPS, st.integers(0, 20), st.integers(0, 3), st.booleans())
def test_any_history_is_the_models(steps: list[tuple[str, int, int]], most: int, least: int, counted: bool) -> None:
    """Whatever is put, used, looked at and forgotten, cache and model hold the same in the same order."""
    cache: Lru[int, int] = Lru(most, least=least) if counted else Lru(most, lambda value: value, least=least)
    model = Model(most, least, counted=counted)
    for verb, key, value in steps:
        if verb == "put":
            assert cache.put(key, value) == model.put(key, value)
        elif verb == "clear":
            cache.clear()
            model.kept.clear()
        else:
            assert getattr(cache, verb)(key) == getattr(model, verb)(key)
        assert list(cache.items()) == model.kept
        assert (cache.size, len(cache)) == (model.size(), len(model.kept))
        assert all((key in cache) == (model.peek(key) is not None) for key in range(7))
        assert cache.size <= most or len(cache) <= least


def test_what_is_larger_than_all_leaves_the_others_alone() -> None:
    """It is not kept, and nothing goes for it; where one may always stay, it stays alone."""
    cache: Lru[str, bytes] = Lru(10, len)
    assert not cache.put("a", b"x" * 6)
    assert not cache.put("b", b"x" * 11)
    assert [key for key, _ in cache.items()] == ["a"]
    always: Lru[str, bytes] = Lru(10, len, least=1)
    always.put("a", b"x" * 6)
    assert always.put("b", b"x" * 11) == [b"x" * 6]
    assert always.get("b") == b"x" * 11
