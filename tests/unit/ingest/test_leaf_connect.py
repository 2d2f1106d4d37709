"""The leaf handshake's decisions: what INFO must hold and what CONNECT says."""

import json
from base64 import urlsafe_b64decode

import nkeys
import pytest

from ingest.protocol.credentials import Credentials
from ingest.protocol.handshake import read_info
from ingest.protocol.leaf_connect import LeafIdentity, check_leaf_listener, connect_frame
from ingest.protocol.link import HubEndpoint
from ingest.protocol.wire_protocol import Info, ProtocolError

HUB = {"server_id": "N1", "server_name": "hub", "version": "2.15.1", "nonce": "abc", "headers": True, "max_payload": 99}
IDENTITY = LeafIdentity("silt-1", "SILT1")
SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"


def info(**changes: object) -> Info:
    """An INFO of a leafnode listener, changed."""
    return Info(json.dumps(HUB | changes).encode())


def connect(credentials: Credentials, endpoint: HubEndpoint | None = None) -> dict[str, object]:
    """The fields of CONNECT."""
    frame = connect_frame(read_info(info()), endpoint or HubEndpoint("h", 1), IDENTITY, credentials)
    assert frame.startswith(b"CONNECT {")
    assert frame.endswith(b"}\r\n")
    fields = json.loads(frame.removeprefix(b"CONNECT "))
    assert isinstance(fields, dict)
    return fields


def test_connect_says_who_we_are_and_nothing_that_a_hub_refuses() -> None:
    """No ``lang`` (a wrong port), no compression, headers on, a cluster of our own."""
    fields = connect(Credentials())
    assert fields == {
        "version": "2.15.0",
        "server_id": "SILT1",
        "name": "silt-1",
        "cluster": "silt-1",
        "headers": True,
        "jetstream": False,
        "is_hub": False,
        "remote_account": "silt",
    }


def test_credentials_win_over_those_of_the_url() -> None:
    """What the settings say is used instead of the URL's user, never beside it."""
    endpoint = HubEndpoint("h", 1, user="url", password="p")
    assert connect(Credentials(), endpoint)["user"] == "url"
    user = connect(Credentials(user="u", password="s"), endpoint)
    assert (user["user"], user["pass"]) == ("u", "s")
    token = connect(Credentials(token="t"), endpoint)
    assert token["auth_token"] == "t"
    assert "user" not in token


@pytest.mark.parametrize("jwt", ["", "a.b.c"])
def test_a_seed_signs_the_nonce_and_stays_home(jwt: str) -> None:
    """The signature verifies under the public key; a JWT takes the key's place."""
    fields = connect(Credentials(seed=SEED, jwt=jwt))
    pair = nkeys.from_seed(bytearray(SEED.encode()))
    signature = str(fields["sig"])
    pair.verify(b"abc", urlsafe_b64decode(signature + "=" * (-len(signature) % 4)))
    assert SEED not in json.dumps(fields)
    assert fields.get("jwt", "") == jwt
    assert fields.get("nkey", "") == ("" if jwt else pair.public_key.decode())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "no JSON"),
        (b"[1]", "no JSON object"),
        (info(headers=False).json, "headers"),
        (info(max_payload="1").json, "max_payload"),
        (info(max_payload=-1).json, "max_payload"),
    ],
)
def test_an_unusable_info_is_refused_with_its_reason(text: bytes, reason: str) -> None:
    """The error says what is wrong with the peer."""
    with pytest.raises(ProtocolError, match=reason):
        read_info(Info(text))


def test_fields_of_the_wrong_type_count_as_absent() -> None:
    """A hub that says odd things is read without a crash."""
    hub = read_info(info(nonce=5, tls_required="yes"))
    assert (hub.nonce, hub.tls_required, hub.max_payload) == ("", False, 99)


def test_a_listener_for_clients_is_refused() -> None:
    """The likeliest mistake is named before anything is said there."""
    check_leaf_listener(read_info(info()))
    with pytest.raises(ProtocolError, match="port is for clients"):
        check_leaf_listener(read_info(info(client_ip="127.0.0.1")))


@pytest.mark.parametrize("name", ["", "a b", " a", "a\n"])
def test_a_name_with_spaces_is_refused(name: str) -> None:
    """The hub closes a connection whose cluster has spaces."""
    with pytest.raises(ValueError, match="spaces"):
        LeafIdentity(name, "S")
