"""A data folder is a folder: every command refuses a URL, and no error is told with an empty text."""

from collections.abc import Callable, Sequence

import pytest
from typer.testing import CliRunner

from api.cli.app import app
from api.gateway import gateway_main
from api.rest import serve_main
from conf.error_text import error_text
from delta_store.settling import settle_main

URL = "s3://bucket/silt"


@pytest.mark.parametrize(
    "arguments",
    [["up"], ["settle"], ["serve"], ["sql", "SELECT 1"], ["doctor"], ["demo", "--keep", URL]],
    ids=lambda arguments: arguments[0],
)
def test_a_url_is_wrong_usage(arguments: list[str]) -> None:
    """Status 2 and a sentence that names it, before anything is made; it once became a folder called s3:."""
    given = arguments if URL in arguments else [*arguments, "--data", URL]
    result = CliRunner().invoke(app, given, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert f"{URL} is a URL" in result.output


@pytest.mark.parametrize("main", [gateway_main.main, serve_main.main, settle_main.main])
def test_a_process_refuses_a_url(main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]) -> None:
    """Also when it is started by itself."""
    with pytest.raises(SystemExit) as ended:
        main(["--data", URL])
    assert ended.value.code == 2
    assert f"{URL} is a URL" in capsys.readouterr().err


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
