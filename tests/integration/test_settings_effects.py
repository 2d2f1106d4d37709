"""Every setting does something: each is set in the environment and its effect is seen; a new one needs a test here."""

import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.error import HTTPError

import jwt
import nats
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from obstore.store import S3Store
from pydantic import BaseModel

from api.cli import up as up_command
from api.gateway import gateway_main
from api.gateway.gateway_links import GatewayLinks
from api.gateway.gateway_options import parse
from api.gateway.gateway_stores import claim_stores
from api.hub.hub_child import HubChild, HubPlan
from api.hub.hub_config import HubConfig
from api.hub.hub_process import HubAddress
from api.responder import nats_access
from api.rest.keys import hash_of, new_key
from api.up.supervisor import Supervisor
from conf.data_location import data_location
from conf.limits import SETTLE_START_NICE
from conf.settings import LimitsSettings, Settings, load_settings
from delta_store.settling import settle_job
from delta_store.storage.object_store import open_object_store
from ingest.protocol.credentials import CredentialSource
from ingest.protocol.link import Failure
from tests.hubs import AnyHub, Heard, client, keys_and_certificates, leaf, running
from tests.servers import Child, http_open, wait_until
from tests.tables import History, Tables
from tests.waits import until

Test = TypeVar("Test", bound=Callable[..., None])
READY = re.compile(r'^({"ready": true.*})$', re.MULTILINE)
SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"
DEAD = "nats://127.0.0.1:1"
_shown: set[str] = set()


def shows(*names: str) -> Callable[[Test], Test]:
    """Says which settings a test sees the effect of."""
    _shown.update(names)
    return lambda test: test


def every_setting() -> Iterator[str]:
    """``section.name`` of each field of the model."""
    for section, field in Settings.model_fields.items():
        model = cast(type[BaseModel], field.annotation)
        yield from (f"{section}.{name}" for name in model.model_fields)


def variables(**settings: object) -> dict[str, str]:
    """``http__port=1`` as the environment has it."""
    return {f"SILT_{name.upper()}": str(value) for name, value in settings.items()}


