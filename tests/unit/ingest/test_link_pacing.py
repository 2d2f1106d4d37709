"""How soon a link tries again, and what a NATS URL means."""

import random

import pytest

from conf.limits import LINK_BACKOFF_SECONDS_MAX, LINK_RETRY_SECONDS
from ingest.protocol.link import Failure, HubEndpoint, LinkError, RetryPacing, parse_endpoints

AT_ONCE = (Failure.UNREACHABLE, Failure.LOST)


@pytest.mark.parametrize("kind", list(Failure))
def test_each_failure_has_its_pace(kind: Failure) -> None:
    """A closed port and a broken link are tried at once for ever; an answer that did not fit makes the pauses grow."""
    pacing = RetryPacing(random.Random(1))
    pauses = [pacing.pause(LinkError(kind, "")) for _ in range(30)]
    if kind in AT_ONCE:
        assert set(pauses) == {LINK_RETRY_SECONDS}
    else:
        assert pauses[0] <= LINK_RETRY_SECONDS
        assert all(0.5 * LINK_BACKOFF_SECONDS_MAX <= pause <= LINK_BACKOFF_SECONDS_MAX for pause in pauses[-10:])
        assert len(set(pauses)) == len(pauses)


@pytest.mark.parametrize("healed", ["attached", "port closed"])
def test_backoff_starts_anew(healed: str) -> None:
    """An attachment, or a port that closed (the server is being replaced), ends the backoff."""
    pacing = RetryPacing(random.Random(1))
    for _ in range(10):
        pacing.pause(LinkError(Failure.REFUSED, ""))
    if healed == "attached":
        pacing.attached()
    else:
        pacing.pause(LinkError(Failure.UNREACHABLE, ""))
    assert pacing.pause(LinkError(Failure.REFUSED, "")) <= LINK_RETRY_SECONDS


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("nats://h", HubEndpoint("h", 7422)),
        ("h:1", HubEndpoint("h", 1)),
        ("nats-leaf://h:1", HubEndpoint("h", 1)),
        ("tls://h:1", HubEndpoint("h", 1, tls=True)),
        ("nats://u:p%40@h", HubEndpoint("h", 7422, user="u", password="p@")),
        ("nats://secret@h", HubEndpoint("h", 7422, token="secret")),
        ("nats://[::1]:5", HubEndpoint("::1", 5)),
    ],
)
def test_a_url_gives_its_endpoint(url: str, endpoint: HubEndpoint) -> None:
    """Scheme, default port, user, token and IPv6 hosts are read as NATS's clients read them."""
    assert parse_endpoints(url, default_port=7422) == (endpoint,)


def test_several_urls_stand_in_one_text() -> None:
    """Addresses of a cluster are separated by commas."""
    assert [str(one) for one in parse_endpoints("nats://a, nats://[::1]:2", default_port=1)] == ["a:1", "[::1]:2"]


@pytest.mark.parametrize("url", ["", "http://h", "nats://", "nats://h:x", "nats://h:99999"])
def test_a_wrong_url_is_refused(url: str) -> None:
    """An error at the start, not a link that never attaches."""
    with pytest.raises(ValueError, match=r"."):
        parse_endpoints(url, default_port=1)


def test_a_password_does_not_stand_in_a_repr() -> None:
    """Endpoints are logged."""
    assert "secret" not in repr(parse_endpoints("nats://u:secret@h,nats://secret@h", default_port=1))
