"""An archive of the Java classes that settling needs (JEP 350): a JVM that maps it starts in half the CPU time.

It holds what a JVM had loaded and linked at its end, after a batch. A JVM of another version or class path passes it
over, as it does a damaged one.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

FOLDER: Final = Path(sys.prefix, "var", "silt")
MAKE_SECONDS: Final = 300.0
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_OPTIONS_VARIABLE: Final = "SILT_CLASS_ARCHIVE"
"""Set for the JVM that writes one: where to."""


def archive_options() -> str:
    """Return the options of a JVM that maps the archive; of one that is to write it, in the process that makes it."""
    if writes := os.environ.get(_OPTIONS_VARIABLE):
        return f" -XX:ArchiveClassesAtExit={writes} {_QUIET}"
    path = archive_path()
    return f" -XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}" if path is not None and path.is_file() else ""


def archive_path() -> Path | None:
    """Return where the archive of this Java and these versions of Spark and Delta is kept; None without a Java."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or " " in str(FOLDER):
        return None
    java = os.path.realpath(java)
    parts = (java, _changed(java), version("pyspark"), version("delta-spark"), os.environ.get("SPARK_HOME", ""))
    return FOLDER / f"classes-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"


def make_archive() -> Path | None:
    """Settle a small journal by a process of its own, whose JVM writes the archive at its end; return its path.

    Returns None where there is no place for it. Raises ``subprocess.SubprocessError`` when the process fails.
    """
    path = archive_path()
    if path is None or path.is_file():
        return path
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=FOLDER, prefix=".making-") as folder:
            written = Path(folder, path.name)
            # Ends when the JVM, which holds the pipe and outlives the process, has written the archive.
            subprocess.run(
                [sys.executable, "-m", __name__, folder],
                env={**os.environ, _OPTIONS_VARIABLE: str(written)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=MAKE_SECONDS,
                check=True,
            )
            written.replace(path)
    except OSError:
        return None
    return path


def _changed(java: str) -> str:
    with suppress(OSError):
        return str(Path(java).stat().st_mtime_ns)
    return ""


def main(arguments: Sequence[str]) -> int:
    """Settle messages in a folder."""
    from delta_store.settling.rehearsal import settle_messages
    from delta_store.settling.spark_session import open_session

    spark = open_session("silt classes", master="local[1]")
    settle_messages(spark, Path(arguments[0], "data"))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
