"""Settings: where values come from, and what is refused."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from conf.setting_sources import ConfigMissing, SettingsError, UnknownSetting
from conf.settings import LimitsSettings, Settings, load_settings


def test_defaults_need_neither_file_nor_environment() -> None:
    """Nothing has to be set."""
    settings = load_settings()
    assert settings.http.host == "127.0.0.1"
    assert settings.history.horizon_seconds == 7 * 24 * 3600


def test_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TOML file sets values, ``SILT_…`` variables override single ones of them."""
    file = tmp_path / "silt.toml"
    file.write_text("[http]\nport = 1\nrows_max = 7\n[nats]\ndomain = 'hub'\n")
    monkeypatch.setenv("SILT_CONFIG", str(file))
    monkeypatch.setenv("SILT_HTTP__PORT", "2")
    settings = load_settings()
    assert (settings.http.port, settings.http.rows_max, settings.nats.domain) == (2, 7, "hub")


def test_an_argument_wins_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller gives is not overridden."""
    monkeypatch.setenv("SILT_HTTP__PORT", "2")
    assert load_settings(http={"port": 3}).http.port == 3


@pytest.mark.parametrize("name", ["SILT_HTTP__PROT", "SILT_PORT", "SILT_HTPP__PORT"])
def test_an_unknown_variable_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable is an error, not silence."""
    monkeypatch.setenv(name, "1")
    with pytest.raises(UnknownSetting, match=name):
        load_settings()


@pytest.mark.parametrize("text", ["[http]\nprot = 1\n", "[htpp]\nport = 1\n", "port = 1\n"])
def test_an_unknown_key_in_the_file_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt key is an error, not silence."""
    file = tmp_path / "silt.toml"
    file.write_text(text)
    monkeypatch.setenv("SILT_CONFIG", str(file))
    with pytest.raises(SettingsError, match=r"Extra inputs are not permitted|valid dictionary"):
        load_settings()


def test_a_file_that_is_named_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong path is an error, not the defaults."""
    monkeypatch.setenv("SILT_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ConfigMissing, match=r"none\.toml"):
        load_settings()


def test_settings_do_not_change_once_made() -> None:
    """A process can't change its settings under way."""
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.http = settings.http  # type: ignore[misc]
    with pytest.raises(ValidationError):
        settings.http.port = 1  # type: ignore[misc]


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password does not appear in a log of the settings."""
    monkeypatch.setenv("SILT_NATS__PASSWORD", "hunter2")
    settings = load_settings()
    assert "hunter2" not in repr(settings)
    assert settings.nats.password is not None
    assert settings.nats.password.get_secret_value() == "hunter2"


def test_every_number_carries_its_unit() -> None:
    """A number's name ends in what it counts; limits of the account are named as nats-server names them."""
    units = ("seconds", "ms", "bytes", "mib", "rows", "files", "commits", "processes", "port", "nice")
    for section in Settings.model_fields.values():
        assert section.annotation is not None
        for name, field in section.annotation.model_fields.items():
            if field.annotation in {int, float} and section.annotation is not LimitsSettings:
                assert any(unit in name.split("_") for unit in units) or name == "concurrency_max", name
