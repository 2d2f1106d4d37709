"""The rules of consumer configurations: defaults, refusals in their order, updates, names, other consumers."""

from typing import Any

import pytest

from consumers.config import consumer_create_rules as creating
from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_config_rules import check, drafted, required_level, with_defaults, with_required_level
from delta_store.config.api_errors import ApiRefusal
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ConsumerLimits

SECOND = 10**9
STREAM = StreamConfig("S", ("s.>",))
LIMITED = StreamConfig("S", ("s.>",), consumer_limits=ConsumerLimits(60 * SECOND, 50))


def valid(stream: StreamConfig = STREAM, *, pedantic: bool = False, **request: Any) -> MachineConfig:
    """The configuration that a request leads to."""
    config = with_defaults(with_required_level(drafted(request)), stream, pedantic=pedantic)
    check(config, stream, starts_at_time="opt_start_time" in request)
    return config


def refusal(stream: StreamConfig = STREAM, *, pedantic: bool = False, **request: Any) -> tuple[int, str]:
    """err_code and text of a request's refusal."""
    with pytest.raises(ApiRefusal) as refused:
        valid(stream, pedantic=pedantic, **request)
    return refused.value.err_code, refused.value.description


def test_pull_defaults() -> None:
    """A bare pull consumer has nats-server's defaults."""
    config = valid()
    assert (config.max_deliver, config.max_waiting, config.max_ack_pending, config.ack_wait) == (-1, 512, 0, 0)


def test_ack_defaults() -> None:
    """Who wants acks waits 30 s for at most 1000; the first backoff goes before the wait."""
    config = valid(ack_policy="explicit")
    assert (config.ack_wait, config.max_ack_pending) == (30 * SECOND, 1000)
    assert valid(ack_policy="explicit", backoff=[5, 6], ack_wait=9).ack_wait == 5


def test_stream_limits_are_defaults() -> None:
    """What the stream bounds is its bound by default, and an error when pedantic."""
    config = valid(LIMITED)
    assert (config.inactive_threshold, config.max_ack_pending) == (60 * SECOND, 50)
    assert refusal(LIMITED, pedantic=True)[0] == 10157
    assert refusal(LIMITED, max_ack_pending=51) == (10121, "consumer max ack pending exceeds system limit of 50")
    assert refusal(LIMITED, inactive_threshold=61 * SECOND)[1].endswith("system limit of 1m0s")


def test_flow_acks_switch_flow_control_on() -> None:
    """Acks by flow control bring flow control and heartbeats along, unless the request is pedantic."""
    config = valid(ack_policy="flow_control", deliver_subject="d")
    assert (config.flow_control, config.idle_heartbeat, required_level(config)) == (True, SECOND, 4)
    assert refusal(pedantic=True, ack_policy="flow_control", deliver_subject="d")[0] == 10219


def test_first_fault_is_told() -> None:
    """A configuration with several faults gets the error of nats-server's first check."""
    faults: dict[str, Any] = {
        "sample_freq": "x",
        "filter_subjects": [""],
        "deliver_subject": "s.a",
        "num_replicas": 3,
        "ack_wait": -1,
    }
    seen = []
    for fixed in ("num_replicas", "ack_wait", "deliver_subject", "filter_subjects", "sample_freq"):
        seen.append(refusal(**faults)[0])
        del faults[fixed]
    assert seen == [10126, 10183, 10081, 10139, 10095]
    assert valid(**faults).max_deliver == -1


def test_epoch_is_a_start_time() -> None:
    """A start time of 1970 is a time, not the absence of one."""
    assert valid(deliver_policy="by_start_time", opt_start_time=0).opt_start_time == 0
    assert refusal(deliver_policy="by_start_time")[0] == 10094
    assert refusal(opt_start_time=0)[0] == 10094


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x%", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("9223372036854775808", 'strconv.Atoi: parsing "9223372036854775808": value out of range'),
        ("-1", "<nil>"),
    ],
)
def test_sampling_is_an_integer(text: str, reason: str) -> None:
    """A sampling frequency that Go does not read is refused in Go's words."""
    assert refusal(sample_freq=text) == (10095, f"failed to parse consumer sampling configuration: {reason}")
    assert valid(sample_freq="9223372036854775807").sample_freq == "9223372036854775807"


