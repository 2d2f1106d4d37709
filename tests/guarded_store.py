"""A store with what nobody may read, for the texts of :mod:`tests.hostile_sql`."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from tests.tables import History, Tables

SECRET = "sEcReT-7f3a"
ERASED = "eRaSeD-91bc"
HIDDEN = "hIdDeN-55d0"


class Guarded(NamedTuple):
    """The store, and the places that hostile texts aim at."""

    data: Path
    outside: Path
    """A folder with a secret file."""
    parquet: Path
    """A file of the store with an erased message."""

    def filled(self, text: str) -> str:
        """Return a hostile text with the places that it aims at."""
        places = {"secret": self.outside / "secret.csv", "folder": self.outside, "parquet": self.parquet}
        for name, place in {**places, "stream": "HIDDEN"}.items():
            text = text.replace("{" + name + "}", str(place))
        return text

    def prints(self) -> dict[str, str]:
        """Return the content of every file of the store and outside, in short."""
        files = [path for folder in (self.data, self.outside) for path in folder.rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def told_by(self, shown: str, asked: str) -> list[str]:
        """Return what an answer should not have shown to who may read S alone."""
        hidden = [SECRET, ERASED, HIDDEN, "/silt-sql-", *([] if str(self.parquet) in asked else [str(self.parquet)])]
        return [one for one in hidden if one in shown]


def guarded_store(folder: Path) -> Guarded:
    """Make one: stream S with an erased message, stream HIDDEN that may not be read, a file that must not be."""
    history, other, tables = History(), History(stream="HIDDEN"), Tables(folder / "data")
    tables.commit([history.create(), other.create(), history.publish("s.1", ERASED.encode())])
    tables.commit([history.publish("s.2", b"shown"), other.publish("s.1", HIDDEN.encode())])
    tables.settle()
    tables.commit([history.remove([1], "delete", erase=True)])
    [parquet] = [
        path for path in (folder / "data" / "messages").rglob("*.parquet") if "=s.1" in str(path) and "=S" in str(path)
    ]
    assert ERASED.encode() in parquet.read_bytes()
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text(f"name,value\n{SECRET},1\n")
    return Guarded(folder / "data", outside, parquet)
