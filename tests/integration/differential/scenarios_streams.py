"""Scenarios of stream management: create, update, info, names, list, delete, with good and bad input."""

from typing import Any

from tests.integration.differential.side import Side, scenario

SECOND = 1_000_000_000


@scenario
async def account_info(side: Side) -> None:
    """What ``$JS.API.INFO`` says before, with and after a stream, and what it makes of odd requests."""
    before = await side.api("INFO", label="account before")
    await side.create("ACCT", subjects=["acct.>"])
    await side.fill("acct.{}", 3)
    after = await side.api("INFO", label="account with one stream")
    counted = after["api"]["total"] - before["api"]["total"]
    await side.request(f"$JS.API.STREAM.INFO.absent{counted}", label="the number of API requests counted, as a name")
    await side.api("INFO", "{}", label="account with an empty object")
    await side.api("INFO", "junk")
    await side.api("INFO", headers=[("Nats-Required-Api-Level", "99")])
    await side.api("INFO", headers=[("Nats-Required-Api-Level", "one")])
    await side.api("INFO", headers=[("Nats-Required-Api-Level", "1")], label="account, level 1 required")
    await side.silent("$JS.API.NOSUCH")
    await side.silent("$JS.API.STREAM.NOSUCH.ACCT")
    await side.silent("$JS.API.STREAM.INFO")
    await side.silent("$JS.API.STREAM.CREATE")
    await side.silent("$JS.API.STREAM.INFO.a.b")


@scenario
async def create_defaults(side: Side) -> None:
    """Defaults and normalised values of a new stream's configuration."""
    await side.create("MINIMAL", subjects=["minimal.>"])
    await side.create("NOSUBJECTS")
    await side.create("EMPTYSUBJECTS", subjects=[])
    await side.create("ZEROS", subjects=["zeros"], max_msgs=0, max_bytes=0, max_age=0, max_msg_size=0, max_consumers=0)
    await side.create("ZEROPER", subjects=["zeroper"], max_msgs_per_subject=0, num_replicas=0, duplicate_window=0)
    await side.create("NEGATIVE", subjects=["negative"], max_msgs=-5, max_bytes=-6, max_msg_size=-7, max_consumers=-8)
    await side.create("NEGPER", subjects=["negper"], max_msgs_per_subject=-9)
    await side.create("SHORTAGE", subjects=["shortage"], max_age=60 * SECOND)
    await side.create("NULLS", subjects=["nulls"], description=None, metadata=None, max_age=None)
    await side.create("MEMORY", subjects=["memory"], storage="memory")
    await side.create(
        "FULL",
        subjects=["full.a.*", "full.b.>"],
        description="everything that can be said",
        retention="limits",
        max_consumers=7,
        max_msgs=1000,
        max_bytes=1_000_000,
        max_age=3600 * SECOND,
        max_msgs_per_subject=10,
        max_msg_size=4096,
        discard="new",
        storage="file",
        num_replicas=1,
        no_ack=False,
        duplicate_window=30 * SECOND,
        allow_direct=True,
        deny_delete=True,
        deny_purge=True,
        metadata={"team": "silt", "b": "2", "a": "1"},
        label="create with every field",
    )
    await side.info("FULL", label="info of every field")
    await side.create("METAVER", subjects=["metaver"], metadata={"_nats.ver": "1", "_nats.level": "9", "x": "y"})
    await side.create("a-b_c=d", subjects=["punctuation"])
    await side.create("x" * 255, subjects=["long"], label="create with the longest name")


@scenario
async def create_twice(side: Side) -> None:
    """The same configuration again is fine, another one is not."""
    await side.create("ORDERS", subjects=["orders.>"], max_msgs=10)
    await side.fill("orders.{}", 2)
    await side.create("ORDERS", subjects=["orders.>"], max_msgs=10)
    await side.create("ORDERS", subjects=["orders.>"], max_msgs=11)
    await side.create("ORDERS", subjects=["orders.*"])
    await side.create("ORDERS", subjects=["orders.>"], max_msgs=10, metadata={"new": "yes"})
    await side.api("STREAM.CREATE.ORDERS", {"name": "OTHER", "subjects": ["other"]})
    await side.api("STREAM.CREATE.ORDERS", {"subjects": ["orders.>"]})
    await side.api("STREAM.CREATE.ORDERS", {"name": "", "subjects": ["orders.>"]})
    await side.info("ORDERS")


