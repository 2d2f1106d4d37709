"""What one version of ``messages`` settled of a stream."""

from datetime import datetime
from typing import NamedTuple


class Settling(NamedTuple):
    """A version of ``messages`` and what it settled of a stream."""

    version: int
    committed: datetime
    first_seq: int
    last_seq: int
    first_ts_ns: int
    last_ts_ns: int
