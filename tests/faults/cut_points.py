"""What ``silt up`` does to a data folder, told from the files alone: the points at which the power is cut."""

import json
import os
from contextlib import suppress
from pathlib import Path

CREATION, FIRST_BATCH, STEADY = "creation", "first batch", "steady"
POINTS = (CREATION, FIRST_BATCH, STEADY, "truncation", "compaction", "vacuum", "checkpoint")
"""What is under way, or has just been done, when the power goes; the first two are reached once in a folder."""
_OPERATIONS = {"TRUNCATE": "truncation", "OPTIMIZE": "compaction", "DELETE": "compaction"}


class Watch:
    """What has happened in a data folder since this was made; each log entry is read once."""

    def __init__(self, data: Path, stream: str) -> None:
        self._data, self._stream = data, stream
        self._logs = [data / table / "_delta_log" for table in ("journal", "messages")]
        self._known = self._log_files()
        self._parquet = self._parquet_files()
        self._reached: set[str] = set()
        self._over = self._once()

    def reached(self) -> set[str]:
        """The points that were reached."""
        new = self._log_files() - self._known
        self._known |= new
        for path in new:
            if path.name.endswith(".checkpoint.parquet"):
                self._reached.add("checkpoint")
            text = _text(path) if path.suffix == ".json" else ""
            self._reached |= {point for name, point in _OPERATIONS.items() if f'"operation":"{name}"' in text}
        now = self._parquet_files()
        if self._parquet - now:
            self._reached.add("vacuum")
        self._parquet |= now
        self._reached |= self._once() - self._over
        return self._reached

    def _once(self) -> set[str]:
        """Of the points that are reached once, those that are over."""
        found = {CREATION} if self._logs[1].is_dir() else set()
        return found | ({FIRST_BATCH} if settled_seq(self._data, self._stream) else set())

    def _log_files(self) -> set[Path]:
        return {path for log in self._logs if log.is_dir() for path in log.iterdir()}

    def _parquet_files(self) -> set[str]:
        return {path for path, _, names in os.walk(self._data / "messages")
                for path in (f"{path}/{name}" for name in names)
                if path.endswith(".parquet") and "_delta_log" not in path}  # fmt: skip


def settled_seq(data: Path, stream: str) -> int:
    """The last settled sequence, by the newest entry of the log that says so."""
    log = data / "messages" / "_delta_log"
    for entry in sorted(log.glob("*.json"), reverse=True) if log.is_dir() else ():
        for line in _text(entry).splitlines()[:3]:
            with suppress(ValueError, KeyError):
                note = json.loads(json.loads(line)["commitInfo"]["userMetadata"])
                mark = note["watermarks"].get(stream, {"seq": 0})
                return int(mark["seq"])
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
