"""Real hubs and links for asyncio tests, ended with the block that started them."""

import asyncio
import random
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from api.hub.hub_config import HubConfig, find_nats_server
from api.hub.hub_process import HubAddress, HubProcess
from ingest.links.attachment import Access
from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink
from ingest.protocol.credentials import CredentialSource, TlsOptions
from ingest.protocol.leaf_connect import LeafIdentity
from ingest.protocol.link import LinkStatus, parse_endpoints
from ingest.protocol.wire_protocol import WireMessage
from tests.servers import Child
from tests.waits import until

_PORTS = 10_000, 32_000

WAIT = 10.0


@dataclass(frozen=True)
class AnyHub(HubConfig):
    """A hub with more configuration: ``leafnodes`` inside that block, ``extra`` beside it."""

    leafnodes: str = ""
    extra: str = ""

    def render(self) -> str:
        """Return the usual configuration with both texts in it."""
        text = super().render().replace("leafnodes {", "leafnodes {\n" + self.leafnodes)
        return f"{text}{self.extra}\n"


@asynccontextmanager
async def running(config: HubConfig) -> AsyncIterator[HubAddress]:
    """Run a hub until the block ends."""
    hub = HubProcess(find_nats_server(), config)
    address = await hub.start(WAIT)
    try:
        yield address
    finally:
        await hub.stop(WAIT)


@dataclass
class Heard:
    """The statuses and messages of a link."""

    messages: list[WireMessage] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    statuses: list[LinkStatus] = field(default_factory=list)

    def take(self, run: list[WireMessage]) -> None:
        """Record a run of messages."""
        self.messages += run
        self.runs.append(len(run))


@asynccontextmanager
async def running_tls_first(config: HubConfig) -> AsyncIterator[HubAddress]:
    """Run a hub whose listeners send nothing before TLS, while ``HubProcess`` would wait for their INFO."""
    config.folder.mkdir(parents=True)
    config.config_file.write_text(config.render())
    child = Child([str(find_nats_server()), "-c", str(config.config_file)], config.log_file)
    child.start()
    try:
        await until(lambda: "Server is ready" in config.log_file.read_text())
        ports = dict(re.findall(r"for (client|leafnode) connections on \S+:(\d+)", config.log_file.read_text()))
        yield HubAddress("127.0.0.1", int(ports["client"]), int(ports["leafnode"]))
    finally:
        child.stop()


@asynccontextmanager
async def leaf(
    url: str,
    heard: Heard,
    *,
    subjects: tuple[bytes, ...] = (),
    credentials: CredentialSource | None = None,
    tls: TlsOptions | None = None,
    name: str = "silt-test",
    answer: Callable[[LeafLink, list[WireMessage]], None] | None = None,
    ping_interval_seconds: float = 5.0,
) -> AsyncIterator[LeafLink]:
    """Run a leaf link until the block ends; it may not be attached when the block begins."""
    access = Access(
        endpoints=parse_endpoints(url, default_port=7422),
        credentials=credentials or CredentialSource(),
        tls=tls or TlsOptions(),
        ping_interval_seconds=ping_interval_seconds,
    )

    def received(run: list[WireMessage]) -> None:
        heard.take(run)
        if answer is not None:
            answer(link, run)

    link = LeafLink(
        access, LeafIdentity(name, name.upper()), received, jitter=random.Random(7), on_status=heard.statuses.append
    )
    for subject in subjects:
        link.subscribe(subject)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(link.run())
        try:
            yield link
        finally:
            task.cancel()


@asynccontextmanager
async def client(
    url: str,
    heard: Heard,
    *,
    subjects: tuple[bytes, ...] = (),
    credentials: CredentialSource | None = None,
    tls: TlsOptions | None = None,
    answer: Callable[[ClientLink, list[WireMessage]], None] | None = None,
    ping_interval_seconds: float = 5.0,
) -> AsyncIterator[ClientLink]:
    """Run a client link until the block ends; it may not be attached when the block begins."""
    access = Access(
        endpoints=parse_endpoints(url, default_port=4222),
        credentials=credentials or CredentialSource(),
        tls=tls or TlsOptions(),
        ping_interval_seconds=ping_interval_seconds,
    )

    def received(run: list[WireMessage]) -> None:
        heard.take(run)
        if answer is not None:
            answer(link, run)

    link = ClientLink(access, "silt-test", received, jitter=random.Random(7), on_status=heard.statuses.append)
    for subject in subjects:
        link.subscribe(subject)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(link.run())
        try:
            yield link
        finally:
            task.cancel()


def free_port() -> int:
    """Return a port that nothing listens on, outside the range of outgoing connections."""
    while True:
        port = random.randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def opened(port: int, clock: Callable[[], float]) -> float:
    """Wait until a listener on ``port`` answers; return the clock's time then."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.001)
            continue
        seen = clock()
        writer.transport.abort()
        return seen


def keys_and_certificates(folder: Path) -> dict[str, Path]:
    """Write a test authority, and its certificate for 127.0.0.1 and localhost, for server and client."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("silt test authority"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = builder("silt test authority", authority.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    ca = ca.add_extension(
        x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        ),
        critical=True,
    )  # fmt: skip
    leaf_certificate = (
        builder("silt test", own.public_key())
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    )
    files = {"ca": folder / "ca.pem", "certificate": folder / "own.pem", "key": folder / "own.key"}
    files["ca"].write_bytes(ca.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    files["certificate"].write_bytes(
        leaf_certificate.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    files["key"].write_bytes(
        own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
