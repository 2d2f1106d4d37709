"""The formats of a table: their names, media types and file name extensions. Imported where start time counts."""

from enum import StrEnum
from typing import Final


class TableFormat(StrEnum):
    """A format of a table."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        """Its media type, without parameters."""
        return _MEDIA_TYPES[self]

    @property
    def extension(self) -> str:
        """Its file name extension, without a dot."""
        return "txt" if self is TableFormat.TEXT else self.value

    @property
    def is_binary(self) -> bool:
        """Whether it is bytes and no text; these formats compress themselves or are read without copying."""
        return self in (TableFormat.ARROW, TableFormat.PARQUET)


_MEDIA_TYPES: Final = {
    TableFormat.TEXT: "text/plain",
    TableFormat.JSON: "application/json",
    TableFormat.NDJSON: "application/x-ndjson",
    TableFormat.CSV: "text/csv",
    TableFormat.ARROW: "application/vnd.apache.arrow.stream",
    TableFormat.PARQUET: "application/vnd.apache.parquet",
}
