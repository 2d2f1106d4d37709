"""What processes say about themselves."""

import json
import re
import sys
from typing import Any

import pytest

from conf.log import configure_log, log, new_log


class _Noon:
    """A clock that stands still."""

    def now_ns(self) -> int:
        """Noon, and 5.999 ms."""
        return 1_769_860_800_005_999_999

    def monotonic(self) -> float:
        """Nothing passes."""
        return 0.0


def test_a_line_is_an_object_with_the_same_fields_first() -> None:
    """Time, level, process and event in this order, then what belongs to the event; anything can be told."""
    lines: list[str] = []
    told = new_log("gateway", lines.append, _Noon())
    told.warning("delivery waits", stream="A\n", error=ValueError("no"))
    (line,) = lines
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    assert list(json.loads(line).items()) == [
        ("at", "2026-01-31T12:00:00.005+00:00"),
        ("level", "warning"),
        ("process", "gateway"),
        ("event", "delivery waits"),
        ("stream", "A\n"),
        ("error", "no"),
    ]


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_lines_go_to_standard_error(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is kept for what programs wait for."""
    getattr(log, level)("told", number=3)
    out, err = capsys.readouterr()
    said: dict[str, Any] = json.loads(err)
    assert (out, said["level"], said["event"], said["number"]) == ("", level, "told", 3)


def test_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who looks on reads a line."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure_log("settle", _Noon())
    log.info("small files merged", folders=2, files=9)
    monkeypatch.undo()
    configure_log("")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err)
    assert " ".join(shown.split()) == "12:00:00 [info ] small files merged process=settle folders=2 files=9"


def test_a_full_disk_stops_nobody() -> None:
    """What can't be written is lost, and nothing else."""

    def full(_line: str) -> None:
        raise OSError(28, "No space left on device")

    new_log("", full, _Noon()).error("settling failed")
