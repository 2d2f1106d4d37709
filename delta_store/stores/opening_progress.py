"""The progress of opening a store. Written by the opening thread, read by any other."""


class OpeningAbandoned(Exception):
    """Nobody waits for the store any more."""


class OpeningProgress:
    """Rows read, of how many; both are 0 until the number is known."""

    def __init__(self) -> None:
        self.rows_read = 0
        self.rows_total = 0
        self._abandoned = False

    def begin(self, rows: int) -> None:
        """Start to count towards ``rows``. Raises :class:`OpeningAbandoned`."""
        self.rows_read, self.rows_total = 0, rows
        self.passed(0)

    def passed(self, rows: int) -> None:
        """Count ``rows`` as read. Raises :class:`OpeningAbandoned`."""
        if self._abandoned:
            raise OpeningAbandoned
        self.rows_read += rows

    def abandon(self) -> None:
        """Make the opening end at its next step."""
        self._abandoned = True

    def __str__(self) -> str:
        read = f"{self.rows_read} of {self.rows_total} rows read" if self.rows_total else "its logs are being read"
        return f"the store is being opened, {read}"
