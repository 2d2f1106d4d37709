"""Requests about very many subjects, filters or streams: the work grows with their number, not with its square."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.operations import growth
from tests.unit.api.conftest import Api

_TIMES = 8
_GROWTH_MAX = 2 * _TIMES


def _stream(api: Api, count: int) -> None:
    api.stream("S", subjects=[f"a.{number}" for number in range(count)])


def _stream_with_wildcards(api: Api, count: int) -> None:
    api.stream("S", subjects=[f"a.{number}.*" for number in range(count)])


def _update(api: Api, count: int) -> None:
    api.stream("S", subjects=["b"])
    config = {"name": "S", "subjects": [f"a.{number}" for number in range(count)]}
    for _ in range(2):
        assert "error" not in api.ask("STREAM.UPDATE.S", config)


def _two_streams(api: Api, count: int) -> None:
    for name in ("S", "T"):
        api.stream(name, subjects=[f"x.*.{name}.{number}" for number in range(count)])


def _streams(api: Api, count: int) -> None:
    for number in range(count):
        api.stream(f"KV_{number}", subjects=[f"$KV.{number}.>"])
        assert api.ask("STREAM.NAMES", {"subject": f"$KV.{number}.>"})["streams"] == [f"KV_{number}"]
        assert api.catalog.routes.stream_of(f"$KV.{number}.x") is api.catalog.streams[f"KV_{number}"]


def _filters(api: Api, count: int) -> None:
    api.stream("S", subjects=["a.>"])
    api.store("S", "a.1.x")
    config = {"name": "c", "ack_policy": "explicit", "filter_subjects": [f"a.{number}.*" for number in range(count)]}
    for _ in range(2):
        shown = api.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
        assert shown["num_pending"] == 1


def _work_queue(api: Api, count: int) -> None:
    api.stream("S", subjects=["a.>"], retention="workqueue", max_consumers=count)
    for number in range(count):
        config = {"name": f"c{number}", "ack_policy": "explicit", "filter_subject": f"a.{number}.*"}
        assert "error" not in api.ask(f"CONSUMER.CREATE.S.c{number}", {"stream_name": "S", "config": config})
    config = {"name": "last", "ack_policy": "explicit", "filter_subject": "a.*.x"}
    assert api.error("CONSUMER.CREATE.S.last", {"stream_name": "S", "config": config})[1] == 10026
    config["name"] = "c0"
    assert api.error("CONSUMER.CREATE.S.c0", {"stream_name": "S", "config": config})[1] == 10100


def _purges(api: Api, count: int) -> None:
    api.stream("S", subjects=["a.>"])
    for number in range(count):
        api.store("S", f"a.{number}.x")
    for number in range(count):
        config = {"name": f"c{number}", "ack_policy": "explicit", "filter_subject": f"a.{number}.*"}
        api.ask(f"CONSUMER.CREATE.S.c{number}", {"stream_name": "S", "config": config})
    assert api.ask("STREAM.PURGE.S", {"filter": "a.*.x"})["purged"] == count


def _listeners(api: Api, count: int) -> None:
    api.stream("S", subjects=["a.>"])
    for number in range(count):
        config = {"name": f"c{number}", "ack_policy": "none", "deliver_subject": f"to.{number}"}
        api.ask(f"CONSUMER.CREATE.S.c{number}", {"stream_name": "S", "config": config})
    for number in range(count):
        api.consumers.interest_changed(b"other.%d.*" % number, api.now_ns)


def _transforms(api: Api, count: int) -> None:
    mappings = [{"src": f"a.{number}.*", "dest": f"b.{number}"} for number in range(count)]
    api.stream("S", mirror={"name": "O", "subject_transforms": mappings})
    api.stream("T", subjects=["t"], sources=[{"name": "O", "subject_transforms": mappings}])


_WORKS = [
    *(_stream, _stream_with_wildcards, _update, _two_streams, _streams),
    *(_filters, _work_queue, _purges, _listeners, _transforms),
]


@pytest.mark.parametrize("work", _WORKS)
def test_work_grows_with_the_number(work: Callable[[Any, int], None]) -> None:
    """Eight times as many cost about eight times as much."""
    assert growth(lambda count: work(Api(), count), small=40, times=_TIMES) < _GROWTH_MAX
