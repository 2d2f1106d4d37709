"""A data location is a folder or an object store's URL, alike for every command; no error has an empty text."""

import argparse
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from api.cli.app import app
from api.gateway import gateway_main
from api.rest import serve_main
from conf.data_location import DataLocation, data_location, location_argument, storage_options
from conf.error_text import error_text
from conf.setting_sources import SettingsError
from conf.settings import StorageSettings, load_settings
from delta_store.settling import settle_main
from delta_store.settling.spark_store import store_settings
from delta_store.storage.object_store import open_object_store
from delta_store.values.journal_errors import StorageFailed

URL = "s3://bucket/silt"
NO_PLACE = "hdfs://bucket/silt"


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3a://bucket/a//b/", "s3://bucket/a/b"),
        ("gs://bucket/silt", "gs://bucket/silt"),
        ("az://container/silt", "az://container/silt"),
        ("file:///data/silt%20x", "/data/silt x"),
        ("file://localhost/data", "/data"),
        ("/data/../silt", "/silt"),
    ],
)
def test_a_location_is_a_folder_or_a_url(text: str, uri: str) -> None:
    """Written in one way, whatever it was called."""
    location = data_location(text)
    assert (str(location), location.table("journal")) == (uri, f"{uri}/journal")
    assert location.is_local == uri.startswith("/")
    assert pickle.loads(pickle.dumps(location)) == location


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NO_PLACE, "no place for tables"),
        ("s3:/bucket", "names no bucket"),
        ("s3://bucket/../other", "part that is . or .."),
        ("s3://key:secret@bucket/silt", "s3://bucket/silt was given with a login"),
        ("az://container/silt?sig=secret", "az://container/silt was given with a login or parameters"),
        ("file://elsewhere/silt", "another machine"),
    ],
)
def test_what_names_no_place_is_refused_without_its_secret(text: str, why: str) -> None:
    """By a sentence; it once became a folder called s3:."""
    with pytest.raises(argparse.ArgumentTypeError, match=why.replace(".", r"\.")) as refused:
        location_argument(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [["up"], ["settle"], ["sql", "SELECT 1"], ["doctor"], ["verify"], ["repair"]],
    ids=lambda arguments: arguments[0],
)
def test_a_url_of_another_kind_is_wrong_usage(arguments: list[str]) -> None:
    """Status 2, before anything is made."""
    result = CliRunner().invoke(app, [*arguments, "--data", NO_PLACE], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert NO_PLACE in result.output


def test_up_refuses_a_store_that_nobody_settles() -> None:
    """Spark has no file system for it by itself: the journal would only grow."""
    result = CliRunner().invoke(app, ["up", "--data", "gs://bucket/silt"])
    assert isinstance(result.exception, SettingsError)
    assert "silt gateway and silt serve work there" in str(result.exception)
    with pytest.raises(ValueError, match="folders and s3:// only"):
        store_settings(data_location("gs://bucket/silt"))


def test_spark_reads_with_the_same_settings_and_takes_keys_from_its_environment() -> None:
    """Arguments of a process, where Spark's settings stand, have no key."""
    near = KEYS.model_copy(update={"endpoint": "http://127.0.0.1:9000", "allow_http": True, "region": "x"})
    chosen = store_settings(data_location(URL).with_settings(near))
    assert chosen["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert chosen["spark.hadoop.fs.s3a.endpoint.region"] == "x"
    assert chosen["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert chosen["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert "verysecret00" not in str(chosen)
    assert store_settings(data_location("/data")) == {}


@pytest.mark.parametrize("main", [gateway_main.main, serve_main.main, settle_main.main])
def test_a_process_refuses_a_url(main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]) -> None:
    """Also when it is started by itself."""
    with pytest.raises(SystemExit) as ended:
        main(["--data", NO_PLACE])
    assert ended.value.code == 2
    assert NO_PLACE in capsys.readouterr().err


KEYS = StorageSettings(access_key_id=SecretStr("name"), secret_access_key=SecretStr("verysecret00"))


def test_settings_become_the_options_of_the_store() -> None:
    """What is unset is left to the cloud; the text of a location holds no secret."""
    location = data_location(URL).with_settings(KEYS)
    assert location.options == {
        "AWS_ACCESS_KEY_ID": "name",
        "AWS_SECRET_ACCESS_KEY": "verysecret00",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "timeout": "20s",
        "connect_timeout": "5s",
    }
    assert "verysecret00" not in f"{location} {location!r} {KEYS!r}"
    assert storage_options("az://c/x", KEYS)["AZURE_STORAGE_ACCOUNT_KEY"] == "verysecret00"
    assert storage_options("gs://b/x", KEYS).keys() == {"timeout", "connect_timeout"}
    assert data_location("/data").with_settings(KEYS).options == {}
    near = StorageSettings(endpoint="http://127.0.0.1:9000", allow_http=True, region="x", session_token=SecretStr("t"))
    options = storage_options(URL, near)
    assert (options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"], options["allow_http"]) == ("false", "true")
    assert (options["AWS_REGION"], options["AWS_SESSION_TOKEN"]) == ("x", "t")


def test_each_store_takes_its_options() -> None:
    """None is unknown to it; what is missing is told by one sentence."""
    for url in ("s3://b/x", "gs://b/x", "az://c/x"):
        location = data_location(url).with_settings(KEYS)
        assert open_object_store(location.uri, location.options)
    with pytest.raises(StorageFailed, match=r"az://c/x: .*Account must be specified$"):
        open_object_store("az://c/x", {})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"endpoint": "http://127.0.0.1:9000"}, "allow_http"),
        ({"endpoint": "https://name:very-secret@host"}, "endpoint has a login"),
        ({"secret_access_key": "verysecret00"}, "go together"),
        ({"addressing_style": "other"}, "addressing_style"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, str], why: str) -> None:
    """Before anything is sent in the clear."""
    with pytest.raises(SettingsError, match=why) as refused:
        load_settings(storage=wrong)
    assert "verysecret00" not in str(refused.value)


def test_what_must_lie_on_a_local_disk_has_a_folder_for_each_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the user's state folder, or where the settings say; a data folder holds it itself."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    default = StorageSettings()
    first, second = (DataLocation(url).local_folder(default) for url in ("s3://bucket/a/b", "s3://bucket/a-b"))
    assert first.parent == second.parent == tmp_path / "silt"
    assert first.name.startswith("bucket-a-b-")
    assert first != second
    assert DataLocation(URL).local_folder(StorageSettings(local_folder=tmp_path / "x")).parent == tmp_path / "x"
    assert data_location(str(tmp_path)).local_folder(default) == tmp_path


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "TimeoutError"),
        (KeyError("kind"), "KeyError: 'kind'"),
        (AssertionError(), "AssertionError"),
        (OSError("disk"), "disk"),
    ],
)
def test_no_error_is_told_with_an_empty_text(error: Exception, text: str) -> None:
    """Its name stands for what it does not say."""
    assert error_text(error) == text
