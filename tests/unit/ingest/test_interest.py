"""The table of the hub's interest, against a plain list of subscriptions."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.protocol.interest import InterestTable
from ingest.protocol.wire_protocol import Interest

token = st.sampled_from([b"a", b"b", b"c"])
literal = st.lists(token, min_size=1, max_size=4).map(b".".join)
pattern = st.tuples(st.lists(token | st.just(b"*"), min_size=1, max_size=3), st.sampled_from([[], [b">"]])).map(
    lambda parts: b".".join(parts[0] + parts[1])
)
queue = st.sampled_from([b"", b"q1", b"q2"])
changes = st.lists(st.builds(Interest, pattern | st.just(b">"), queue, st.integers(0, 3)), max_size=40)


def takes(subscribed: bytes, subject: bytes) -> bool:
    """Whether a subscription takes a subject, by the definition."""
    pattern_tokens, tokens = subscribed.split(b"."), subject.split(b".")
    for place, step in enumerate(pattern_tokens):
        if step == b">":
            return place < len(tokens)
        if place >= len(tokens) or step not in (b"*", tokens[place]):
            return False
    return len(pattern_tokens) == len(tokens)


@given(changes, literal)
def test_interest_equals_that_of_a_list_of_subscriptions(announced: list[Interest], subject: bytes) -> None:
    """Whatever the hub announces, the answer is that of trying every subscription."""
    table, model = InterestTable(), {}
    for change in announced:
        table.apply(change)
        model[change.subject, change.queue] = change.weight
    live = {key: weight for key, weight in model.items() if weight}
    assert len(table) == len(live)
    assert table.has_interest(subject) == any(takes(subscribed, subject) for subscribed, _ in live)
    assert all(table.weight(*key) == weight for key, weight in live.items())
    assert table.queues(subject) == {group for subscribed, group in live if group and takes(subscribed, subject)}
    assert table.has_groups == any(group for _, group in live)


@given(changes)
def test_ending_all_interest_leaves_an_empty_table(announced: list[Interest]) -> None:
    """Nothing is kept of subscriptions that have ended."""
    table = InterestTable()
    for change in announced:
        table.apply(change)
    for change in announced:
        table.apply(Interest(change.subject, change.queue, 0))
    assert table == InterestTable()


@given(changes, changes)
def test_a_new_connection_reports_only_what_differs(before: list[Interest], after: list[Interest]) -> None:
    """Replaying the reported changes gives the new table's subscriptions, each reported once."""
    known: dict[tuple[bytes, bytes], bool] = {}
    reports: list[tuple[bytes, bytes]] = []

    def told(subject: bytes, group: bytes, added: bool) -> None:
        assert known.get((subject, group), False) is not added
        known[subject, group] = added
        reports.append((subject, group))

    table = InterestTable(on_change=told)
    for change in before:
        table.apply(change)
    reports.clear()
    fresh = InterestTable()
    for change in after:
        fresh.apply(change)
    table.replace(fresh)
    assert len(reports) == len(set(reports))
    assert {key for key, live in known.items() if live} == {key for key in known if table.weight(*key)}
    assert sum(known.values()) == len(table)


@given(changes, changes)
def test_who_comes_later_is_told_what_is_known_and_then_what_changes(
    before: list[Interest], after: list[Interest]
) -> None:
    """Someone who asks to be told knows in the end what the table knows."""
    table, told = InterestTable(), dict[tuple[bytes, bytes], bool]()
    for change in before:
        table.apply(change)
    table.tell(lambda subject, group, added: told.update({(subject, group): added}))
    for change in after:
        table.apply(change)
    assert {key for key, added in told.items() if added} == {key for key in told if table.weight(*key)}
    assert len(table) == sum(told.values())


def test_past_its_bound_the_table_wants_everything() -> None:
    """What can't be remembered must never be denied."""
    table = InterestTable(entries_max=2)
    for subject in (b"a", b"b", b"c"):
        table.apply(Interest(subject, b"", 1))
    assert len(table) == 2
    assert table.overflowed
    assert table.has_interest(b"anything")


def test_a_subject_of_thousands_of_tokens_is_matched() -> None:
    """Depth costs no recursion."""
    deep = b".".join([b"t"] * 2000)
    table = InterestTable()
    table.apply(Interest(deep + b".*", b"", 1))
    assert table.has_interest(deep + b".x")
    assert not table.has_interest(deep)