def set_all(monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    """Set them in this process."""
    for name, value in variables(**settings).items():
        monkeypatch.setenv(name, value)


@contextmanager
def process(module: str, folder: Path, **settings: object) -> Iterator[Child]:
    """A process of ours that finds everything in its environment."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    env = {**variables(**settings), "SILT_DATA": str(data)}
    child = Child([sys.executable, "-m", module], folder / "process.log", env)
    child.start()
    try:
        yield child
    finally:
        child.stop()


def on_hub(config: HubConfig, use: Callable[[HubAddress], Awaitable[None]]) -> None:
    """Run ``use`` while the hub runs."""

    async def scene() -> None:
        async with running(config) as hub:
            await use(hub)

    asyncio.run(scene())


def gateway_enters(folder: Path, config: HubConfig, **settings: object) -> None:
    """A gateway says that it is ready, which both of its links must be for."""

    async def use(hub: HubAddress) -> None:
        where = {"nats__url": hub.url, "nats__leaf_url": hub.leaf_url}
        with process("api.gateway.gateway_main", folder, **(where | settings)) as child:
            await asyncio.to_thread(child.wait_log, READY)

    on_hub(config, use)


@pytest.mark.parametrize("name", list(every_setting()))
def test_each_setting_has_a_test_of_its_effect(name: str) -> None:
    """A setting that nothing obeys is worse than none."""
    assert name in _shown


@shows("nats.url", "nats.leaf_url", "nats.token", "nats.leaf_user", "nats.leaf_password")
def test_links_find_and_enter_a_server_by_the_environment_alone(tmp_path: Path) -> None:
    """The client link shows a token, the leaf link a user and password of its own."""
    inside = 'authorization { user: "l", password: "p" }'
    config = AnyHub(tmp_path / "hub", leafnodes=inside, extra='authorization { token: "t" }')
    gateway_enters(tmp_path, config, nats__token="t", nats__leaf_user="l", nats__leaf_password="p")


@shows("nats.tls_ca_file", "nats.tls_certificate_file", "nats.tls_key_file", "nats.nkey_seed_file")
def test_links_trust_and_show_what_the_environment_names(tmp_path: Path) -> None:
    """A hub that asks for a certificate and a key on both of its listeners."""
    files = keys_and_certificates(tmp_path)
    (tmp_path / "seed").write_text(SEED)
    import nkeys

    public = nkeys.from_seed(bytearray(SEED.encode())).public_key.decode()
    tls = (
        f'tls {{ cert_file: "{files["certificate"]}", key_file: "{files["key"]}", ca_file: "{files["ca"]}", '
        "verify: true }\n"
    )
    of_leafs, of_clients = f"authorization {{ nkey: {public} }}", f"authorization {{ users: [ {{ nkey: {public} }} ] }}"
    gateway_enters(
        tmp_path,
        AnyHub(tmp_path / "hub", leafnodes=tls + of_leafs, extra=tls + of_clients),
        nats__tls_ca_file=files["ca"],
        nats__tls_certificate_file=files["certificate"],
        nats__tls_key_file=files["key"],
        nats__nkey_seed_file=tmp_path / "seed",
    )


@shows("nats.user", "nats.password", "nats.api_over", "nats.domain")
@shows("journal.commit_interval_ms", "journal.commit_rows", "journal.commit_bytes")
def test_the_gateway_serves_a_domain_and_commits_at_its_pace(tmp_path: Path) -> None:
    """By the leaf link alone; one message waits for the interval, enough rows or bytes do not."""
    inside = 'authorization { user: "u", password: "p" }'
    config = AnyHub(tmp_path / "hub", leafnodes=inside, extra=inside)

    async def use(hub: HubAddress) -> None:
        pace = {"journal__commit_interval_ms": 2500, "journal__commit_rows": 3, "journal__commit_bytes": 5000}
        login = {"nats__user": "u", "nats__password": "p", "nats__domain": "silt", "nats__api_over": "leaf"}
        where = {"nats__url": DEAD, "nats__leaf_url": hub.leaf_url}
        with process("api.gateway.gateway_main", tmp_path, **where, **login, **pace) as child:
            await asyncio.to_thread(child.wait_log, READY)
            connection = await nats.connect(hub.url, user="u", password="p")
            created = await connection.request(
                "$JS.silt.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}', timeout=9
            )
            assert json.loads(created.data)["config"]["name"] == "S"

            async def publish(*payloads: bytes) -> float:
                began = time.monotonic()
                await asyncio.gather(*(connection.request("s", payload, timeout=9) for payload in payloads))
                return time.monotonic() - began

            assert await publish(b"x") > 1
            assert await publish(b"x", b"y", b"z") < 2
            assert await publish(b"x" * 6000) < 2
            await connection.close()

    on_hub(config, use)


@shows("journal.unsettled_rows_max", "journal.unsettled_bytes_max", "journal.unsettled_files_max")
@pytest.mark.parametrize("bound", ["rows", "bytes", "files"])
def test_what_is_not_settled_is_bounded(bound: str, tmp_path: Path) -> None:
    """Nobody settles here: publishes end as nats-server ends them under load, the log says why, reads go on."""

    async def use(hub: HubAddress) -> None:
        where = {"nats__url": hub.url, "nats__leaf_url": hub.leaf_url, "nats__api_over": "leaf"}
        limit = {f"journal__unsettled_{bound}_max": 30_000 if bound == "bytes" else 12}
        with process("api.gateway.gateway_main", tmp_path, **where, **limit) as child:
            await asyncio.to_thread(child.wait_log, READY)
            connection = await nats.connect(hub.url)
            create = b'{"name":"S","subjects":["s"],"allow_direct":true}'
            await connection.request("$JS.API.STREAM.CREATE.S", create, timeout=20)
            for _ in range(50):
                answer = await connection.request("s", b"x" * 100, timeout=20)
                if (answer.headers or {}).get("Status") == "429":
                    break
            else:
                raise AssertionError("never refused")
            assert json.loads(answer.data)["error"]["err_code"] == 10167
            assert (await connection.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', timeout=20)).data == b"x" * 100
            await connection.close()
            await asyncio.to_thread(child.wait_log, re.compile("settling lags too far: publishes are refused"))

    on_hub(AnyHub(tmp_path / "hub"), use)


@shows("nats.connect_timeout_seconds", "nats.credentials_file", "nats.leaf_nkey_seed_file")
@shows("nats.leaf_credentials_file", "reads.cache_bytes_max", "reads.concurrency_max", "reads.timeout_seconds")
@shows(
    "limits.max_storage", "limits.max_memory", "limits.max_streams", "limits.max_consumers", "limits.max_ack_pending"
)
@shows("limits.storage_max_stream_bytes", "limits.memory_max_stream_bytes", "limits.max_bytes_required")
def test_what_the_gateway_is_built_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, caches and threads as the environment says."""
    set_all(monkeypatch, nats__connect_timeout_seconds=7.5, nats__credentials_file=tmp_path / "own.creds")
    set_all(monkeypatch, nats__leaf_nkey_seed_file=tmp_path / "leaf.nk", reads__cache_bytes_max=12345)
    set_all(monkeypatch, reads__concurrency_max=3, reads__timeout_seconds=8.5, data=tmp_path)
    limits = {name: number for number, name in enumerate(LimitsSettings.model_fields, 1)} | {"max_bytes_required": True}
    set_all(monkeypatch, **{f"limits__{name}": value for name, value in limits.items()})
    options, settings = parse([])
    stores = claim_stores(options, settings)
    links = GatewayLinks(options, settings)
    with ThreadPoolExecutor() as threads:
        built = gateway_main._Process(settings, stores, links, threads)
    of_leaf, of_client = links.leaf._access, cast(Any, links.client)._access
    assert (of_leaf.connect_timeout_seconds, of_client.connect_timeout_seconds) == (7.5, 7.5)
    assert (of_leaf.credentials.nkey_seed_file, of_leaf.credentials.credentials_file) == (tmp_path / "leaf.nk", None)
    assert of_client.credentials.credentials_file == tmp_path / "own.creds"
    assert stores.catalog.account.limits.as_json() == limits
    reads = built._parts.reads._reader._threads
    assert (stores.payloads.tail._bytes_max, reads._executor._max_workers, reads.timeout_seconds) == (12345, 3, 8.5)
    monkeypatch.delenv("SILT_NATS__LEAF_NKEY_SEED_FILE")
    monkeypatch.setenv("SILT_NATS__LEAF_CREDENTIALS_FILE", str(tmp_path / "leaf.creds"))
    assert nats_access.leaf_credentials(load_settings().nats).credentials_file == tmp_path / "leaf.creds"


@shows("storage.endpoint", "storage.region", "storage.access_key_id", "storage.secret_access_key")
@shows("storage.session_token", "storage.addressing_style", "storage.allow_http", "storage.local_folder")
@shows("storage.connect_timeout_seconds", "storage.timeout_seconds")
def test_an_object_store_is_opened_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting reaches the store that the gateway opens; what it does with them is its own affair."""
    set_all(monkeypatch, storage__endpoint="http://127.0.0.1:1", storage__allow_http="true", storage__region="here")
    set_all(monkeypatch, storage__access_key_id="k", storage__secret_access_key="s", storage__session_token="t")
    set_all(monkeypatch, storage__addressing_style="virtual", storage__local_folder=tmp_path)
    set_all(monkeypatch, storage__connect_timeout_seconds=1.5, storage__timeout_seconds=2.5, data="s3://bucket/silt")
    options, settings = parse([])
    store = cast(S3Store, open_object_store(options.data.uri, options.data.options))
    assert store.config == {
        "endpoint": "http://127.0.0.1:1",
        "region": "here",
        "bucket": "bucket",
        "access_key_id": "k",
        "secret_access_key": "s",
        "session_token": "t",
        "virtual_hosted_style_request": "true",
    }
    assert store.client_options == {"allow_http": "true", "timeout": "2.5s", "connect_timeout": "1.5s"}
    assert options.data.local_folder(settings.storage).parent == tmp_path


@shows("http.host", "http.port", "http.rows_max", "reads.refresh_interval_ms")
def test_a_reader_listens_where_it_is_told_and_looks_as_often(tmp_path: Path) -> None:
    """An address and port of its own, a bound on rows, and a look at the tables so seldom that news is not seen."""
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
    (tmp_path / "data").mkdir()
    history, tables = History(), Tables(tmp_path / "data")
    tables.commit([history.create(), history.publish("s.1")])
    http = {"http__host": "127.0.0.2", "http__port": port, "http__rows_max": 2}
    reads = {"reads__refresh_interval_ms": 600_000}
    with process("api.rest.serve_main", tmp_path, **http, **reads) as child:
        assert json.loads(child.wait_log(READY)[1])["url"] == f"http://127.0.0.2:{port}"

        wait_until(lambda: http_open(f"http://127.0.0.2:{port}"), what="the store is open")

        def ask(path: str) -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.2:{port}{path}", timeout=20) as reply:
                    return reply.status, json.load(reply)
            except HTTPError as error:
                return error.code, None

        assert ask("/v1/streams/S/messages?limit=3")[0] == 400
        assert ask("/v1/streams/S/messages?limit=2")[0] == 200
        tables.commit([history.publish("s.2")])
        time.sleep(0.5)
        assert ask("/v1/streams")[1]["streams"][0]["state"]["last_seq"] == 1


@shows("http.sql_processes_max", "http.sql_timeout_seconds", "http.sql_memory_mib", "http.sql_rows_max")
@shows("http.publish_context_file")
def test_a_reader_bounds_queries_and_publishes_where_it_is_told(tmp_path: Path) -> None:
    """One query at a time, so long, in so much memory, with so many rows; a message goes where the context says."""
    (tmp_path / "data").mkdir()
    history, tables = History(), Tables(tmp_path / "data")
    tables.commit([history.create()])
    (tmp_path / "context.json").write_text(json.dumps({"url": DEAD}))
    bounds = {"sql_processes_max": 1, "sql_timeout_seconds": 2, "sql_memory_mib": 64, "sql_rows_max": 10}
    told = {"port": 0, "publish_context_file": tmp_path / "context.json", **bounds}
    with process("api.rest.serve_main", tmp_path, **{f"http__{name}": value for name, value in told.items()}) as child:
        url = json.loads(child.wait_log(READY)[1])["url"]
        wait_until(lambda: http_open(url), what="the store is open")

        def ask(path: str, body: str) -> tuple[int, int]:
            try:
                with urllib.request.urlopen(f"{url}{path}", body.encode(), timeout=60) as reply:
                    return reply.status, 0
            except HTTPError as error:
                return error.code, json.load(error)["err_code"]

        assert ask("/v1/sql", "SELECT range FROM range(10)") == (200, 0)
        assert ask("/v1/sql", "SELECT range FROM range(11)") == (413, 20015)
        assert ask("/v1/sql", "SELECT list_aggregate(range(1000000000), 'sum')") == (413, 20015)
        endless = "SELECT sum(a.range * b.range) FROM range(3000000) a, range(3000000) b"
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: ask("/v1/sql", endless), range(2)))
        assert (504, 20015) in answers
        assert set(answers) <= {(504, 20015), (503, 20004)}
        assert ask("/v1/streams/S/messages?subject=s.1", "x") == (503, 20011)


@shows("settle.spark_master", "settle.driver_memory_mib", "settle.nice")
def test_the_settle_job_starts_java_as_told(tmp_path: Path) -> None:
    """Memory and master are on Java's command line, and it gives way: a little while it starts, then as told."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\nnice >> {tmp_path}/said\nexit 1\n')
    java.chmod(0o755)
    settings = variables(settle__spark_master="local[7]", settle__driver_memory_mib=777, settle__nice=13)
    env = {**os.environ, **settings, "JAVA_HOME": str(tmp_path / "jdk"), "SILT_DATA": str(tmp_path)}
    command = [sys.executable, "-m", "delta_store.settling.settle_main", "--once"]
    subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    said = (tmp_path / "said").read_text()
    assert "spark.master=local[7]" in said
    assert "spark.driver.memory=777m" in said
    assert said.split()[-1] == str(SETTLE_START_NICE)


