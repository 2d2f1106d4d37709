"""The shell of ``silt sql`` in a terminal."""

import os
import pty
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

WAIT_SECONDS = 60.0


class Terminal:
    """A shell in a terminal."""

    def __init__(self, data: Path, state: Path) -> None:
        command = [sys.executable, "-m", "api.cli.main", "sql", "--data", str(data), "-o", "ndjson"]
        environment = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "dumb", "INPUTRC": os.devnull}
        self._own, theirs = pty.openpty()
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._own, selectors.EVENT_READ)
        self._seen = ""

    def type(self, text: str) -> None:
        """Type."""
        os.write(self._own, text.encode())

    def wait_for(self, text: str) -> str:
        """Wait until the terminal has shown a text behind what was waited for; return all up to it."""
        end = time.monotonic() + WAIT_SECONDS
        while text not in self._seen and time.monotonic() < end:
            if self._ready.select(0.1):
                try:
                    self._seen += os.read(self._own, 65_536).decode()
                except OSError:  # it has ended
                    break
        before, found, self._seen = self._seen.partition(text)
        assert found, f"no {text!r} in {before!r}"
        return before

    def interrupt(self) -> None:
        """Press Ctrl-C, as far as the process can tell: the terminal is not its controlling one."""
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End it where it has not ended."""
        self.process.kill()
        self.process.wait()
        os.close(self._own)