def test_null_items_are_zero_values() -> None:
    """Null in a list is Go's zero value."""
    assert valid(backoff=[None, 2]).backoff == (0, 2)
    assert refusal(filter_subjects=[None])[0] == 10139


def test_update_keeps_what_is_fixed() -> None:
    """An update changes limits, and is refused when it changes the deliver policy or the mode."""
    before = valid(name="c", ack_policy="explicit")
    after = valid(name="c", ack_policy="explicit", max_deliver=5)
    assert creating.checked_update(before, after, interested=lambda _: True) == after
    pushed = valid(name="c", ack_policy="explicit", deliver_subject="d")
    with pytest.raises(ApiRefusal, match="deliver policy can not be updated"):
        creating.checked_update(before, valid(name="c", deliver_policy="new"), interested=lambda _: True)
    with pytest.raises(ApiRefusal, match="can not update pull consumer to push based"):
        creating.checked_update(before, pushed, interested=lambda _: True)


def test_deliver_subject_changes_while_nobody_listens() -> None:
    """Only a deliver subject that nobody listens to can be replaced."""
    before, after = valid(name="c", deliver_subject="d"), valid(name="c", deliver_subject="e")
    assert creating.checked_update(before, after, interested=lambda _: False) == after
    with pytest.raises(ApiRefusal) as refused:
        creating.checked_update(before, after, interested=lambda subject: subject == b"d")
    assert refused.value.err_code == 10013


def test_workqueue_consumers_share_nothing() -> None:
    """On a workqueue stream filters may not overlap, and a second consumer needs one."""
    queue = StreamConfig("S", ("s.>",), retention="workqueue")
    company = creating.Company()
    company.join(valid(queue, name="a", ack_policy="explicit", filter_subject="s.a.*"), queue)
    free = valid(queue, name="b", ack_policy="explicit", filter_subject="s.b")
    creating.check_new(free, queue, company=company)
    for wanted, code in (("s.*.x", 10100), ("", 10099)):
        config = valid(queue, name="b", ack_policy="explicit", filter_subject=wanted)
        with pytest.raises(ApiRefusal) as refused:
            creating.check_new(config, queue, company=company)
        assert refused.value.err_code == code


def test_consumers_are_limited() -> None:
    """``max_consumers`` counts all but direct consumers."""
    stream = StreamConfig("S", ("s.>",), max_consumers=1)
    one, direct = valid(name="a"), valid(name="d", direct=True, deliver_subject="d")
    company = creating.Company()
    company.join(direct, stream)
    creating.check_new(one, stream, company=company)
    company.join(one, stream)
    creating.check_new(direct, stream, company=company)
    with pytest.raises(ApiRefusal) as refused:
        creating.check_new(valid(name="b"), stream, company=company)
    assert refused.value.err_code == 10026


def test_generated_names_are_known_again() -> None:
    """A name made from a seed has 8 characters, avoids those that are taken, and is recognised by its seed."""
    first = creating.generated_name("seed", lambda _: False)
    second = creating.generated_name("seed", lambda name: name == first)
    assert len(first) == 8
    assert first != second
    assert creating.is_generated(second, "seed")
    assert not creating.is_generated(first, "another")


def test_same_config_ignores_the_level() -> None:
    """Creating a consumer again compares all but the API level that the server keeps in the metadata."""
    one = valid(name="c", metadata={"a": "b"})
    assert creating.same_config(one, valid(name="c", metadata={"a": "b", "_nats.req.level": "9"}))
    assert not creating.same_config(one, valid(name="c"))
