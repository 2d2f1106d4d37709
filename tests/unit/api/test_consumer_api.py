"""The consumer endpoints where a comparison with nats-server does not look: counters, pages, times, generated names."""

from typing import Any

HOUR = 3600 * 10**9


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


def test_sourcing_is_refused_by_name(filled: Any) -> None:
    """What Silt does not have is not silently ignored."""
    body = {"stream_name": "S", "config": {"sourcing": True, "deliver_subject": "d"}}
    assert filled.error("CONSUMER.CREATE.S.c", body) == (500, 10012, "sourcing is not supported by Silt yet")
    assert filled.ask("CONSUMER.NAMES.S")["consumers"] == []


def test_unpin_needs_the_group(filled: Any) -> None:
    """A group that the consumer does not have can not be unpinned, one that it has can."""
    create(filled, "c", priority_groups=["g"], priority_policy="pinned_client", priority_timeout=HOUR)
    assert filled.error("CONSUMER.UNPIN.S.c", {"group": "h"})[1] == 10160
    assert "error" not in filled.ask("CONSUMER.UNPIN.S.c", {"group": "g", "unknown": 1})