@shows("settle.compact_interval_seconds", "settle.vacuum_interval_seconds", "history.horizon_seconds")
@shows("settle.trigger_interval_seconds")
def test_the_settle_job_works_as_often_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its timetable, what the table keeps, and the interval that the query is started with."""
    set_all(monkeypatch, settle__compact_interval_seconds=11, settle__vacuum_interval_seconds=12)
    set_all(monkeypatch, settle__trigger_interval_seconds=13, history__horizon_seconds=14)
    job = settle_job.SettleJob(cast(Any, None), data_location(str(tmp_path)), load_settings())
    assert job._maintenance._pace.schedule == settle_job.Schedule(11, 12)
    assert job._settle._horizon_seconds == 14

    class Started(Exception):
        """Enough was seen."""

    def start(*_: object, interval_seconds: float, **__: object) -> None:
        raise Started(interval_seconds)

    monkeypatch.setattr(settle_job, "start_settling", start)
    monkeypatch.setattr(settle_job, "warm_up", lambda _spark: None)
    with pytest.raises(Started, match="13"):
        job._run_query(cast(Any, None), once=False)


@shows("settle.trigger", "settle.checkpoint_folder")
def test_queries_end_and_keep_their_checkpoint_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of what is there has no interval; Spark takes the folder's path as it stands."""
    set_all(monkeypatch, settle__trigger="available-now", settle__checkpoint_folder=tmp_path / "volume")
    job = settle_job.SettleJob(cast(Any, None), data_location(str(tmp_path)), load_settings())
    told: dict[str, object] = {}

    class Started(Exception):
        """Enough was seen."""

    def start(*_: object, **how: object) -> None:
        told.update(how)
        raise Started

    monkeypatch.setattr(settle_job, "start_settling", start)
    monkeypatch.setattr(settle_job, "warm_up", lambda _spark: None)
    with pytest.raises(Started):
        job._run_query(cast(Any, None), once=False)
    assert told == {"interval_seconds": None, "checkpoint": str(tmp_path / "volume" / "settle-checkpoint-1")}


