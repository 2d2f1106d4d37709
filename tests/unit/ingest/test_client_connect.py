"""What a client's CONNECT says."""

import json
from base64 import urlsafe_b64decode

import nkeys
import pytest

from ingest.protocol.client_connect import connect_frame
from ingest.protocol.credentials import Credentials, CredentialsError
from ingest.protocol.handshake import read_info
from ingest.protocol.link import HubEndpoint
from ingest.protocol.wire_protocol import Info

INFO = {"server_id": "N1", "nonce": "abc", "headers": True, "max_payload": 99, "client_ip": "127.0.0.1"}
SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"


def connect(credentials: Credentials, endpoint: HubEndpoint | None = None, **info: object) -> dict[str, object]:
    """The fields of CONNECT to a listener with this INFO."""
    hub = read_info(Info(json.dumps(INFO | info).encode()))
    frame = connect_frame(hub, endpoint or HubEndpoint("h", 1), credentials, name="silt-1", version="0.1")
    assert frame.startswith(b"CONNECT {")
    assert frame.endswith(b"}\r\n")
    fields = json.loads(frame.removeprefix(b"CONNECT "))
    assert isinstance(fields, dict)
    return fields


def test_a_client_asks_for_headers_and_for_no_word_more_than_it_needs() -> None:
    """No +OK for each frame, no check of each subject, no answers to requests, which it never makes."""
    assert connect(Credentials()) == {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": "0.1",
        "name": "silt-1",
        "protocol": 1,
        "headers": True,
        "no_responders": False,
        "echo": True,
        "tls_required": False,
    }


def test_who_enters_is_said_in_one_way() -> None:
    """The settings win over the URL's user, whose password or token is used where they say nothing."""
    endpoint = HubEndpoint("h", 1, user="url", password="p")
    assert connect(Credentials(), endpoint).items() >= {"user": "url", "pass": "p"}.items()
    assert connect(Credentials(), HubEndpoint("h", 1, token="t"))["auth_token"] == "t"
    assert connect(Credentials(user="u", password="s"), endpoint).items() >= {"user": "u", "pass": "s"}.items()
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


def test_a_seed_that_is_none_is_told_before_anything_is_sent() -> None:
    """Also where the server asks for no signature."""
    with pytest.raises(CredentialsError):
        connect(Credentials(seed="SUNONE"), nonce="")
