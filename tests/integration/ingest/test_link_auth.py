"""Entering a hub by both links: user and password, token, nkey, JWT in ``.creds``, TLS; and what is refused."""

import asyncio
import json
import time
from base64 import b32encode, urlsafe_b64encode
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from pathlib import Path

import nkeys
import pytest

from api.hub.hub_config import HubConfig
from api.hub.hub_process import HubAddress
from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink
from ingest.protocol.credentials import CredentialSource, TlsOptions
from ingest.protocol.link import Failure
from tests.hubs import WAIT, AnyHub, Heard, client, keys_and_certificates, leaf, running, running_tls_first
from tests.waits import until

LINKS = ["leaf", "client"]
SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"
PUBLIC = nkeys.from_seed(bytearray(SEED.encode())).public_key.decode()


def link_to(
    kind: str,
    hub: HubAddress,
    heard: Heard,
    *,
    credentials: CredentialSource | None = None,
    tls: TlsOptions | None = None,
    url: str | None = None,
) -> AbstractAsyncContextManager[LeafLink | ClientLink]:
    """A link of either kind to this hub."""
    if kind == "leaf":
        return leaf(url or hub.leaf_url, heard, credentials=credentials, tls=tls)
    return client(url or hub.url, heard, credentials=credentials, tls=tls)


async def outcome(link: LeafLink | ClientLink, heard: Heard) -> Failure | None:
    """None when it attached, else the first failure."""
    await until(lambda: heard.statuses)
    first = heard.statuses[0]
    assert first.attached == link.attached.is_set()
    return first.error.kind if first.error else None


def authorization(kind: str, inside: str) -> dict[str, str]:
    """A hub's configuration that asks for this on the listener of this kind of link."""
    block = f"authorization {{ {inside} }}"
    return {"leafnodes": block} if kind == "leaf" else {"extra": block}


def attempts(kind: str, config: HubConfig, ways: list[CredentialSource]) -> list[Failure | None]:
    """What becomes of each way to enter this hub."""

    async def scenario() -> list[Failure | None]:
        found = []
        async with running(config) as hub:
            for way in ways:
                heard = Heard()
                async with link_to(kind, hub, heard, credentials=way) as link:
                    found.append(await outcome(link, heard))
        return found

    return asyncio.run(scenario())


@pytest.mark.parametrize("kind", LINKS)
def test_user_and_password(tmp_path: Path, kind: str) -> None:
    """The right ones enter; wrong ones and none are refused."""
    config = AnyHub(tmp_path, **authorization(kind, 'user: "u", password: "p"'))
    ways = [CredentialSource(user="u", password="p"), CredentialSource(user="u", password="x"), CredentialSource()]
    assert attempts(kind, config, ways) == [None, Failure.REFUSED, Failure.REFUSED]


@pytest.mark.parametrize("kind", LINKS)
def test_user_and_password_of_the_url(tmp_path: Path, kind: str) -> None:
    """A URL may carry them."""

    async def scenario() -> None:
        heard = Heard()
        async with running(AnyHub(tmp_path, **authorization(kind, 'user: "u", password: "p@"'))) as hub:
            url = (hub.leaf_url if kind == "leaf" else hub.url).replace("//", "//u:p%40@")
            async with link_to(kind, hub, heard, url=url) as link:
                assert await outcome(link, heard) is None

    asyncio.run(scenario())


def test_a_token_enters_the_client_listener(tmp_path: Path) -> None:
    """nats-server has tokens for clients (its leafnode listener takes none, and says so at its start)."""
    config = AnyHub(tmp_path, extra='authorization { token: "t" }')
    ways = [CredentialSource(token="t"), CredentialSource(token="x")]
    assert attempts("client", config, ways) == [None, Failure.REFUSED]


@pytest.mark.parametrize("kind", LINKS)
def test_an_nkey_seed_file(tmp_path: Path, kind: str) -> None:
    """The holder of the seed enters, another key and an unreadable file do not."""
    inside = f"nkey: {PUBLIC}" if kind == "leaf" else f"users: [ {{ nkey: {PUBLIC} }} ]"
    own, other, odd = tmp_path / "own.nk", tmp_path / "other.nk", tmp_path / "odd.nk"
    own.write_text(SEED)
    other.write_text(encoded_seed(bytes(range(32)), USER))
    odd.write_text("odd")
    ways = [CredentialSource(nkey_seed_file=file) for file in (own, other, odd, tmp_path / "none")]
    refusals = [Failure.REFUSED, Failure.CREDENTIALS, Failure.CREDENTIALS]
    config = AnyHub(tmp_path / "hub", **authorization(kind, inside))
    assert attempts(kind, config, ways) == [None, *refusals]


OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3


