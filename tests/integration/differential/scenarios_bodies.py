"""Bodies that are hard to read: no Unicode, endless numbers, values after the value."""

from tests.integration.differential.side import Side, scenario

_NO_UNICODE = (
    ("CONSUMER.CREATE.U.C", b'{"action":"upd\xffte"}'),
    ("CONSUMER.CREATE.U.C", b'{"action":"upd\xe2\x82te"}'),
    ("CONSUMER.CREATE.U.C", b'{"config":{"ack_policy":"n\xffne"}}'),
    ("CONSUMER.CREATE.U.C", b'{"config":{"deliver_policy":"\xff"}}'),
    ("CONSUMER.CREATE.U.C", b'{"config":{"priority_policy":"\xff"}}'),
    ("CONSUMER.CREATE.U.C", b'{"config":{"opt_start_time":"20\xff"}}'),
    ("CONSUMER.CREATE.U.C", b'{"stream_name":"U","config":{"name":"C","ack_policy":"none","sample_freq":"5\xff"}}'),
    ("STREAM.CREATE.V", b'{"name":"V","retention":"li\xffts"}'),
    ("STREAM.CREATE.V", b'{"name":"V","storage":"\xff"}'),
    ("STREAM.CREATE.V", b'{"name":"V","x\xff":5}'),
    ("STREAM.CREATE.V", b'{"name":"V","metadata":{"\xff":"a\xed\xa0\x80b"},"description":"x\xff"}'),
    ("STREAM.MSG.GET.U", b'{"start_time":"2026-01-01T00:00:00Z\xff"}'),
    ("STREAM.MSG.GET.U", b'{"start_time":"\xc3\xa920\\t\\"\\\\x\x7f\\ud83d"}'),
)
_UNPIN = (
    *(b"", b"{}", b"null", b"5", b"[]", b'"x"', b"x", b"[1,2"),
    *(b'{"group":"g"}x', b'{"group":"g"} {}', b' {"Group":"g"} '),
    *(b'{"group":5}', b'{"group":null}', b'{"group":{}}', b'{"group":true}', b'{"group":[9]}', b'{"group":"\xff"}'),
    *(b'{"group":"g","group":"h"}', b'{"group":"g","group":5}', b'{"x":1.5,"group":"g"}'),
    *(b'{"x":NaN}', b'{"x":01}', b'{"x":1.}', b'{"x":%b}' % (b"9" * 5_000)),
)
_PULLS = (
    *(
        b"{",
        b"{x",
        b"{'batch':1}",
        b'{"batch":1',
        b'{"batch" 1}',
        b'{"batch":1 2}',
        b'{"batch":tru}',
        b'{"batch":[1 2]}',
    ),
    *(b'{"id":"\n"}', b'{"id":"\\x"}', b'{"batch":01}', b'{"batch":NaN}', b'{"batch":1}x', b'{"no_wait":true} {}'),
    *(b'{"batch":1.0}', b'{"Batch":"x"}', b'{"EXPIRES":5.5}', b'{"no_wait":1}', b'{"group":5}', b'{"group":[]}'),
    *(b'{"id":{}}', b'{"id":5.5}', b'{"batch":true}', b'{"idle_heartbeat":1e3}', b'{"max_bytes":[1]}'),
    *(b'{"min_pending":5.0}', b'{"batch":9223372036854775808}', b'{"batch":-9223372036854775808,"no_wait":true}'),
    *(b'{"\xc5\xbfd":1,"no_wait":true}', b'{"x":"\xff","no_wait":true}', b'{"expires":null,"no_wait":true}'),
    b'{"x":%b}' % (b"[" * 10_001),
)
_DIRECT = (
    *(
        b'{"seq":1.0}',
        b'{"SEQ":1}',
        b'{"last_by_\xc5\xbfubj":"p"}',
        b'{"seq":1} ',
        b'{"seq":1} x',
        b"5",
        b"null",
        b"[]",
    ),
    *(b'{"seq":1,"seq":null}', b'{"last_by_subj":"p","last_by_subj":null}', b'{"multi_last":["p",null]}'),
    *(b'{"multi_last":["p"],"multi_last":null}', b'{"start_time":"2020-01-01T00:00:00Z","start_time":null,"seq":1}'),
    *(b'{"start_time":"2020-01-01T01:00:00+01:60"}', b'{"start_time":"2020-01-01T01:00:00+01:61"}'),
)


