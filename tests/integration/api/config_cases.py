"""The stream configurations that the differential test puts to nats-server and to Silt, and where they may differ."""

import json
from typing import Any, NamedTuple

Config = dict[str, Any] | str


class Step(NamedTuple):
    """One request: ``op`` is CREATE or UPDATE, the body a configuration or raw text."""

    op: str
    config: Config
    stream: str = "S"

    @property
    def body(self) -> bytes:
        """The request's body."""
        return (self.config if isinstance(self.config, str) else json.dumps(self.config)).encode()


def config(**fields: Any) -> dict[str, Any]:
    """A configuration of stream S."""
    return {"name": "S", **fields}


def created(**fields: Any) -> list[Step]:
    """Create alone."""
    return [Step("CREATE", config(**fields))]


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[Step]:
    """Create, then update."""
    return [Step("CREATE", config(**before)), Step("UPDATE", config(**after))]


def again(before: dict[str, Any], after: dict[str, Any]) -> list[Step]:
    """Create, then create again."""
    return [Step("CREATE", config(**before)), Step("CREATE", config(**after))]


SECOND = 10**9
OTHER = Step("CREATE", {"name": "T", "subjects": ["t.>", "u.*"]}, "T")

CASES: dict[str, list[Step]] = {
    "bare": created(),
    "all that Silt has": created(
        subjects=["a", "b.>"],
        description="d<&>",
        metadata={"k": "v", "a": "b"},
        max_msgs=1,
        max_bytes=2,
        max_age=SECOND,
        max_msg_size=3,
        max_msgs_per_subject=4,
        max_consumers=5,
        discard="new",
        duplicate_window=SECOND // 2,
        allow_direct=True,
        deny_delete=True,
        deny_purge=True,
        no_ack=True,
        num_replicas=1,
        storage="file",
    ),
    "defaults spelled out": created(
        retention="limits",
        compression="none",
        storage="file",
        discard="old",
        max_age=0,
        duplicate_window=0,
        max_msgs=-1,
        num_replicas=0,
        placement={},
        mirror=None,
        sources=[],
        first_seq=0,
        subject_transform=None,
        republish=None,
        mirror_direct=False,
        sealed=False,
        allow_rollup_hdrs=False,
        consumer_limits={},
        allow_msg_ttl=False,
        subject_delete_marker_ttl=0,
        allow_msg_counter=False,
        allow_atomic=False,
        allow_msg_schedules=False,
        persist_mode="default",
        allow_batched=False,
        discard_new_per_subject=False,
        pedantic=False,
    ),
    "memory": created(storage="memory"),
    "zero limits": created(max_msgs=0, max_bytes=0, max_msg_size=0, max_msgs_per_subject=0, max_consumers=0),
    "limits below -1": created(max_msgs=-2, max_bytes=-3, max_msg_size=-4, max_msgs_per_subject=-5, max_consumers=-6),
    "pedantic max_msgs": created(max_msgs=-2, pedantic=True),
    "pedantic max_bytes": created(max_bytes=-2, pedantic=True),
    "pedantic max_msg_size": created(max_msg_size=-2, pedantic=True),
    "pedantic max_msgs_per_subject": created(max_msgs_per_subject=-2, pedantic=True),
    "pedantic max_consumers": created(max_consumers=-2, pedantic=True),
    "pedantic window": created(max_age=SECOND, pedantic=True),
    "pedantic and fine": created(max_age=SECOND, duplicate_window=SECOND, pedantic=True),
    "window follows age": created(max_age=SECOND),
    "window equals age": created(max_age=SECOND, duplicate_window=SECOND),
    "window above age": created(max_age=SECOND, duplicate_window=2 * SECOND),
    "window negative": created(duplicate_window=-1),
    "window tiny": created(duplicate_window=99_999_999),
    "window least": created(duplicate_window=100_000_000),
    "age negative": created(max_age=-1),
    "age tiny": created(max_age=99_999_999),
    "replicas 3": created(num_replicas=3),
    "replicas 6": created(num_replicas=6),
    "replicas negative": created(num_replicas=-1),
    "description too long": created(description="x" * 4097),
    "description longest": created(description="é" * 2048),
    "metadata too big": created(metadata={"k": "x" * (128 * 1024)}),
    "metadata biggest": created(metadata={"k": "x" * (128 * 1024 - 18)}),
    "metadata just above": created(metadata={"k": "x" * (128 * 1024 - 17)}),
    "metadata reserved": created(
        metadata={"_nats.ver": "x", "_nats.level": "9", "_nats.req.level": "7", "_nats.x": "y"}
    ),
    "subject empty": created(subjects=[""]),
    "subject null": created(subjects=[None]),
    "subject with space": created(subjects=["a b"]),
    "subject empty token": created(subjects=["a..b"]),
    "subject open inside": created(subjects=["a.>.b"]),
    "subject star inside": created(subjects=["a*.b>"]),
    "subject ends in dot": created(subjects=["a."]),
    "subjects repeated": created(subjects=["a", "a"]),
    "subjects overlap": created(subjects=["a.*", "a.b"]),
    "subjects overlap far": created(subjects=["a.>", "b", "*.c"]),
    "subjects apart": created(subjects=["a.*", "a.b.c", "b.>"]),
    "everything": created(subjects=[">"]),
    "everything without ack": created(subjects=[">"], no_ack=True),
    "api space": created(subjects=["$JS.API.>"]),
    "api space hidden": created(subjects=["*.API.x"]),
    "api events": created(subjects=["$JS.EVENT.>"]),
    "api without ack": created(subjects=["$JS.API.x"], no_ack=True),
    "consumer space": created(subjects=["$JSC.x"]),
    "raft space": created(subjects=["$NRG.x"]),
    "system space": created(subjects=["$SYS.x"]),
    "system accounts": created(subjects=["$SYS.ACCOUNT.>"]),
    "kv space": created(subjects=["$KV.b.>"]),
    "overlap with another stream": [OTHER, *created(subjects=["t.x"])],
    "apart from another stream": [OTHER, *created(subjects=["u.x.y"])],
    "name taken as subject": [Step("CREATE", {"name": "T", "subjects": ["S"]}, "T"), *created()],
    "empty body": [Step("CREATE", "")],
    "name missing": [Step("CREATE", "{}")],
    "name differs": [Step("CREATE", {"name": "X"})],
    "name with slash": [Step("CREATE", {"name": "a/b"}, "a/b")],
    "name with backslash": [Step("CREATE", {"name": "a\\b"}, "a\\b")],
    "name too long": [Step("CREATE", {"name": "n" * 256}, "n" * 256)],
    "name longest": [Step("CREATE", {"name": "n" * 255}, "n" * 255)],
    "name of bytes": [Step("CREATE", {"name": "é"}, "é")],
    "update: slash": [Step("UPDATE", {"name": "a/b"}, "a/b")],
    "update: missing stream": [Step("UPDATE", config())],
    "update: name differs": [*created(), Step("UPDATE", {"name": "X"})],
    "update: invalid first": [Step("UPDATE", {"name": "X", "max_age": -1})],
    "unknown field": created(xyz=1),
    "wrong type": created(max_msgs="x"),
    "sealed": created(sealed=True),
    "mirror_direct alone": created(mirror_direct=True),
    "rollup and deny_purge": created(allow_rollup_hdrs=True, deny_purge=True),
    "new per subject without new": created(discard_new_per_subject=True),
    "new per subject without limit": created(discard_new_per_subject=True, discard="new"),
    "counter and new": created(allow_msg_counter=True, discard="new"),
    "counter and ttl": created(allow_msg_counter=True, allow_msg_ttl=True),
    "counter and schedules": created(allow_msg_counter=True, allow_msg_schedules=True),
    "counter and interest": created(allow_msg_counter=True, retention="interest"),
    "schedules and new": created(allow_msg_schedules=True, discard="new"),
    "marker ttl tiny": created(subject_delete_marker_ttl=1),
    "marker ttl negative": created(subject_delete_marker_ttl=-1),
    "marker ttl pedantic": created(subject_delete_marker_ttl=SECOND, pedantic=True),
    "async in memory": created(persist_mode="async", storage="memory"),
    "async and atomic": created(persist_mode="async", allow_atomic=True),
    "async replicated": created(persist_mode="async", num_replicas=3),
    "placement preferred": created(placement={"preferred": "x"}),
    "mirror with subjects": created(mirror={"name": "M"}, subjects=["a"]),
    "mirror with sources": created(mirror={"name": "M"}, sources=[{"name": "N"}]),
    "mirror with first_seq": created(mirror={"name": "M"}, first_seq=5),
    "mirror without name": created(mirror={}),
    "mirror and counters": created(mirror={"name": "M"}, allow_msg_counter=True),
    "mirror and atomic": created(mirror={"name": "M"}, allow_atomic=True),
    "mirror and batched": created(mirror={"name": "M"}, allow_batched=True),
    "mirror and schedules": created(mirror={"name": "M"}, allow_msg_schedules=True),
    "source without name": created(sources=[{}]),
    "source null": created(sources=[None]),
    "source and schedules": created(sources=[{"name": "N"}], allow_msg_schedules=True),
    "same again": again({"subjects": ["a"], "metadata": {"k": "v"}}, {"subjects": ["a"], "metadata": {"k": "v"}}),
    "same again by defaults": again({}, {"subjects": ["S"], "max_msgs": -1, "duplicate_window": 120 * SECOND}),
    "same again with level": again({}, {"metadata": {"_nats.req.level": "5"}}),
    "other subjects again": again({}, {"subjects": ["b"]}),
    "other order again": again({"subjects": ["a", "b"]}, {"subjects": ["b", "a"]}),
    "other metadata again": again({}, {"metadata": {"k": "v"}}),
    "other storage again": again({}, {"storage": "memory"}),
    "invalid again": again({}, {"max_age": -1}),
    "update: nothing": changed({}, {}),
    "update: limits": changed({}, {"max_msgs": 5, "max_bytes": 6, "max_age": SECOND, "max_msg_size": 7}),
    "update: limits away": changed({"max_msgs": 5, "max_age": SECOND}, {}),
    "update: subjects": changed({"subjects": ["a"]}, {"subjects": ["b", "c.>"]}),
    "update: subjects away": changed({"subjects": ["a"]}, {}),
    "update: subjects overlap": [OTHER, *changed({"subjects": ["a"]}, {"subjects": ["t.x"]})],
    "update: storage": changed({}, {"storage": "memory"}),
    "update: to workqueue": changed({}, {"retention": "workqueue"}),
    "update: replicas": changed({}, {"num_replicas": 3}),
    "update: discard": changed({}, {"discard": "new"}),
    "update: deny_delete on": changed({}, {"deny_delete": True}),
    "update: deny_delete off": changed({"deny_delete": True}, {}),
    "update: deny_purge on": changed({}, {"deny_purge": True}),
    "update: deny_purge off": changed({"deny_purge": True}, {}),
    "update: both off": changed({"deny_purge": True, "deny_delete": True}, {}),
    "update: allow_direct": changed({}, {"allow_direct": True}),
    "update: allow_direct off": changed({"allow_direct": True}, {}),
    "update: per subject": changed({"max_msgs_per_subject": 5}, {"max_msgs_per_subject": 2}),
    "update: consumers": changed({}, {"max_consumers": 2}),
    "update: description": changed({"description": "a"}, {"description": "b"}),
    "update: metadata": changed({"metadata": {"a": "1"}}, {"metadata": {"b": "2", "_nats.ver": "0"}}),
    "update: metadata away": changed({"metadata": {"a": "1"}}, {}),
    "update: window": changed({}, {"duplicate_window": SECOND}),
    "update: window above age": changed({}, {"max_age": SECOND, "duplicate_window": 2 * SECOND}),
    "update: no_ack": changed({}, {"no_ack": True}),
    "update: mirror": changed({}, {"mirror": {"name": "M"}}),
    "update: counter": changed({}, {"allow_msg_counter": True}),
    "update: async": changed({}, {"persist_mode": "async"}),
    "update: pedantic": changed({}, {"max_msgs": -2, "pedantic": True}),
    "update: mirror_direct": changed({}, {"mirror_direct": True}),
    "placement": created(placement={"cluster": "c"}),
    "mirror": created(mirror={"name": "M"}),
    "sources": created(sources=[{"name": "N"}]),
    "first_seq": created(first_seq=5),
    "subject_transform": created(subject_transform={"src": "S", "dest": "x"}),
    "republish": created(republish={"src": "S", "dest": "x"}),
    "new per subject": created(discard_new_per_subject=True, discard="new", max_msgs_per_subject=1),
    "republish empty": created(republish={}),
    "subject_transform empty": created(subject_transform={}),
    "consumer_limits of zeros": created(consumer_limits={"max_ack_pending": 0, "inactive_threshold": 0}),
    "placement of nothing": created(placement={"cluster": ""}),
    "republish onto itself": created(republish={"src": "S", "dest": "S"}),
    "rollup": created(allow_rollup_hdrs=True),
    "consumer_limits": created(consumer_limits={"max_ack_pending": 5}),
    "ttl": created(allow_msg_ttl=True),
    "marker ttl": created(subject_delete_marker_ttl=SECOND),
    "counter": created(allow_msg_counter=True),
    "atomic": created(allow_atomic=True),
    "schedules": created(allow_msg_schedules=True),
    "async": created(persist_mode="async"),
    "batched": created(allow_batched=True),
    "interest": created(retention="interest"),
    "workqueue": created(retention="workqueue"),
    "s2": created(compression="s2"),
    "update: sealed": changed({}, {"sealed": True}),
    "update: interest": changed({}, {"retention": "interest"}),
    "update: batched": changed({}, {"allow_batched": True}),
    "update: batched off": changed({"allow_batched": True}, {}),
    "update: rollup": changed({}, {"allow_rollup_hdrs": True}),
}

DELIBERATE: dict[str, str] = {
    "schedules": "allow_msg_schedules",
}
"""Cases whose last step nats-server accepts and Silt refuses with 10052, naming this field: it does not have it yet."""
