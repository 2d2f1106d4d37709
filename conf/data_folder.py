"""The data folder (``--data``), parsed alike by every command: a folder on this machine."""

import argparse
import re
from pathlib import Path

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def data_folder(text: str) -> Path:
    """Return the absolute folder; raise ``ValueError`` for a URL, which would otherwise name a folder ``s3:`` here."""
    if _URL.match(text):
        raise ValueError(f"{text} is a URL; the tables are kept in a folder on a local disk, object stores are to come")
    return Path(text).resolve()


def folder_argument(text: str) -> Path:
    """Parse a ``--data`` argument for argparse, which prints an ``ArgumentTypeError``'s text."""
    try:
        return data_folder(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
