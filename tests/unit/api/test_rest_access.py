"""Who may enter the HTTP API: every route with every kind of credential, and what opens nothing."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from api.cli.app import app as silt
from api.rest.access import OPEN_PATHS, Action, Principal, parse_scope
from api.rest.app import create_app
from api.rest.keys import NotRecognised, hash_of, new_key, open_keyring
from api.rest.open_door import refuse_open_door
from conf.clock import SystemClock
from conf.setting_sources import SettingsError
from conf.settings import HttpSettings, Settings
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from tests.tables import History, Tables

Use = Callable[[httpx.AsyncClient], Awaitable[None]]


def over(folder: Path, use: Use, **http: Any) -> None:
    """Run ``use`` with a client of the API over two streams, A and B_1, of one message each."""
    data = folder / "data"
    data.mkdir()
    tables = Tables(data)
    for name in ("A", "B_1"):
        history = History(stream=name)
        tables.commit([history.create(), history.publish("s.1")])

    async def run() -> None:
        threads = ReadThreads(1, timeout_seconds=20)
        replica = Replica(str(data), threads, clock=SystemClock())
        await replica.open()
        transport = httpx.ASGITransport(create_app(replica, Settings(http=HttpSettings(**http))))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await use(client)
        threads.close()

    asyncio.run(run())


def key_file(folder: Path, **scopes: list[str]) -> tuple[Path, dict[str, str]]:
    """A file of keys, made by the command, and the keys by name."""
    file = folder / "keys.toml"
    keys = {}
    for name, some in scopes.items():
        options = [text for scope in some for text in ("--scope", scope)]
        ran = CliRunner().invoke(silt, ["key", "new", name, *options, "--file", str(file)])
        assert ran.exit_code == 0, ran.output
        keys[name] = ran.stdout.strip()
    return file, keys


def bearer(credential: str) -> dict[str, str]:
    """The header that shows it."""
    return {"Authorization": f"Bearer {credential}"}


READERS, WRITERS = {"a", "b", "all", "admin"}, {"writer", "admin"}
LISTS = ("/v1/streams", "/v1/cuts", "/v1/sql", "/delta-sharing/shares", "/schemas", "/tables", "/all-tables", "/silt")


def requests_of(description: dict[str, Any]) -> list[tuple[str, str]]:
    """A request about stream A for each method and path that the API has, and those that describe it."""
    filled = {
        "{name}": "A", "{seq}": "1", "{subject}": "s.1", "{extension}": "csv",
        "{share}": "silt", "{schema}": "streams", "{table}": "A",
    }  # fmt: skip
    queries = {
        "multi-last": "subject=s.1", "diff": "a=1", "sql": "query=SELECT+1", "tail": "seconds=0.01&from_seq=1",
        "/v1/multi-last": "stream=A",
    }  # fmt: skip
    requests = []
    for path, methods in description["paths"].items():
        url = path
        for parameter, value in filled.items():
            url = url.replace(parameter, value)
        query = queries.get(url, queries.get(url.rpartition("/")[2].removesuffix(".csv"), ""))
        requests += [(method.upper(), f"{url}?{query}" if method == "get" else url) for method in methods]
    return [*requests, ("GET", "/openapi.json"), ("GET", "/docs")]


def opening(method: str, url: str) -> set[str]:
    """The keys that open it."""
    path = url.partition("?")[0].removesuffix(".csv")
    if path in ("/openapi.json", "/docs"):
        return READERS | WRITERS
    if path == "/metrics" or path.startswith("/v1/cuts/") or path.endswith(("/branch", "/rewind", "/undelete")):
        return {"admin"}
    if method == "POST" and path.startswith("/v1/streams/"):
        return WRITERS
    return READERS if path.endswith(LISTS) else READERS - {"b"}


def test_every_route_asks_for_a_key_that_opens_it(tmp_path: Path) -> None:
    """None, a wrong one and one for another stream stay outside; what only probes ask is open to all."""
    scopes = {"a": ["read:A"], "b": ["read:B_*"], "all": ["read"], "writer": ["publish"], "admin": ["admin"]}
    file, keys = key_file(tmp_path, **scopes)

    async def use(client: httpx.AsyncClient) -> None:
        description = (await client.get("/openapi.json", headers=bearer(keys["a"]))).json()
        seen = 0
        for method, url in requests_of(description):

            async def ask(headers: dict[str, str], method: str = method, url: str = url) -> httpx.Response:
                body = {"query": "SELECT 1"} if "/sql" in url else {"subject": "s.1"}
                return await client.request(method, url, headers=headers, json=body if method == "POST" else None)

            codes = {name: (await ask(bearer(key))).status_code for name, key in keys.items()}
            none = await ask({})
            wrong = [await ask(bearer(text)) for text in (new_key(), "silt_", "x", "a.b.c")]
            basic = await ask({"Authorization": "Basic " + keys["a"]})
            if url.partition("?")[0] in OPEN_PATHS:
                assert {none.status_code, *codes.values()} == {200}, url
                continue
            seen += 1
            assert {answer.status_code for answer in (none, basic, *wrong)} == {401}, url
            assert none.headers["www-authenticate"].startswith("Bearer"), url
            assert none.json()["err_code"] == 20005
            assert {name for name, code in codes.items() if code != 403} == opening(method, url), (method, url, codes)
            assert {codes[name] for name in opening(method, url)} <= {200, 501}, (method, url, codes)
        assert seen >= 24
        assert (await client.get("/nowhere")).status_code == 401
        assert (await client.post("/v1/streams")).status_code == 401
        assert (await client.get("/v1/streams/NONE", headers=bearer(keys["a"]))).status_code == 403
        assert (await client.get("/v1/streams/B%5F1", headers=bearer(keys["a"]))).status_code == 403
        for name, listed in {"a": ["A"], "b": ["B_1"], "all": ["A", "B_1"]}.items():
            streams = (await client.get("/v1/streams", headers=bearer(keys[name]))).json()["streams"]
            assert [one["name"] for one in streams] == listed
        answer = await client.get("/v1/streams/A", headers=bearer(keys["b"] + "x"))
        assert keys["b"] not in answer.text

    over(tmp_path, use, api_keys_file=file)


def test_a_key_is_given_and_taken_away_without_a_restart(tmp_path: Path) -> None:
    """The file is read again when it changes; one that is broken or gone opens nothing."""
    file, keys = key_file(tmp_path, one=["read"])
    assert keys["one"] not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600

    async def use(client: httpx.AsyncClient) -> None:
        async def opens(key: str) -> bool:
            return (await client.get("/v1/streams", headers=bearer(key))).status_code == 200

        assert await opens(keys["one"])
        second = key_file(tmp_path, two=["read:A"])[1]["two"]
        assert (await opens(keys["one"]), await opens(second)) == (True, True)
        file.write_text(file.read_text().replace(hash_of(keys["one"]), "0" * 64))
        assert (await opens(keys["one"]), await opens(second)) == (False, True)
        file.write_text("[[key]\n")
        assert not await opens(second)
        file.unlink()
        assert not await opens(second)

    over(tmp_path, use, api_keys_file=file)


def test_a_signed_token_opens_what_its_scopes_say(tmp_path: Path) -> None:
    """Signature, algorithm, issuer, audience and time must fit; whatever does not is the same 401."""
    own, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(own.public_key()))
    jwks = tmp_path / "jwks.json"
    jwks.write_text(json.dumps({"keys": [public | {"kid": "k1", "alg": "ES256"}]}))
    pem = own.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    good = {"iss": "us", "aud": "silt", "sub": "me", "exp": time.time() + 600, "scope": "email read:A"}

    def token(key: Any = own, algorithm: str = "ES256", kid: str | None = "k1", **claims: Any) -> str:
        content = {name: value for name, value in (good | claims).items() if value is not None}
        return jwt.encode(content, key, algorithm, headers={} if kid is None else {"kid": kid})

    unsigned = jwt.encode(good, None, "none")  # type: ignore[arg-type]
    bad = [
        token(other), token(iss="them"), token(aud="them"), token(exp=time.time() - 600), token(exp=None),
        token(aud=None), token(iss=None), token(kid="k2"), token(nbf=time.time() + 600), unsigned,
        token(b"secret" * 8, "HS256"), token(pem.hex(), "HS256"), token()[:-4] + "AAAA",
    ]  # fmt: skip

    async def use(client: httpx.AsyncClient) -> None:
        async def code(credential: str, url: str = "/v1/streams/A") -> int:
            return (await client.get(url, headers=bearer(credential))).status_code

        assert [await code(token()), await code(token(kid=None))] == [200, 200]
        assert [await code(one) for one in bad] == [401] * len(bad)
        assert await code(token(), "/v1/streams/B_1") == 403
        assert await code(token(scope=None, scp=["read:B_*"]), "/v1/streams/B_1") == 200
        assert await code(token(scope=7)) == 403

    over(tmp_path, use, jwt_keys_file=jwks, jwt_issuer="us", jwt_audience="silt")
    (tmp_path / "own.pem").write_bytes(pem)
    keyring = open_keyring(HttpSettings(jwt_keys_file=tmp_path / "own.pem", jwt_issuer="us", jwt_audience="silt"))
    assert keyring is not None
    assert keyring.principal(token(kid=None)).name == "me"
    foreign = jwt.encode(good, rsa.generate_private_key(65537, 2048), "RS256")
    for odd in (foreign, "a.b.c", "..", "", "\x00", token()[:40], "silt_\ud800"):
        with pytest.raises(NotRecognised):
            keyring.principal(odd)


def test_a_request_for_another_host_is_turned_away(tmp_path: Path) -> None:
    """A page that made a browser take our address for its own name's gets nothing, though no key is asked for."""

    async def use(client: httpx.AsyncClient) -> None:
        for host in ("localhost", "127.0.0.1:8222", "[::1]:8222", "LOCALHOST"):
            assert (await client.get("/v1/streams", headers={"Host": host})).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8222"):
            answer = await client.get("/healthz", headers={"Host": host})
            assert (answer.status_code, answer.json()["err_code"]) == (421, 20007)

    over(tmp_path, use)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "silt.example"])
