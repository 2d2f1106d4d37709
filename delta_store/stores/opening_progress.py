"""How far the opening of a store is, for those who wait for it. Written by the thread that opens, read by any other."""


class OpeningAbandoned(Exception):
    """Nobody waits for the store any more."""


class OpeningProgress:
    """Rows read, of how many; both are 0 until it is known what there is to read."""

    def __init__(self) -> None:
        self.rows_read = 0
        self.rows_total = 0
        self._abandoned = False

    def begin(self, rows: int) -> None:
        """So many rows are to be read, from the first one on. Raises :class:`OpeningAbandoned`."""
        self.rows_read, self.rows_total = 0, rows
        self.passed(0)

    def passed(self, rows: int) -> None:
        """So many more rows are read. Raises :class:`OpeningAbandoned`."""
        if self._abandoned:
            raise OpeningAbandoned
        self.rows_read += rows

    def abandon(self) -> None:
        """Have the opening end at its next step."""
        self._abandoned = True

    def __str__(self) -> str:
        read = f"{self.rows_read} of {self.rows_total} rows read" if self.rows_total else "its logs are being read"
        return f"the store is being opened, {read}"
