"""Mirrors and sources of another domain: as nats-server copies, across kills of either side."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.domains import WAIT, Json, api, direct, masked, reaches, two_accounts, two_domains, until, use

HUB = {"api": "$JS.hub.API", "deliver": ""}


async def create(connection: Client, name: str, *, domain: str = "silt", **config: Any) -> Json:
    """Create a stream; return the reply."""
    return await api(connection, domain, f"STREAM.CREATE.{name}", {"name": name, **config})


async def publish(connection: Client, subject: str, payload: str, **headers: str) -> None:
    """Publish a message and wait until it is stored."""
    await connection.request(subject, payload.encode(), timeout=10, headers=headers or None)


def refused(info: Json) -> bool:
    """Whether a copy shows an error."""
    return any("error" in one for one in [*info.get("sources", ()), info.get("mirror", {})])


async def messages(connection: Client, name: str, upto: int, *, times: bool, domain: str = "silt") -> list[Any]:
    """Each message of a stream; of a source's header not the origin's identity, which is each server's own."""
    found = []
    for seq in range(1, upto + 1):
        answer = await api(connection, domain, f"STREAM.MSG.GET.{name}", {"seq": seq})
        one = answer.get("message")
        if one is None:
            found.append((seq, answer["error"]["err_code"]))
            continue
        header = base64.b64decode(one.get("hdrs", "")).decode()
        lines = [
            line.rsplit(" ", 1)[0] if line.startswith("Nats-Stream-Source") else line for line in header.split("\r\n")
        ]
        payload = base64.b64decode(one.get("data", "")).decode()
        found.append((one["seq"], one["subject"], payload, lines, one["time"] if times else ""))
    return found


async def origin(connection: Client) -> None:
    """A stream in the hub with six messages of two subjects, two of them deleted again."""
    await create(connection, "ORIGIN", domain="hub", subjects=["origin.>"], allow_direct=True)
    for number in range(1, 7):
        headers = {"Key": str(number), "Nats-Expected-Stream": "ORIGIN"} if number % 3 == 0 else {}
        await publish(connection, f"origin.{'ab'[number % 2]}", f"m{number}", **headers)
    for seq in (2, 4):
        await api(connection, "hub", "STREAM.MSG.DELETE.ORIGIN", {"seq": seq})
    for name, policy in (("M", "flow_control"), ("S", "flow_control"), ("N", "all")):
        config = {"durable_name": name, "deliver_subject": f"named.{name.lower()}", "ack_policy": policy}
        await api(connection, "hub", f"CONSUMER.CREATE.ORIGIN.{name}", {"stream_name": "ORIGIN", "config": config})


MAPPING = [{"src": "origin.a", "dest": "moved.a"}, {"src": "origin.b", "dest": ""}]
COPIES: dict[str, tuple[Json, int, int]] = {
    "WHOLE": ({"mirror": {}}, 6, 7),
    "PART": ({"mirror": {"filter_subject": "origin.a"}}, 6, 7),
    "MAPPED": ({"mirror": {"subject_transforms": MAPPING}}, 6, 7),
    "LATER": ({"mirror": {"opt_start_seq": 3}}, 6, 7),
    "FEW": ({"mirror": {}, "max_msgs": 2}, 6, 7),
    "ALL": ({"sources": [{}], "subjects": ["all.>"]}, 4, 5),
    "SOME": ({"sources": [{"filter_subject": "origin.b"}]}, 3, 3),
    "MOVED": ({"sources": [{"subject_transforms": [{"src": "origin.*", "dest": "to.{{wildcard(1)}}"}]}]}, 4, 5),
    "FROM": ({"sources": [{"opt_start_seq": 5}]}, 2, 3),
    "ANSWERS": ({"mirror": {}, "mirror_direct": True}, 6, 7),
    "PREFIXED": ({"mirror": {"external": HUB | {"deliver": "from.hub"}}}, 6, 7),
    "NAMED": ({"mirror": {"consumer": {"name": "M", "deliver_subject": "named.m"}}}, 6, 7),
    "NAMEDS": ({"sources": [{"consumer": {"name": "S", "deliver_subject": "named.s"}}]}, 4, 5),
}
"""Configurations of copies of ``ORIGIN``, and the last sequence before and after one more message."""


def external(config: Json) -> Json:
    """A configuration whose mirror and sources name the origin in the hub's domain."""
    named: Json = {"name": "ORIGIN", "external": HUB}
    if "mirror" in config:
        return config | {"mirror": named | config["mirror"]}
    return config | {"sources": [named | one for one in config["sources"]]}


async def copies(connection: Client) -> list[Any]:
    """All copies and what they say of themselves, first and after one more message, and of what there is not."""
    seen: list[Any] = []
    await origin(connection)
    for name, (config, _, _) in COPIES.items():
        seen.append(masked(await create(connection, name, **external(config))))
    nope = {"name": "NOPE", "external": HUB}
    await create(connection, "NOMIRROR", mirror=nope)
    await create(connection, "NOSOURCE", sources=[nope])
    acks = {"name": "ORIGIN", "external": HUB, "consumer": {"name": "N", "deliver_subject": "named.n"}}
    await create(connection, "NOACKS", sources=[acks])
    for again in (False, True):
        for name, (_, *reached) in COPIES.items():
            seen.append((name, masked(await reaches(connection, "silt", name, reached[again]))))
        if not again:
            await publish(connection, "origin.a", "m7", **{"Nats-Msg-Id": "seven"})
    for name, (_, _, reached) in COPIES.items():
        seen.append((name, await messages(connection, name, reached, times=False)))
    seen += [masked(await until(connection, "silt", name, refused)) for name in ("NOMIRROR", "NOSOURCE", "NOACKS")]
    seen.append(await direct(connection, "ORIGIN"))
    for name in ("WHOLE", "ANSWERS"):
        update = {"name": name, "subjects": [name], "mirror_direct": name == "ANSWERS"}
        seen.append(masked(await api(connection, "silt", f"STREAM.UPDATE.{name}", update)))
        await publish(connection, name, "of its own")
        seen.append(masked(await reaches(connection, "silt", name, 8)))
    return seen


