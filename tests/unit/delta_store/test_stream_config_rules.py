"""The rules of stream configurations, apart from the table that is held against a real nats-server."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.config.api_errors import ApiRefusal
from delta_store.config.history import HISTORY, own_history
from delta_store.config.stream_config import StreamConfig
from delta_store.streams.stream_config_rules import (
    normalise,
    same_config,
    with_required_level,
)
from delta_store.streams.stream_update_rules import checked_update

numbers = st.integers(min_value=-(2**63), max_value=2**63 - 1)
words = st.text(alphabet="ab.*> $é", max_size=6)
requests = st.fixed_dictionaries(
    {"name": words},
    optional={
        "subjects": st.lists(words, max_size=3),
        "description": words,
        "max_msgs": numbers,
        "max_bytes": numbers,
        "max_age": numbers,
        "max_msg_size": numbers,
        "max_msgs_per_subject": numbers,
        "max_consumers": numbers,
        "duplicate_window": numbers,
        "num_replicas": st.integers(-2, 8),
        "discard": st.sampled_from(["old", "new"]),
        "storage": st.sampled_from(["file", "memory"]),
        "retention": st.sampled_from(["limits", "interest", "workqueue"]),
        "compression": st.sampled_from(["none", "s2"]),
        "persist_mode": st.sampled_from(["", "async"]),
        "placement": st.fixed_dictionaries({}, optional={"cluster": words, "tags": st.lists(words, max_size=2)}),
        "consumer_limits": st.fixed_dictionaries({}, optional={"max_ack_pending": numbers}),
        "no_ack": st.booleans(),
        "allow_direct": st.booleans(),
        "deny_delete": st.booleans(),
        "deny_purge": st.booleans(),
        "metadata": st.dictionaries(words, words, max_size=2),
        "mirror": st.fixed_dictionaries({}, optional={"name": words}),
        "sources": st.lists(st.none() | st.fixed_dictionaries({}, optional={"name": words}), max_size=2),
        "subject_delete_marker_ttl": numbers,
    },
)


@given(requests, st.booleans())
def test_accepted_or_refused_and_then_stable(request: dict[str, Any], pedantic: bool) -> None:
    """Any request is accepted or refused by an error; what was accepted is accepted again, unchanged, from its JSON."""
    try:
        config = normalise(request, pedantic=pedantic)
    except ApiRefusal:
        return
    shown = config.as_json()
    assert normalise(shown, pedantic=pedantic) == config
    assert StreamConfig.from_json(shown) == config
    if config.num_replicas == 1:
        assert checked_update(config, config) == config


@pytest.mark.parametrize("text", ["30d", "2w", "1d12h", "12h30m", "0", "1.5h"])
def test_a_stream_may_say_how_long_its_past_is_kept(text: str) -> None:
    """By a duration, which may begin with weeks and days."""
    assert own_history(normalise({"name": "S", "metadata": {HISTORY: text}}).metadata) is not None


@pytest.mark.parametrize("text", ["", "d", "7", "-1h", "1d-1h", "h12", "1d2w", "for ever", "999999999w", "1d 2h"])
def test_nonsense_about_the_past_is_refused(text: str) -> None:
    """With an error that shows it and what it might be."""
    with pytest.raises(ApiRefusal, match="is no duration such as 30d, 12h or 0"):
        normalise({"name": "S", "metadata": {HISTORY: text}})
    assert own_history({HISTORY: text}) is None


@pytest.mark.parametrize("copied", [{"mirror": {"name": "O"}}, {"subjects": ["a"], "sources": [{"name": "O"}]}])
def test_no_window_stays_none(copied: dict[str, Any]) -> None:
    """Streams that copy have no duplicate window unless they ask for one, and none after a restart."""
    config = normalise({"name": "COPY", **copied})
    assert config.duplicate_window == 0
    assert StreamConfig.from_json(config.as_json()) == config


def test_required_level_replaces_what_replies_add() -> None:
    """Metadata that only replies carry is not kept; the level that the stream needs is ours to say."""
    given_metadata = {"_nats.ver": "x", "_nats.level": "9", "_nats.req.level": "7", "k": "v"}
    assert with_required_level(given_metadata, {}) == {"_nats.req.level": "0", "k": "v"}
    assert with_required_level(given_metadata, {"allow_msg_ttl": True}) == {"_nats.req.level": "1", "k": "v"}
    assert with_required_level(given_metadata, {"persist_mode": "async"}) == {"_nats.req.level": "2", "k": "v"}
    assert with_required_level(given_metadata, {"allow_batched": True}) == {"_nats.req.level": "4", "k": "v"}


def test_same_config_looks_past_reserved_metadata() -> None:
    """A stream is the same whatever its request said about levels and versions, but not with other metadata."""
    config = StreamConfig("S", subjects=("S",), metadata={"k": "v", "_nats.req.level": "0"})
    assert same_config(replace(config, metadata={"k": "v", "_nats.ver": "1"}), config)
    assert not same_config(replace(config, metadata={"k": "w"}), config)
    assert not same_config(replace(config, max_msgs=1), config)