@shows("hub.require_credentials")
def test_the_own_server_asks_who_enters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leafs always, clients when told to; credentials outlive a start, and those of the settings go before them."""
    folder = tmp_path / "nats"

    async def entered(**settings: object) -> tuple[str, dict[str, Any], list[Failure | None]]:
        """The leaf's password, the context, and how leaf and client fare: without credentials, then with them."""
        set_all(monkeypatch, **settings)
        child = HubChild(HubPlan(folder, 0, load_settings()))
        await child.start({})
        said = await child.wait_ready(1)
        context = json.loads((folder / "context.json").read_text())
        client_login = CredentialSource(user=context.get("user", ""), password=context.get("password", ""))
        leaf_login = CredentialSource(user=said["leaf_login"].user, password=said["leaf_login"].password)
        outcomes: list[Failure | None] = []
        for attach, url, ways in (
            (leaf, said["leaf_url"], (CredentialSource(), leaf_login)),
            (client, said["url"], (CredentialSource(), client_login)),
        ):
            for way in ways:
                heard = Heard()
                async with attach(url, heard, credentials=way):
                    await until(lambda heard=heard: heard.statuses)
                outcomes.append(heard.statuses[0].error.kind if heard.statuses[0].error else None)
        await child.stop(5)
        return leaf_login.password, context, outcomes

    async def scene() -> None:
        first, context, outcomes = await entered()
        assert (outcomes, "password" in context) == ([Failure.REFUSED, None, None, None], False)
        second, context, outcomes = await entered(hub__require_credentials="true")
        assert (second, outcomes) == (first, [Failure.REFUSED, None, Failure.REFUSED, None])
        own = {"nats__leaf_user": "l", "nats__leaf_password": "p", "nats__user": "u", "nats__password": "q"}
        third, context, outcomes = await entered(**own)
        assert (third, context["user"], context["password"]) == ("p", "u", "q")
        assert outcomes == [Failure.REFUSED, None, Failure.REFUSED, None]
        assert first in (folder / "credentials.json").read_text()

    asyncio.run(scene())