@scenario
async def create_malformed(side: Side) -> None:
    """Requests that are not what STREAM.CREATE takes."""
    create = "STREAM.CREATE.BAD"
    await side.api(create)
    await side.api(create, "{")
    await side.api(create, "[]")
    await side.api(create, "null")
    await side.api(create, '"BAD"')
    await side.api(create, "junk")
    await side.api(create, '{"name":"BAD","subjects":["bad"]} trailing')
    await side.api(create, {"name": "BAD", "subjects": ["bad"], "colour": "red"})
    await side.api(create, {"name": 5})
    await side.api(create, {"name": "BAD", "subjects": "bad"})
    await side.api(create, {"name": "BAD", "subjects": [1]})
    await side.api(create, {"name": "BAD", "max_msgs": "many"})
    await side.api(create, {"name": "BAD", "max_msgs": 1.5})
    await side.api(create, {"name": "BAD", "max_age": "1h"})
    await side.api(create, {"name": "BAD", "allow_direct": "yes"})
    await side.api(create, {"name": "BAD", "metadata": {"a": 1}})
    await side.api(create, {"name": "BAD", "metadata": []})
    await side.api(create, {"name": "BAD", "num_replicas": 1e30})
    await side.api(create, {"name": "BAD", "retention": "forever"})
    await side.api(create, {"name": "BAD", "storage": "tape"})
    await side.api(create, {"name": "BAD", "discard": "some"})
    await side.api(create, {"name": "BAD", "compression": "zip"})
    await side.api(create, {"name": "BAD", "retention": 1})
    await side.api(create, {"name": "BAD", "subjects": ["bad"]}, headers=[("Nats-Required-Api-Level", "77")])
    await side.api("STREAM.INFO.BAD", label="no stream came of all this")


@scenario
async def create_bad_names(side: Side) -> None:
    """Names that a stream may not have."""
    for name in ("a/b", "a\\b", "a*b", "a>b", "*x", "x" * 256):
        await side.create(name, subjects=["named"], label=f"create named {name[:12]!r} of {len(name)}")
    await side.api("STREAM.CREATE.ab", {"name": "a.b", "subjects": ["named"]})
    await side.api("STREAM.CREATE.ab", {"name": "a b", "subjects": ["named"]})
    await side.silent("$JS.API.STREAM.CREATE.a.b", {"name": "a.b", "subjects": ["named"]})
    await side.api("STREAM.INFO.a*b")
    await side.api("STREAM.NAMES", label="no stream came of all this")


@scenario
async def create_bad_subjects(side: Side) -> None:
    """Subjects that a stream may not take."""
    for subjects in (
        ["a..b"],
        [".a"],
        ["a."],
        [""],
        [" "],
        ["a b"],
        ["a.>.b"],
        ["foo.bar", "foo.bar"],
        ["foo.*", "foo.bar"],
        ["foo.>", "foo.*.baz"],
        [">"],
        ["*"],
        ["$JS.API.>"],
        ["$JS.>"],
        ["$SYS.>"],
        ["$SYS.ACCOUNT.X"],
        ["$JSC.x"],
        ["$NRG.x"],
    ):
        await side.create("SUBJ", subjects=subjects)
        await side.api("STREAM.DELETE.SUBJ", label=f"delete after {subjects}")


@scenario
async def create_overlaps(side: Side) -> None:
    """Two streams may not take the same subject."""
    await side.create("ONE", subjects=["shop.orders.*", "shop.events.>"])
    for subjects in (
        ["shop.orders.new"],
        ["shop.orders.*"],
        ["shop.>"],
        ["*.events.x"],
        ["other", "shop.events.a.b"],
        ["shop.orders.new.x"],
        ["shop.events"],
    ):
        await side.create("TWO", subjects=subjects)
        await side.api("STREAM.DELETE.TWO", label=f"delete after {subjects}")
    await side.create("THREE", subjects=["third"])
    await side.update("THREE", subjects=["third", "shop.orders.x"])
    await side.update("THREE", subjects=["third", "fourth"])
    await side.create("FOUR", subjects=["fourth"])


@scenario
async def create_limits_refused(side: Side) -> None:
    """Limits that contradict themselves or the server."""
    for config in (
        {"max_age": 1},
        {"max_age": 99_999_999},
        {"max_age": 100_000_000},
        {"max_age": -1},
        {"duplicate_window": -1},
        {"duplicate_window": 1_000_000},
        {"duplicate_window": 100_000_000},
        {"duplicate_window": 10 * SECOND, "max_age": 5 * SECOND},
        {"duplicate_window": 5 * SECOND, "max_age": 5 * SECOND},
        {"num_replicas": 3},
        {"num_replicas": -1},
        {"num_replicas": 6},
        {"description": "d" * 4096},
        {"description": "d" * 4097},
        {"metadata": {"k": "v" * (128 * 1024)}},
        {"discard_new_per_subject": True},
        {"discard": "new", "discard_new_per_subject": True},
        {"mirror_direct": True},
        {"max_msg_size": 10},
        {"max_bytes": 1 << 62},
        {"max_msgs": 9_223_372_036_854_775_807},
        {"max_msgs": 9_223_372_036_854_775_808},
    ):
        await side.create("LIM", subjects=["lim"], **config)
        await side.api("STREAM.DELETE.LIM", label=f"delete after {str(config)[:60]}")


