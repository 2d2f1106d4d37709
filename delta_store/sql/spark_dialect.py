"""Spark's words for a stream's relation. Pure."""

from typing import Final

_HEADER: Final = r"\n([^:\r\n]+):[ \t]*([^\r\n]*)"
_BLOCK: Final = 1024
"""Removed ranges are matched by blocks of this many sequences, so that matching is an equi-join."""


class SparkDialect:
    """The dialect of Spark's SQL, 4.0 and later."""

    def name(self, name: str) -> str:
        """Quote an identifier."""
        return "`" + name.replace("`", "``") + "`"

    def literal(self, text: str) -> str:
        """Write a text."""
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def bytes(self, column: str, *, text: bool = False) -> str:
        """Return the length in bytes."""
        del text
        return f"octet_length({column})"

    def time(self, ns: str) -> str:
        """Convert ns since 1970 to a timestamp with microseconds, in UTC."""
        return f"timestamp_micros({ns} div 1000)"

    def text(self, data: str) -> str:
        """Decode UTF-8; NULL for other bytes."""
        return f"try_validate_utf8(CAST({data} AS STRING))"

    def json(self, text: str) -> str:
        """Return the text where it is JSON, else NULL."""
        return f"CASE WHEN try_parse_json({text}) IS NOT NULL THEN {text} END"

    def json_field(self, text: str, name: str) -> str:
        """Return a field of a JSON object as text."""
        return f"get_json_object({text}, {self.literal(f'$.{name}')})"

    def headers(self, block: str) -> str:
        """Convert a raw header block to a map of lists of values."""
        names, values = (
            f"regexp_extract_all({self.text(block)}, {self.literal(_HEADER)}, {place})" for place in (1, 2)
        )
        mine = f"filter({values}, (v, i) -> element_at({names}, i + 1) = n)"
        blanks = self.literal(" \t")
        trimmed = f"transform({mine}, v -> trim(TRAILING {blanks} FROM v))"
        keys = f"array_distinct({names})"
        return f"CASE WHEN {block} IS NOT NULL THEN map_from_arrays({keys}, transform({keys}, n -> {trimmed})) END"

    def tokens(self, subject: str) -> str:
        """Split a subject at its dots."""
        dot = self.literal(r"\.")
        return f"split({subject}, {dot})"

    def starts(self, text: str, prefix: str) -> str:
        """Return the condition that a text begins with another."""
        return f"startswith({text}, {self.literal(prefix)})"

    def matches(self, subject: str, expression: str) -> str:
        """Return the condition that a regular expression matches the whole subject."""
        whole = self.literal(rf"^(?s:{expression})\z")
        return f"{subject} RLIKE {whole}"

    def of_highest(self, column: str, by: str) -> str:
        """Return the aggregate of a column's value, NULL too, in the row where another is highest."""
        return f"max_by({column}, {by})"

    def without_ranges(self, rows: str, ranges: str) -> str:
        """Return the rows of a relation whose ``seq`` is in none of a relation's disjoint ranges (low, high)."""
        blocks = f"SELECT low, high, explode(sequence(low div {_BLOCK}, high div {_BLOCK})) AS block FROM {ranges}"
        return (
            f"SELECT r.* FROM ({rows}) AS r LEFT ANTI JOIN ({blocks}) AS g"
            f" ON r.seq div {_BLOCK} = g.block AND r.seq BETWEEN g.low AND g.high"
        )