def test_copies_are_nats_servers(tmp_path: Path) -> None:
    """Whole, filtered, transformed, from a sequence on, beside own messages: info and messages are the same."""
    seen = []
    for silt in (False, True):
        with two_domains(tmp_path / str(silt), silt=silt) as domains:
            seen.append(use(domains.hub, copies))
            if silt:  # nats-server goes on answering for the origin of a mirror that is none any more
                assert use(domains.hub, lambda connection: direct(connection, "ORIGIN", seconds=2)) is None
    for reference, ours in zip(*seen, strict=True):
        assert ours == reference


async def _publish_all(connection: Client, numbers: range) -> None:
    for number in numbers:
        await publish(connection, f"o.{number % 3}", f"m{number}")


async def equal(connection: Client, stream: str, copy: str, upto: int, *, domain: str = "silt") -> None:
    """Assert that a mirror is its origin, sequence for sequence, times included."""
    there = "hub" if domain == "silt" else "silt"
    await reaches(connection, domain, copy, upto)
    found = [
        await messages(connection, name, upto, times=True, domain=one)
        for name, one in ((stream, there), (copy, domain))
    ]
    assert found[0] == found[1]


ORIGIN_OF = {"silt": "hub", "hub": "silt"}
REACHED = {domain: {"api": f"$JS.{there}.API", "deliver": ""} for domain, there in ORIGIN_OF.items()}
"""By the domain of a copy: that of its origin, and how it is reached."""


@pytest.mark.parametrize("killed", ["hub", "other"])
@pytest.mark.parametrize("domain", ["silt", pytest.param("hub", marks=pytest.mark.slow)])
def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, domain: str, killed: str) -> None:
    """Copies go on at the exact next sequence after a kill of the origin, and of the copying side; both ways."""

    async def begin(connection: Client) -> None:
        await create(connection, "O", domain=ORIGIN_OF[domain], subjects=["o.>"])
        await _publish_all(connection, range(200))
        named = {"name": "O", "external": REACHED[domain]}
        await create(connection, "M", domain=domain, mirror=named)
        await create(connection, "S", domain=domain, sources=[named])
        await reaches(connection, domain, "M", 150)

    async def finish(connection: Client) -> None:
        await _publish_all(connection, range(200, 300))
        await equal(connection, "O", "M", 300, domain=domain)
        info = await reaches(connection, domain, "S", 300)
        payloads = [one[2] for one in await messages(connection, "S", 300, times=False, domain=domain)]
        assert payloads == [f"m{number}" for number in range(300)]
        assert info["state"]["last_seq"] == 300
        assert info["sources"][0]["seq"] == 300

    with two_domains(tmp_path / "domains") as domains:
        use(domains.hub, begin)
        child = domains.hub.child if killed == "hub" else domains.other
        child.kill()
        child.start()
        use(domains.hub, finish)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_nats_server_takes_what_waits_for_it(tmp_path: Path, retention: str) -> None:
    """A stream of Silt's that keeps messages until they are consumed: the copy at nats-server consumes them."""

    async def script(connection: Client) -> None:
        await create(connection, "Q", subjects=["o.>"], retention=retention)
        named = {"name": "Q", "external": REACHED["hub"]}
        await create(connection, "S", domain="hub", sources=[named])
        await until(connection, "silt", "Q", lambda info: info["state"]["consumer_count"])
        await _publish_all(connection, range(50))
        await reaches(connection, "hub", "S", 50)
        await until(connection, "silt", "Q", lambda info: not info["state"]["messages"])
        payloads = [one[2] for one in await messages(connection, "S", 50, times=False, domain="hub")]
        assert payloads == [f"m{number}" for number in range(50)]

    with two_domains(tmp_path / "domains") as domains:
        use(domains.hub, script)


def test_copies_of_another_account(tmp_path: Path) -> None:
    """Through exports and imports, with a deliver prefix; more than one window of flow control."""
    count, payload = 1_000, b"x" * 5_000

    async def script(address: str) -> None:
        there, here = [await nats.connect(f"nats://{user}:p@{address}") for user in ("ri", "ia")]
        try:
            await api(here, "silt", "INFO")
            await there.request("$JS.API.STREAM.CREATE.O", b'{"name":"O","subjects":["o.>"]}', timeout=WAIT)
            for start in range(0, count, 100):
                await asyncio.gather(
                    *(there.request(f"o.{start + at}", payload, timeout=WAIT) for at in range(100)),
                )
            origin = {"name": "O", "external": {"api": "RI.JS.API", "deliver": "RI.DELIVER.SYNC"}}
            await create(here, "M", mirror=origin)
            await create(here, "S", sources=[origin])
            for name in "MS":
                info = await reaches(here, "silt", name, count)
                assert (info["state"]["messages"], refused(info)) == (count, False)
                found = await messages(here, name, 5, times=False)
                assert [one[1] for one in found] == [f"o.{number}" for number in range(5)]
        finally:
            await there.close()
            await here.close()

    with two_accounts(tmp_path / "accounts") as address:
        asyncio.run(script(address))
