"""The consumer endpoints where a comparison with nats-server does not look: counters, pages, times, generated names."""

from typing import Any

import pytest

SECOND = 10**9
HOUR = 3600 * SECOND


def create(api: Any, name: str, **config: Any) -> dict[str, Any]:
    """Create a consumer of stream S."""
    shown: dict[str, Any] = api.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    assert "error" not in shown
    return shown


def test_generated_name_is_not_configured(filled: Any) -> None:
    """A consumer without a name gets one that its configuration does not show; one that is asked for is shown."""
    shown = filled.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {}})
    assert len(shown["name"]) == 8
    assert "name" not in shown["config"]
    assert "name" not in filled.ask(f"CONSUMER.INFO.S.{shown['name']}")["config"]
    assert create(filled, "abcdefgh")["config"]["name"] == "abcdefgh"


def test_two_in_one_moment_have_two_names(filled: Any) -> None:
    """Requests of the same nanosecond get different names."""
    names = {filled.ask("CONSUMER.CREATE.S", {"stream_name": "S"})["name"] for _ in range(20)}
    assert len(names) == 20


def test_asking_again_changes_nothing(filled: Any) -> None:
    """The same request twice records the consumer once."""
    first = create(filled, "c", durable_name="c")
    rows = len(filled.rows)
    assert create(filled, "c", durable_name="c") == first
    assert len(filled.rows) == rows


def test_reset_is_not_counted(filled: Any) -> None:
    """Resetting counts neither as a request nor as an error, and without its consumer it is not answered."""
    create(filled, "c")
    before = (filled.account.api_total, filled.account.api_errors)
    assert filled.ask("CONSUMER.RESET.S.c", {"seq": 4})["reset_seq"] == 4
    assert filled.error("CONSUMER.RESET.S.c", "x")[1] == 10025
    assert filled.reply("CONSUMER.RESET.S.none") is None
    assert (filled.account.api_total, filled.account.api_errors) == before


def test_pause_tells_what_is_left(filled: Any) -> None:
    """A pause is told in nanoseconds and in the API level that it needs; it ends by itself."""
    create(filled, "c", durable_name="c")
    assert filled.ask("CONSUMER.PAUSE.S.c", {"pause_until": "2026-01-01T00:00:00Z"})["paused"] is True
    shown = filled.ask("CONSUMER.INFO.S.c")
    assert (shown["paused"], shown["config"]["metadata"]["_nats.req.level"]) == (True, "1")
    left = shown["pause_remaining"]
    filled.now_ns += left - 1
    assert filled.ask("CONSUMER.INFO.S.c")["pause_remaining"] == 1
    filled.now_ns += 1
    assert "paused" not in filled.ask("CONSUMER.INFO.S.c")


def test_resume_forgets_the_time(filled: Any) -> None:
    """A pause without a time resumes, and no time is shown any more."""
    create(filled, "c", pause_until="2200-01-01T00:00:00Z")
    assert filled.ask("CONSUMER.PAUSE.S.c")["pause_until"] == "0001-01-01T00:00:00Z"
    assert "pause_until" not in filled.ask("CONSUMER.INFO.S.c")["config"]


def test_push_bound_at_once(filled: Any) -> None:
    """The answer to a create request knows whether somebody listens, before the consumer is told."""
    filled.listened.add(b"d")
    assert create(filled, "c", deliver_subject="d")["push_bound"] is True
    assert "push_bound" not in create(filled, "e", deliver_subject="e")


def test_counts_follow(filled: Any) -> None:
    """The stream's and the account's info count consumers."""
    create(filled, "a")
    create(filled, "b")
    assert filled.ask("STREAM.INFO.S")["state"]["consumer_count"] == 2
    assert filled.ask("STREAM.LIST")["streams"][0]["state"]["consumer_count"] == 2
    assert filled.ask("INFO")["consumers"] == 2
    filled.ask("CONSUMER.DELETE.S.a")
    assert filled.ask("STREAM.INFO.S")["state"]["consumer_count"] == 1


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
def test_consumers_for_copies_of_other_servers(filled: Any, retention: str) -> None:
    """Where messages wait for consumers a copy has one durable, for ever; else a new one for each request."""
    filled.ask("STREAM.CREATE.C", {"name": "C", "subjects": ["c"], "retention": retention})
    asked = {"name": "JS_SRC_1", "deliver_subject": "d", "direct": True, "sourcing": True, "max_deliver": 1}
    flow = {"flow_control": True, "idle_heartbeat": SECOND, "ack_policy": "none", "ack_wait": HOUR}
    names = set()
    for _ in range(2):
        made = filled.ask("CONSUMER.CREATE.C", {"stream_name": "C", "config": asked | flow})
        names.add(made["name"])
    shown = {name: made["config"].get(name) for name in ("durable_name", "direct", "ack_policy", "max_deliver")}
    if retention == "limits":
        assert len(names) == 2
        assert shown == {"durable_name": None, "direct": True, "ack_policy": "none", "max_deliver": 1}
    else:
        assert names == {"JS_SRC_1"}
        assert shown == {"durable_name": "JS_SRC_1", "direct": None, "ack_policy": "flow_control", "max_deliver": -1}
    assert made["config"]["sourcing"] is True


def test_a_copy_of_another_stream_of_the_name_is_refused(filled: Any) -> None:
    """The reply to a copy has the stream's identity; who asks for another one learns which it is."""
    body = {"stream_name": "S", "config": {"direct": True, "deliver_subject": "d"}}
    header = b"NATS/1.0\r\nNats-Stream-Identity: other\r\n\r\n"
    code, err_code, text = filled.error("CONSUMER.CREATE.S.c", body, header=header)
    assert (code, err_code) == (400, 10225)
    identity = text.removeprefix("consumer's stream identity does not match: ")
    header = f"NATS/1.0\r\nNats-Stream-Identity: {identity}\r\n\r\n".encode()
    assert filled.ask("CONSUMER.CREATE.S.c", body, header=header)["name"] == "c"


def test_unpin_needs_the_group(filled: Any) -> None:
    """A group that the consumer does not have can not be unpinned, one that it has can."""
    create(filled, "c", priority_groups=["g"], priority_policy="pinned_client", priority_timeout=HOUR)
    assert filled.error("CONSUMER.UNPIN.S.c", {"group": "h"})[1] == 10160
    assert "error" not in filled.ask("CONSUMER.UNPIN.S.c", {"group": "g", "unknown": 1})