@shows("http.api_keys_file", "http.jwt_keys_file", "http.jwt_issuer", "http.jwt_audience", "http.jwt_algorithms")
@shows("http.allowed_hosts", "http.tls_certificate_file", "http.tls_key_file")
def test_a_reader_that_others_reach_asks_for_keys_over_tls(tmp_path: Path) -> None:
    """By HTTPS on every address, to the hosts that are named, with a key or a token of the algorithm that is named."""
    files = keys_and_certificates(tmp_path)
    key = new_key()
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[key]]\nname = "x"\nsha256 = "{hash_of(key)}"\nscopes = ["read"]\n')
    signer = ec.generate_private_key(ec.SECP384R1())
    pem = tmp_path / "signer.pem"
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem.write_bytes(signer.public_key().public_bytes(serialization.Encoding.PEM, form))
    token = jwt.encode({"iss": "us", "aud": "silt", "exp": time.time() + 600, "scope": "read"}, signer, "ES384")
    tls = {"http__tls_certificate_file": files["certificate"], "http__tls_key_file": files["key"]}
    signed = {"http__jwt_issuer": "us", "http__jwt_audience": "silt", "http__jwt_algorithms": "ES384,EdDSA"}
    files_of_keys = {"http__api_keys_file": keys, "http__jwt_keys_file": pem}
    where = {"http__host": "0.0.0.0", "http__port": 0, "http__allowed_hosts": "silt.example, 127.0.0.1"}
    with process("api.rest.serve_main", tmp_path, **where, **tls, **signed, **files_of_keys) as child:
        url = json.loads(child.wait_log(READY)[1])["url"]
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(files["ca"]))

        def code(credential: str, host: str) -> int:
            headers = {"Authorization": f"Bearer {credential}", "Host": host}
            request = urllib.request.Request(f"{url}/v1/streams", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=20, context=trusting) as reply:
                    return int(reply.status)
            except HTTPError as error:
                return error.code

        wait_until(lambda: code(key, "127.0.0.1") != 503, what="the store is open")
        shown = [code(key, "127.0.0.1"), code(token, "silt.example"), code("x", "silt.example"), code(key, "localhost")]
        assert shown == [200, 200, 401, 421]
    assert key not in child.log.read_text()


