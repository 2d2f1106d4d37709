"""DuckDB's words for a stream's relation. Pure."""

from collections.abc import Iterable

_PATTERN = frozenset("*?[")
_HEADER = r"\n([^:\r\n]+):[ \t]*([^\r\n]*)"


class DuckDialect:
    """The dialect of DuckDB's SQL."""

    def name(self, name: str) -> str:
        """Quote an identifier."""
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        """Write a text."""
        return "'" + text.replace("'", "''") + "'"

    def bytes(self, column: str, *, text: bool = False) -> str:
        """Return the length in bytes."""
        return f"strlen({column})" if text else f"octet_length({column})"

    def time(self, ns: str) -> str:
        """Convert ns since 1970 to a timestamp with microseconds, in UTC."""
        return f"make_timestamptz({ns} // 1000)"

    def text(self, data: str) -> str:
        """Decode UTF-8; NULL for other bytes."""
        return f"TRY(decode({data}))"

    def json(self, text: str) -> str:
        """Return the text as DuckDB's JSON where it is valid, else NULL."""
        return f"TRY_CAST({text} AS JSON)"

    def json_field(self, text: str, name: str) -> str:
        """Return a field of a JSON object as text."""
        return f"(CAST({text} AS JSON) ->> {self.literal(f'$.{name}')})"

    def headers(self, block: str) -> str:
        """Convert a raw header block to a map of lists of values."""
        pairs = [f"regexp_extract_all(TRY(decode({block})), {self.literal(_HEADER)}, {place})" for place in (1, 2)]
        values = f"list_filter({pairs[1]}, lambda v, i: ({pairs[0]})[i] = n)"
        trimmed = f"list_transform({values}, lambda v: rtrim(v, ' ' || chr(9)))"
        names = f"list_distinct({pairs[0]})"
        return f"CASE WHEN {block} IS NOT NULL THEN map({names}, list_transform({names}, lambda n: {trimmed})) END"

    def tokens(self, subject: str) -> str:
        """Split a subject at its dots."""
        return f"string_split({subject}, '.')"

    def starts(self, text: str, prefix: str) -> str:
        """Return the condition that a text begins with another."""
        return f"starts_with({text}, {self.literal(prefix)})"

    def matches(self, subject: str, expression: str) -> str:
        """Return the condition that a regular expression matches the whole subject."""
        return f"regexp_full_match({subject}, {self.literal(expression)}, 's')"

    def of_highest(self, column: str, by: str) -> str:
        """Return the aggregate of a column's value, NULL too, in the row where another is highest."""
        return f"arg_max_null({column}, {by})"

    def without_ranges(self, rows: str, ranges: str) -> str:
        """Return the rows of a relation whose ``seq`` is in none of a relation's disjoint ranges (low, high)."""
        return (
            f"SELECT r.* FROM ({rows}) AS r ASOF LEFT JOIN {ranges} AS g ON r.seq >= g.low"
            " WHERE g.high IS NULL OR r.seq > g.high"
        )

    def parquet(self, paths: Iterable[str]) -> str:
        """Return the relation of some local Parquet files, none :func:`is_pattern`."""
        listed = ", ".join(map(self.literal, paths))
        return f"read_parquet([{listed}], hive_partitioning = false)"


def is_pattern(path: str) -> bool:
    """Whether DuckDB takes a file's name for a pattern: there is no way to quote it behind the fence."""
    return not _PATTERN.isdisjoint(path)
