"""Contexts of the nats CLI, and what wins over them."""

import json
from pathlib import Path

import pytest

from api.process.nats_context import DEFAULT_URL, UnknownContext, find_context


def _context(home: Path, name: str, *, selected: bool = False, **fields: str) -> None:
    folder = home / ".config" / "nats" / "context"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"description": "d", "socks_proxy": "", **fields}))
    if selected:
        (folder.parent / "context.txt").write_text(name + "\n")


def test_without_anything_the_local_server_is_meant(tmp_path: Path) -> None:
    """No option, no variable, no context."""
    found = find_context(None, None, environment={}, home=tmp_path)
    assert found.url == DEFAULT_URL
    assert found.api_prefix == "$JS.API"
    assert found.connect_options() == {"servers": [DEFAULT_URL]}


def test_the_selected_context_is_used(tmp_path: Path) -> None:
    """The one that ``nats context select`` chose."""
    _context(tmp_path, "prod", selected=True, url="nats://a:1,nats://b:2", user="u", password="p")
    found = find_context(None, None, environment={}, home=tmp_path)
    assert found.connect_options() == {"servers": ["nats://a:1", "nats://b:2"], "user": "u", "password": "p"}


def test_a_named_context_wins_over_the_selected_one(tmp_path: Path) -> None:
    """``--context`` beats ``context.txt``."""
    _context(tmp_path, "prod", selected=True, url="nats://prod:1")
    _context(tmp_path, "test", url="nats://test:1", jetstream_domain="hub")
    found = find_context(None, "test", environment={}, home=tmp_path)
    assert (found.url, found.api_prefix) == ("nats://test:1", "$JS.hub.API")


def test_the_server_wins_over_the_contexts_url_but_not_its_credentials(tmp_path: Path) -> None:
    """``--server`` and ``NATS_URL`` replace the address only."""
    _context(tmp_path, "prod", selected=True, url="nats://prod:1", token="t")
    found = find_context("nats://here:4", None, environment={}, home=tmp_path)
    assert found.connect_options() == {"servers": ["nats://here:4"], "token": "t"}


def test_the_folder_of_the_desktop_standard_is_honoured(tmp_path: Path) -> None:
    """``XDG_CONFIG_HOME`` moves the contexts."""
    _context(tmp_path, "x", selected=True, url="nats://x:1")
    environment = {"XDG_CONFIG_HOME": str(tmp_path / ".config")}
    assert find_context(None, None, environment=environment, home=tmp_path / "other").url == "nats://x:1"


@pytest.mark.parametrize("name", ["none", "../secrets", ".hidden"])
def test_a_context_that_is_not_there_is_an_error(name: str, tmp_path: Path) -> None:
    """A name that can't be read is told, and never leads out of the folder."""
    with pytest.raises(UnknownContext):
        find_context(None, name, environment={}, home=tmp_path)


def test_a_context_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    """A damaged file is told."""
    _context(tmp_path, "bad")
    (tmp_path / ".config" / "nats" / "context" / "bad.json").write_text("{")
    with pytest.raises(UnknownContext, match=r"bad\.json"):
        find_context(None, "bad", environment={}, home=tmp_path)