def test_a_listener_for_others_needs_keys(host: str) -> None:
    """It says what to set; on loopback nothing is asked for."""
    with pytest.raises(SettingsError, match=r"http\.api_keys_file .*silt key new"):
        refuse_open_door(HttpSettings(host=host))
    refuse_open_door(HttpSettings(host=host, api_keys_file=Path("keys.toml")))
    for own in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        refuse_open_door(HttpSettings(host=own))


@pytest.mark.parametrize("text", ["", "write", "read:", "read:A.B", "READ", "read:a b", "admin:>"])
def test_what_is_no_scope_is_refused(text: str) -> None:
    """By the command and by whoever reads a file of keys."""
    with pytest.raises(ValueError, match="no such scope"):
        parse_scope(text)
    assert CliRunner().invoke(silt, ["key", "new", "x", "--scope", text]).exit_code == 2


LETTERS = st.text("ab*", max_size=6)


@given(LETTERS, st.text("ab", min_size=1, max_size=6))
def test_a_pattern_means_any_characters_by_each_star(pattern: str, name: str) -> None:
    """As a shell's file pattern does."""
    from fnmatch import fnmatchcase

    if not pattern:
        return
    principal = Principal("x", (parse_scope(f"read:{pattern}"),))
    assert principal.may(Action.READ, name) == fnmatchcase(name, pattern)
    assert not principal.may(Action.PUBLISH, name)


def test_the_command_prints_the_hash_of_a_key() -> None:
    """For keys that came from elsewhere; anything else is refused unseen."""
    key = new_key()
    assert CliRunner().invoke(silt, ["key", "hash"], input=key + "\n").stdout.strip() == hash_of(key)
    refused = CliRunner().invoke(silt, ["key", "hash"], input="password\n")
    assert (refused.exit_code, "password" in refused.output) == (2, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[key]]\nname = "x"\nsha256 = "silt_plain"\nscopes = []\n', "sha256 is not the hash"),
        ('[[key]]\nname = "x"\n', "has name, sha256 and scopes"),
        ('[[keys]]\nname = "x"\n', "unknown: keys"),
        ("not toml", "can't be used"),
    ],
)
def test_a_file_of_keys_that_can_not_be_read_opens_nothing_and_is_said(text: str, told: str, tmp_path: Path) -> None:
    """At the start, without what stands in it."""
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=told) as caught:
        create_app(None, Settings(http=HttpSettings(api_keys_file=file)))  # type: ignore[arg-type]
    assert "silt_plain" not in str(caught.value)
