"""The folders of typed tables, below the data location. Pure."""

from hashlib import sha256
from typing import Final
from urllib.parse import quote

TABLES_FOLDER: Final = "tables"
DEAD_LETTERS: Final = "~dlq"
_SAFE: Final = "$"
_BYTES_MAX: Final = 240
"""Longest name of a folder on any file system, with room for what is put behind it."""


def table_folder(stream: str, *, dead_letters: bool = False) -> str:
    """Return the folder of a stream's table, or of its dead letters: named by the stream, or by its hash."""
    name = quote(stream, safe=_SAFE).replace("~", "%7E")
    name = name if len(name) <= _BYTES_MAX else sha256(stream.encode()).hexdigest()
    return f"{TABLES_FOLDER}/{name}{DEAD_LETTERS if dead_letters else ''}"
