"""The data folder as a user names it: a folder on this machine, for every command."""

import argparse
import re
from pathlib import Path

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def data_folder(text: str) -> Path:
    """The folder, absolute; raises ``ValueError`` for a URL, which would otherwise name a folder ``s3:`` here."""
    if _URL.match(text):
        raise ValueError(f"{text} is a URL; the tables are kept in a folder on a local disk, object stores are to come")
    return Path(text).resolve()


def folder_argument(text: str) -> Path:
    """:func:`data_folder` for argparse, which shows the text of this error alone."""
    try:
        return data_folder(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