@scenario
async def bodies_of_pulls_and_direct_gets(side: Side) -> None:
    """Requests for messages that are broken, of the wrong kind, or of a kind that only Go takes."""
    await side.create("P", subjects=["p"], allow_direct=True)
    await side.api("CONSUMER.CREATE.P.C", {"stream_name": "P", "config": {"name": "C", "ack_policy": "explicit"}})
    for body in _PULLS:
        await side.request("$JS.API.CONSUMER.MSG.NEXT.P.C", body, label=f"pull {body[:50]!r}")
    for body in _DIRECT:
        await side.request("$JS.API.DIRECT.GET.P", body, label=f"direct {body!r}")
    for zone in ("+01:60", "+01:61", "+24:00", "+25:00"):
        await side.api("STREAM.MSG.GET.P", {"start_time": f"2020-01-01T01:00:00{zone}"})


@scenario
async def bodies_of_no_unicode(side: Side) -> None:
    """Bytes that are no UTF-8, in values that are kept and in those that errors tell of."""
    await side.create("U", subjects=["u"])
    for verb, body in _NO_UNICODE:
        await side.api(verb, body)


@scenario
async def bodies_of_unpin(side: Side) -> None:
    """The endpoint that takes one value with fields it does not know."""
    await side.create("U", subjects=["u"])
    pinned = {"name": "C", "ack_policy": "explicit", "priority_groups": ["g"], "priority_policy": "pinned_client"}
    await side.api("CONSUMER.CREATE.U.C", {"stream_name": "U", "config": pinned})
    for body in _UNPIN:
        await side.api("CONSUMER.UNPIN.U.C", body)


@scenario
async def bodies_of_endless_numbers(side: Side) -> None:
    """Numbers of more digits than any type holds."""
    await side.create("N", subjects=["n"], allow_direct=True)
    await side.publish("n")
    for digits in (20, 400, 5_000):
        number = b"9" * digits
        for verb in ("STREAM.MSG.GET.N", "STREAM.MSG.DELETE.N", "STREAM.PURGE.N", "DIRECT.GET.N"):
            await side.request(f"$JS.API.{verb}", b'{"seq":%b}' % number, label=f"{verb} of {digits} digits")
        for verb in ("STREAM.LIST", "CONSUMER.LIST.N"):
            await side.api(verb, b'{"offset":%b}' % number, label=f"{verb} of {digits} digits")
        await side.api("STREAM.CREATE.M", b'{"name":"M","max_age":%b}' % number, label=f"age of {digits} digits")
    await side.info("N")


@scenario
async def requests_that_nobody_waits_for(side: Side) -> None:
    """Without a reply subject a request may change things; it is answered to nobody, and the next one is answered."""
    await side.create("R", subjects=["r"], allow_direct=True)
    await side.publish("r", "one")
    requests = {
        "$JS.API.STREAM.MSG.GET.R": b'{"seq":1}',
        "$JS.API.DIRECT.GET.R": b'{"seq":1}',
        "$JS.API.DIRECT.GET.R.r": b"",
        "$JS.API.STREAM.LIST": b"",
        "$JS.API.STREAM.INFO.R": b"",
        "$JS.API.STREAM.INFO.NONE": b"",
        "$JS.API.CONSUMER.CREATE.R.C": b'{"stream_name":"R","config":{"name":"C","ack_policy":"explicit"}}',
        "$JS.API.CONSUMER.MSG.NEXT.R.C": b"1",
        "$JS.API.CONSUMER.MSG.NEXT.R.NONE": b"1",
        "$JS.ACK.R.C.1.1.1.1.0": b"+NXT",
        "r": b"two",
    }
    for subject, body in requests.items():
        side.wire.send(subject, body, expect_reply=False)
        assert await side.wire.ask("$JS.API.STREAM.INFO.R", b""), subject
        await side.pause(0.1)
        await side.info("R", label=f"after {subject}")


@scenario
async def bodies_of_late_sequences(side: Side) -> None:
    """Streams that begin with the last sequences there are."""
    await side.create("L", subjects=["l"], first_seq=2**61)
    await side.publish("l")
    await side.create("M", subjects=["m"], first_seq=2**64)
    await side.create("N", subjects=["n"], first_seq=2**63)
    for start in (2**62, 2**63 - 1):
        config = {"name": "C", "ack_policy": "explicit", "deliver_policy": "by_start_sequence", "opt_start_seq": start}
        await side.api("CONSUMER.CREATE.L.C", {"stream_name": "L", "config": config})
        await side.api("CONSUMER.RESET.L.C", {"seq": 2**63 - 1}, label=f"reset of {start}")
        await side.api("CONSUMER.INFO.L.C", label=f"info of {start}")
        await side.api("CONSUMER.DELETE.L.C", label=f"delete of {start}")