def encoded_seed(raw: bytes, kind: int) -> str:
    """An nkey seed as text: prefix, key, CRC-16."""
    body = bytes([(18 << 3) | (kind >> 5), (kind & 31) << 3]) + raw
    return b32encode(body + crc16(body).to_bytes(2, "little")).decode().rstrip("=")


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, as nkeys uses it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def jwt(claims: dict[str, object], signer: nkeys.KeyPair) -> str:
    """A NATS JWT (version 2) signed by this key."""

    def part(value: object) -> str:
        return urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")

    claims = claims | {"iat": int(time.time()), "iss": signer.public_key.decode()}
    claims["jti"] = b32encode(sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    body = f"{part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{part(claims)}"
    return f"{body}.{urlsafe_b64encode(signer.sign(body.encode())).decode().rstrip('=')}"


def pair(number: int, kind: int) -> tuple[str, nkeys.KeyPair]:
    """A fixed key pair with its seed."""
    seed = encoded_seed(bytes([number] * 32), kind)
    return seed, nkeys.from_seed(bytearray(seed.encode()))


@pytest.mark.parametrize("kind", LINKS)
def test_a_jwt_with_its_seed_in_a_creds_file(tmp_path: Path, kind: str) -> None:
    """A hub in operator mode takes a user's JWT with the signature of its seed, and not one of an unknown account."""
    _, operator = pair(1, OPERATOR)
    _, account = pair(2, ACCOUNT)
    _, stranger = pair(3, ACCOUNT)
    seed, user = pair(4, USER)
    limits = {"subs": -1, "data": -1, "payload": -1}
    many = {"imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1} | limits
    account_claims = {
        "sub": account.public_key.decode(),
        "name": "A",
        "nats": {"limits": many, "type": "account", "version": 2},
    }
    user_claims = {
        "sub": user.public_key.decode(),
        "name": "silt",
        "nats": limits | {"pub": {}, "sub": {}, "type": "user", "version": 2},
    }
    operator_claims = {"sub": operator.public_key.decode(), "name": "O", "nats": {"type": "operator", "version": 2}}
    config = AnyHub(
        tmp_path / "hub",
        api_over_leaf=False,
        extra=f"operator: {jwt(operator_claims, operator)}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {account.public_key.decode()}: {jwt(account_claims, operator)} }}",
    )
    ways = []
    for name, signer in (("own", account), ("foreign", stranger)):
        file = tmp_path / f"{name}.creds"
        file.write_text(
            f"-----BEGIN NATS USER JWT-----\n{jwt(user_claims, signer)}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
        ways.append(CredentialSource(credentials_file=file))
    assert attempts(kind, config, ways) == [None, Failure.REFUSED]


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("first", [False, True])
def test_tls_with_our_certificate(tmp_path: Path, kind: str, first: bool) -> None:
    """TLS after INFO or before it: verified both ways; an unknown authority and a wrong name are refused."""
    files = keys_and_certificates(tmp_path)
    block = (
        f'tls {{ cert_file: "{files["certificate"]}", key_file: "{files["key"]}", ca_file: "{files["ca"]}", '
        f"verify: true, handshake_first: {str(first).lower()} }}"
    )
    config = AnyHub(tmp_path / "hub", **({"leafnodes": block} if kind == "leaf" else {"extra": block}))
    shown = {"certificate_file": files["certificate"], "key_file": files["key"], "handshake_first": first}
    ways = [
        (TlsOptions(ca_file=files["ca"], **shown), None),
        (TlsOptions(**shown), Failure.TLS),
        (TlsOptions(ca_file=files["ca"], server_name="elsewhere", **shown), Failure.TLS),
        (TlsOptions(ca_file=tmp_path / "none.pem", **shown), Failure.CREDENTIALS),
    ]

    async def scenario() -> None:
        async with (running_tls_first if first else running)(config) as hub:
            for tls, expected in ways:
                heard = Heard()
                async with link_to(kind, hub, heard, tls=tls) as link:
                    assert await outcome(link, heard) == expected

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("how", ["url", "settings"])
def test_a_hub_without_tls_is_refused_where_tls_is_demanded(tmp_path: Path, kind: str, how: str) -> None:
    """No credential leaves in the clear when the settings say TLS."""

    async def scenario() -> None:
        heard = Heard()
        async with running(HubConfig(tmp_path)) as hub:
            port = hub.leaf_port if kind == "leaf" else hub.port
            url = f"tls://127.0.0.1:{port}" if how == "url" else f"nats://127.0.0.1:{port}"
            tls = TlsOptions(required=how == "settings")
            async with link_to(kind, hub, heard, url=url, tls=tls) as link:
                assert await outcome(link, heard) == Failure.TLS

    asyncio.run(scenario())


def test_the_client_port_is_named_as_the_wrong_one(tmp_path: Path) -> None:
    """The likeliest mistake gets a clear answer."""

    async def scenario() -> None:
        heard = Heard()
        async with running(HubConfig(tmp_path)) as hub, leaf(hub.url, heard) as link:
            assert await outcome(link, heard) == Failure.PROTOCOL
            assert "port is for clients" in str(heard.statuses[0].error)
            await asyncio.wait_for(asyncio.sleep(0), WAIT)

    asyncio.run(scenario())