@shows("hub.port")
def test_up_takes_arguments_before_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ports of ``silt up`` are settings that arguments win over."""
    seen: list[tuple[int, int]] = []

    async def run(self: Supervisor) -> None:
        seen.append((self._options.port, self._options.http_port))
        self._file.close()

    monkeypatch.setattr(Supervisor, "run", run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "silt.toml").write_text("[hub]\nport = 4333\n[http]\nport = 1\n")
    set_all(monkeypatch, config="silt.toml", http__port=8333)
    data = data_location(str(tmp_path))
    up_command.up(data)
    up_command.up(data, port=0, http_port=1)
    assert seen == [(4333, 8333), (0, 1)]
    assert os.environ["SILT_CONFIG"] == str(tmp_path / "silt.toml")  # children work elsewhere


@pytest.mark.parametrize(
    ("command", "settings", "told"),
    [
        (["gateway"], {"nats__ulr": "x"}, "no such setting: SILT_NATS__ULR"),
        (["gateway"], {"nats__connect_timeout_seconds": 0}, "wrong setting: nats.connect_timeout_seconds"),
        (["gateway", "--nats", "nats://u:secret@127.0.0.1:1"], {}, "none may hold a user or password"),
        (["serve", "--leaf", "nats://u:secret@127.0.0.1:1"], {}, "none may hold a user or password"),
        (["serve"], {"nats__url": DEAD}, "go together"),
        (["serve"], {"http__host": "0.0.0.0"}, "set http.api_keys_file (make a key with: silt key new)"),
        (["serve"], {"http__jwt_keys_file": "none.pem"}, "needs http.jwt_issuer and http.jwt_audience"),
        (["up"], {"http__host": "::"}, "set http.api_keys_file"),
        (["settle"], {"settle__nice": 99}, "wrong setting: settle.nice"),
        (["up"], {"nats__url": DEAD}, "nats.url: silt up starts a nats-server of its own"),
    ],
)
def test_what_can_not_be_obeyed_is_refused(
    command: list[str], settings: dict[str, object], told: str, tmp_path: Path
) -> None:
    """Status 2 and a sentence, in every command, without a traceback and without the password."""
    env = {**os.environ, **variables(**settings), "SILT_DATA": str(tmp_path)}
    silt = [sys.executable, "-m", "api.cli.main", *command]
    ran = subprocess.run(silt, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, told in " ".join(ran.stderr.split())) == (2, True), ran.stderr
    assert "Traceback" not in ran.stderr
    assert "secret" not in ran.stderr
