"""The comparison itself must see differences, or the differential test would prove nothing."""

from functools import partial
from typing import Any

import pytest

from tests.integration.differential import verdict as judging
from tests.integration.differential.allowed import Difference
from tests.integration.differential.transcript import Transcript, differences, normal_reply
from tests.wire import Reply


def _transcript(*steps: tuple[str, bytes, bytes]) -> Transcript:
    transcript = Transcript()
    for label, header, payload in steps:
        transcript.add(label, [Reply(header, payload)])
    return transcript


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {}),
        ({}, {"a": None}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": [1]}, {"a": []}),
        ({"a": None}, {"a": []}),
    ],
)
def test_unequal_values_are_named(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Each pair of unequal values gives exactly one line that starts with where it is."""
    lines = differences(one, other)
    assert len(lines) >= 1
    assert all(line.startswith("a") for line in lines)
    assert differences(one, one) == []


def test_header_order_counts() -> None:
    """The same header fields in another order are another reply."""
    one = normal_reply(Reply(b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n", b""))
    other = normal_reply(Reply(b"NATS/1.0\r\nB: 2\r\nA: 1\r\n\r\n", b""))
    assert differences(one, other)


def test_json_is_compared_as_it_is_written() -> None:
    """The order of keys and the escapes are differences although the value is the same."""
    one = normal_reply(Reply(b"", b'{"type":"x","a":"\\u003c"}'))
    assert differences(one, normal_reply(Reply(b"", b'{"a":"\\u003c","type":"x"}')))
    assert differences(one, normal_reply(Reply(b"", b'{"type":"x","a":"<"}')))
    assert differences(one, normal_reply(Reply(b"", b'{"type":"x", "a":"\\u003c"}')))


def test_acknowledgements_are_compared_to_the_byte() -> None:
    """A blank in a PubAck is a difference although the JSON is the same."""
    one = normal_reply(Reply(b"", b'{"stream":"S","seq":1,"duplicate": true}'))
    other = normal_reply(Reply(b"", b'{"stream":"S","seq":1,"duplicate":true}'))
    assert differences(one, other)


def test_malformed_times_are_not_hidden() -> None:
    """Only well-formed times become placeholders: trailing zeros, zones and the zero time stay visible."""
    times = ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.50Z", "2026-01-01T00:00:00+00:00", "0001-01-01T00:00:00Z")
    seen = [normal_reply(Reply(f"NATS/1.0\r\nNats-Time-Stamp: {time}\r\n\r\n".encode(), b"")) for time in times]
    assert [reply["headers"][0] == "Nats-Time-Stamp: <time>" for reply in seen] == [True, False, False, False]


def test_listed_difference_must_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of differences permits what it names, nothing beside it, and fails when it is out of date."""
    monkeypatch.setattr(judging, "AGAINST", "silt")
    listed = Difference("some", "step", ("[0].payload",), "two", "for the test", "")
    one, two, three = (_transcript(("step", b"", text)) for text in (b"one", b"two", b"three"))
    verdict = partial(judging.verdict, allowed=(listed,))
    assert verdict("some", [one], two) == []
    assert "equal now" in verdict("some", [one], one)[0]
    assert verdict("other", [one], two)
    assert verdict("some", [one], _transcript(("step", b"NATS/1.0\r\n\r\n", b"two")))
    assert "is meant to" in verdict("some", [one], three)[0]
    assert "no such step" in verdict("some", [_transcript()], _transcript())[0]


def test_any_of_nats_servers_answers_will_do() -> None:
    """What nats-server answered in one of two plays is right, and nothing else."""
    one, two, three = (_transcript(("step", b"", text)) for text in (b"one", b"two", b"three"))
    assert judging.verdict("some", [one, two], two) == []
    assert judging.verdict("some", [one, two], three)
    assert judging.verdict("some", [one], two)
