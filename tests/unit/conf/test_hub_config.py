"""The embedded nats-server's configuration file, as text."""

from pathlib import Path

import pytest

from api.hub.hub_config import HubConfig


def test_defaults_listen_on_loopback_and_let_the_api_cross_the_leaf_link(tmp_path: Path) -> None:
    """Free ports, no JetStream of its own, and the one option that a leaf needs for ``$JS.API.>``."""
    text = HubConfig(tmp_path).render()
    assert 'listen: "127.0.0.1:-1"' in text
    assert text.count('listen: "127.0.0.1:-1"') == 2
    assert 'default_js_domain: { "$G": "" }' in text
    assert "jetstream" not in text
    assert "authorization" not in text


def test_what_is_chosen_is_rendered(tmp_path: Path) -> None:
    """Ports, payload, name and the leaf's user reach the file."""
    config = HubConfig(
        tmp_path, host="::", port=4222, leaf_port=7422, server_name='a"b', max_payload_bytes=5,
        api_over_leaf=False, leaf_user="u", leaf_password="p\\w$x",
    )  # fmt: skip
    text = config.render()
    assert 'listen: "[::]:4222"' in text
    assert 'listen: "127.0.0.1:7422"' in text
    assert "max_payload: 5" in text
    assert 'server_name: "a\\"b"' in text
    assert 'user: "u", password: "p\\\\w$x"' in text
    assert "default_js_domain" not in text
    assert "p\\w$x" not in repr(config)


def test_a_value_with_a_line_break_is_refused(tmp_path: Path) -> None:
    """No value may add a line of its own."""
    with pytest.raises(ValueError, match="printable"):
        HubConfig(tmp_path, server_name='x"\ninclude: "/etc/passwd').render()
