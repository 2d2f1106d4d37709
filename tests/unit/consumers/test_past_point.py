"""The point of a consumer in its metadata, as requests give it and as it is kept."""

from typing import Any

import pytest

from consumers.config import past_point
from consumers.config.consumer_config import MachineConfig
from delta_store.config.api_errors import ApiRefusal
from delta_store.config.stream_config import StreamConfig
from delta_store.values.as_of import AsOf

NOW_NS = 1_790_000_000_000_000_000
HOUR_NS = 3_600_000_000_000


def config(metadata: dict[str, str] | None = None, **fields: Any) -> MachineConfig:
    """A configuration."""
    return MachineConfig(name="C", metadata=metadata or {}, **fields)


def test_body_and_metadata_mean_the_same() -> None:
    """What is Silt's own in a request's metadata does not count; two points are refused."""
    given = {"silt.as_of": "7", "silt.as_of.place": "1.1", "silt.as_of.asked": "1h", "mine": "x"}
    assert past_point.requested(config(given), None).metadata == {"silt.as_of": "7", "mine": "x"}
    assert past_point.requested(config(), "7").metadata == {"silt.as_of": "7"}
    assert past_point.requested(config({"silt.as_of": "7"}), "7").metadata == {"silt.as_of": "7"}
    assert past_point.requested(config({"silt.as_of.place": "1.1"}), None).metadata == {}
    with pytest.raises(ApiRefusal):
        past_point.requested(config({"silt.as_of": "7"}), "8")


def test_an_age_becomes_a_time() -> None:
    """Any other point stays as it was written."""
    for text in ("1h", "1000d ago"):
        asked = config({"silt.as_of": text})
        point = past_point.point_of(asked, NOW_NS)
        assert point is not None
        assert point.before_ns is not None
        kept = past_point.placed(asked, point, (4, 2)).metadata
        assert kept == {"silt.as_of": point.text, "silt.as_of.place": "4.2", "silt.as_of.asked": text}
        assert past_point.point_of(config(kept), NOW_NS + HOUR_NS) == point
    for text in ("7", "cut:C", "2026-01-31T12:00:00Z"):
        asked = config({"silt.as_of": text})
        point = past_point.point_of(asked, NOW_NS)
        assert point is not None
        kept = past_point.placed(asked, point, (4, 2)).metadata
        assert kept == {"silt.as_of": text, "silt.as_of.place": "4.2"}
    assert past_point.point_of(config(), NOW_NS) is None
    assert past_point.place_of({"silt.as_of": "7", "silt.as_of.place": "4.2"}) == (4, 2)
    assert past_point.place_of({"silt.as_of": "7"}) is None


@pytest.mark.parametrize("text", ["", "nonsense", "0", "cut:", "cut:a b", "9999999d"])
def test_nonsense_is_refused(text: str) -> None:
    """So is a consumer by which another server copies."""
    with pytest.raises(ApiRefusal, match=r"silt\.as_of"):
        past_point.point_of(config({"silt.as_of": text}), NOW_NS)
    with pytest.raises(ApiRefusal):
        past_point.point_of(config({"silt.as_of": "7"}, sourcing=True), NOW_NS)


def test_the_same_request_again_is_no_change() -> None:
    """Whether it repeats the age or gives the time that it meant; another point, or none, is one."""
    asked = config({"silt.as_of": "1h"})
    known = past_point.placed(asked, AsOf(before_ns=NOW_NS - HOUR_NS), (4, 2))
    for text in ("1h", known.metadata["silt.as_of"]):
        again = past_point.kept(config({"silt.as_of": text}), known)
        assert again == known
        past_point.check_unchanged(known, again)
    for other in (config({"silt.as_of": "2h"}), config()):
        with pytest.raises(ApiRefusal, match="it reads 20"):
            past_point.check_unchanged(known, past_point.kept(other, known))
    with pytest.raises(ApiRefusal, match="as it is"):
        past_point.check_unchanged(config(), past_point.kept(asked, config()))


def test_rules_of_queues_do_not_hold_for_the_past() -> None:
    """The stream's own configuration is what others see."""
    queue = StreamConfig("Q", ("q",), retention="workqueue")
    assert past_point.stream_read(config({"silt.as_of": "7"}), queue).retention == "limits"
    assert past_point.stream_read(config(), queue) is queue