@scenario
async def create_pedantic(side: Side) -> None:
    """``pedantic`` refuses what would be put right otherwise."""
    await side.create("PED", subjects=["ped"], pedantic=True)
    await side.api("STREAM.DELETE.PED", label="delete the accepted one")
    refused: tuple[dict[str, Any], ...] = (
        {"max_msgs": -5},
        {"max_age": -1},
        {"max_consumers": -2},
        {"max_bytes": -3},
        {"max_msg_size": -4},
    )
    for config in refused:
        await side.create("PED", subjects=["ped"], pedantic=True, **config)
        await side.api("STREAM.DELETE.PED", label=f"delete after {config}")
    await side.create("PED", subjects=["ped"], pedantic="yes")


@scenario
async def create_later_fields(side: Side) -> None:
    """Fields of the full JetStream configuration that Silt does not serve yet."""
    await side.create("SOURCE", subjects=["source"])
    configs: tuple[dict[str, Any], ...] = (
        {"retention": "interest"},
        {"retention": "workqueue"},
        {"mirror": {"name": "SOURCE"}},
        {"sources": [{"name": "SOURCE"}]},
        {"republish": {"src": ">", "dest": "re.>"}},
        {"subject_transform": {"src": "later", "dest": "sooner"}},
        {"first_seq": 100},
        {"sealed": True},
        {"allow_rollup_hdrs": True},
        {"allow_msg_ttl": True},
        {"subject_delete_marker_ttl": SECOND, "allow_msg_ttl": True, "allow_rollup_hdrs": True},
        {"allow_msg_counter": True},
        {"allow_atomic": True},
        {"allow_msg_schedules": True},
        {"mirror": {"name": "O", "external": {"api": "$JS.other.API", "deliver": ""}}},
        {"sources": [{"name": "O", "consumer": {"name": "C", "deliver_subject": "d"}}]},
        {"allow_batched": True},
        {"persist_mode": "async"},
        {"compression": "s2"},
        {"consumer_limits": {"max_ack_pending": 5}},
        {"placement": {"cluster": "east"}},
        {"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 1},
        {"template_owner": "me"},
    )
    for number, config in enumerate(configs):
        subjects: dict[str, Any] = {} if "mirror" in config else {"subjects": [f"later.{number}"]}
        await side.create(f"LATER{number}", label=f"create with {config}", **subjects, **config)


@scenario
async def later_fields_unset(side: Side) -> None:
    """Later fields spelled out at their zero value ask for nothing and are accepted."""
    await side.create(
        "ZERO",
        subjects=["zero"],
        sealed=False,
        allow_rollup_hdrs=False,
        allow_msg_ttl=False,
        mirror_direct=False,
        discard_new_per_subject=False,
        compression="none",
        consumer_limits={},
        first_seq=0,
        mirror=None,
        sources=None,
        republish=None,
        subject_transform=None,
        placement=None,
        label="create with later fields at zero",
    )
    await side.create("ZERO2", subjects=["zero2"], sources=[], placement={}, label="create with empty later objects")


@scenario
async def updates(side: Side) -> None:
    """What an update may change and what it may not."""
    base: dict[str, Any] = {"subjects": ["upd.>"], "max_msgs": 100}
    await side.create("UPD", **base)
    await side.fill("upd.{}", 10)
    await side.update("UPD", **base, description="now with words")
    await side.update("UPD", **base, metadata={"owner": "me"})
    await side.update("UPD", subjects=["upd.>", "extra"], max_msgs=100)
    await side.publish("extra", "on the new subject")
    await side.update("UPD", subjects=["upd.1"], max_msgs=100)
    await side.publish("upd.2", "on a subject taken away")
    await side.info("UPD", label="info keeps the old messages")
    await side.update("UPD", **base, max_age=3600 * SECOND)
    await side.update("UPD", **base, max_age=5 * SECOND, duplicate_window=60 * SECOND)
    await side.update("UPD", **base, max_bytes=100_000, max_msg_size=50)
    await side.update("UPD", **base, allow_direct=True)
    await side.get("UPD", {"seq": 1})
    await side.update("UPD", **base, allow_direct=False)
    await side.get("UPD", {"seq": 1}, label="direct get after it was switched off")
    await side.update("UPD", **base, discard="new")
    await side.update("UPD", **base, no_ack=True)
    await side.update("UPD", **base, label="back to the base")
    changes: tuple[dict[str, Any], ...] = (
        {"storage": "memory"},
        {"max_consumers": 3},
        {"num_replicas": 3},
        {"max_age": 5},
        {"max_age": -5},
        {"description": "d" * 5000},
    )
    for config in changes:
        await side.update("UPD", **base, **config)
    await side.update("UPD", max_msgs=100, label="update without subjects")
    await side.update("NOSUCH", subjects=["nosuch"])
    await side.api("STREAM.UPDATE.UPD", {"name": "OTHER", "subjects": ["upd.>"]})
    await side.api("STREAM.UPDATE.UPD")
    await side.api("STREAM.UPDATE.UPD", "{]")
    await side.api("STREAM.UPDATE.UPD", {"name": "UPD", "nonsense": 1})
    await side.update("UPD", subjects=["upd..x"])
    await side.info("UPD", label="info at the end")


@scenario
async def updates_checked_twice(side: Side) -> None:
    """What an update is refused for, or fills in, and a creation is not and does not."""
    for name, republish in (("A", {"src": "a.>", "dest": ""}), ("B", {"src": "b.*", "dest": ""}), ("C", {"dest": ""})):
        other = {"src": "other.>", "dest": ""}
        await side.create(name, subjects=[f"{name.lower()}.>"], republish=republish)
        await side.update(name, subjects=[f"{name.lower()}.>"], republish=republish)
        await side.update(name, subjects=[f"{name.lower()}.>"], republish=other)
        await side.update(name, subjects=[f"{name.lower()}.>"], republish={"src": "other.*", "dest": "other.$2"})
        await side.info(name)
    counting = {"allow_msg_counter": True, "subject_delete_marker_ttl": SECOND}
    await side.create("COUNT", subjects=["count"], **counting)
    await side.update("COUNT", subjects=["count"], **counting)
    await side.create("PLAIN", subjects=["plain"])
    await side.update("PLAIN", subjects=["plain"], **counting)
    await side.update("PLAIN", subjects=["plain"], storage="memory", **counting)


@scenario
async def update_to_interest(side: Side) -> None:
    """What nobody wants leaves the stream with the update, and the answer says so."""
    await side.create("WANT", subjects=["want.>"])
    await side.fill("want.{}", 3)
    await side.update("WANT", subjects=["want.>"], retention="interest")
    await side.publish("want.4")
    await side.update("WANT", subjects=["want.>"], retention="limits", label="back to limits")
    await side.publish("want.5")
    await side.api("CONSUMER.CREATE.WANT.C", {"stream_name": "WANT", "config": {"name": "C", "ack_policy": "explicit"}})
    await side.update("WANT", subjects=["want.>"], retention="interest", label="with a consumer that wants it")
    await side.info("WANT", {"deleted_details": True})


@scenario
async def update_denials(side: Side) -> None:
    """deny_delete and deny_purge stay once they are set."""
    await side.create("DENY", subjects=["deny"], deny_delete=True, deny_purge=True)
    await side.publish("deny", "kept")
    await side.update("DENY", subjects=["deny"], deny_delete=False, deny_purge=True)
    await side.update("DENY", subjects=["deny"], deny_delete=True, deny_purge=False)
    await side.api("STREAM.MSG.DELETE.DENY", {"seq": 1})
    await side.api("STREAM.PURGE.DENY")
    await side.create("LOOSE", subjects=["loose"])
    await side.publish("loose", "1")
    await side.update("LOOSE", subjects=["loose"], deny_delete=True)
    await side.api("STREAM.MSG.DELETE.LOOSE", {"seq": 1})
    await side.api("STREAM.PURGE.LOOSE")
    await side.api("STREAM.DELETE.DENY")


@scenario
async def update_shrinks(side: Side) -> None:
    """A lower limit takes effect on what is already stored."""
    await side.create("SHRINK", subjects=["s.>"], allow_direct=True)
    await side.fill("s.{}", 6)
    await side.fill("s.same", 4, pattern="again {}")
    await side.update("SHRINK", subjects=["s.>"], allow_direct=True, max_msgs=8)
    await side.info("SHRINK", label="info after max_msgs 8")
    await side.update("SHRINK", subjects=["s.>"], allow_direct=True, max_msgs=8, max_msgs_per_subject=1)
    await side.info("SHRINK", {"subjects_filter": ">"}, label="info after one per subject")
    await side.batch("SHRINK", {"seq": 1, "batch": 20})
    await side.update("SHRINK", subjects=["s.>"], allow_direct=True, max_bytes=120)
    await side.info("SHRINK", label="info after max_bytes 120")
    await side.update("SHRINK", subjects=["s.>"], allow_direct=True)
    await side.info("SHRINK", label="info after the limits are gone")


@scenario
async def info_details(side: Side) -> None:
    """STREAM.INFO with subjects, paging and deleted details."""
    await side.create("INFO", subjects=["i.>"])
    await side.info("INFO", label="info of an empty stream")
    await side.info("INFO", {"subjects_filter": ">"}, label="subjects of an empty stream")
    await side.fill("i.{}", 8)
    await side.fill("i.x.same", 3)
    for seq in (2, 3, 7):
        await side.api("STREAM.MSG.DELETE.INFO", {"seq": seq})
    await side.info("INFO")
    await side.info("INFO", "{}")
    await side.info("INFO", {"deleted_details": True})
    await side.info("INFO", {"subjects_filter": ">"})
    await side.info("INFO", {"subjects_filter": "i.*"})
    await side.info("INFO", {"subjects_filter": "i.x.>", "deleted_details": True})
    await side.info("INFO", {"subjects_filter": "i.1"})
    await side.info("INFO", {"subjects_filter": "none.>"})
    await side.info("INFO", {"subjects_filter": "i..x"})
    await side.info("INFO", {"subjects_filter": ""})
    await side.info("INFO", {"subjects_filter": ">", "offset": 2})
    await side.info("INFO", {"subjects_filter": ">", "offset": 100})
    await side.info("INFO", {"subjects_filter": ">", "offset": -1})
    await side.info("INFO", {"offset": 3})
    await side.info("INFO", "{")
    await side.info("INFO", {"unknown": 1})
    await side.info("INFO", {"deleted_details": "yes"})
    await side.info("NOSUCH")
    await side.info("NOSUCH", "{")


@scenario
async def names_and_lists(side: Side) -> None:
    """STREAM.NAMES and STREAM.LIST: order, subject filter, paging, bad input."""
    for verb in ("STREAM.NAMES", "STREAM.LIST"):
        await side.api(verb, label=f"{verb} with no stream")
    for name in ("CC", "AA", "BB"):
        await side.create(name, subjects=[f"{name.lower()}.>", f"common.{name}"])
    for verb in ("STREAM.NAMES", "STREAM.LIST"):
        for body in (
            None,
            "{}",
            {"subject": "aa.1"},
            {"subject": "common.*"},
            {"subject": ">"},
            {"subject": "none"},
            {"subject": ""},
            {"offset": 1},
            {"offset": 3},
            {"offset": 9},
            {"offset": -1},
            {"offset": "one"},
            {"nonsense": True},
            "{",
        ):
            await side.api(verb, body)


@scenario
async def names_page(side: Side) -> None:
    """STREAM.LIST gives 256 streams a page."""
    await side.create_many("P{:03}", 260)
    first = await side.api("STREAM.LIST", label="first page")
    assert len(first["streams"]) == first["limit"]
    await side.api("STREAM.LIST", {"offset": 256}, label="second page")
    await side.api("STREAM.NAMES", label="all names")
    await side.api("STREAM.NAMES", {"offset": 258}, label="last names")


@scenario
async def deletes(side: Side) -> None:
    """STREAM.DELETE, and that nothing of the stream is left."""
    await side.create("DEL", subjects=["del.>"], allow_direct=True)
    await side.fill("del.{}", 3)
    await side.api("STREAM.DELETE.DEL", "junk")
    await side.api("STREAM.DELETE.NOSUCH")
    await side.api("STREAM.DELETE.NOSUCH", "junk")
    await side.api("STREAM.DELETE.DEL", "{}")
    await side.info("DEL")
    await side.publish("del.1", "into nothing")
    await side.get("DEL", {"seq": 1})
    await side.api("STREAM.DELETE.DEL", label="delete again")
    await side.create("DEL", subjects=["del.>"], allow_direct=True)
    await side.get("DEL", {"seq": 1}, label="nothing of the old stream")
    await side.publish("del.1", "first again", headers=[("Nats-Msg-Id", "x")])
    await side.info("DEL", label="info of the new stream")
    await side.api("STREAM.DELETE.DEL", "  ", label="delete with blanks")
    await side.create("DEL", subjects=["del.>"], allow_direct=True, label="create a third time")
    await side.publish("del.1", "id not remembered", headers=[("Nats-Msg-Id", "x")])
