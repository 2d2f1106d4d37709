"""A table's columns inferred from JSON payloads: types from the first that have a field, widened by later ones. Pure.

A field is a column once it has a value: ``boolean``, ``bigint``, ``double`` or ``string``; objects and lists are JSON
text, as is whatever else comes to a string column. A whole number widens to ``double`` when a fraction comes. Any other
value that is not of its column's type is a misfit; a field that had values of several types when it was first seen is a
string.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from delta_store.typed.column_types import Record, Scalar, TypedColumn, column_names
from delta_store.typed.payload_decoder import Misfit, Unforeseen

COLUMNS_MAX: Final = 1_000
"""Fields that are columns: where names of fields are data, they do not end."""
_LONG: Final = 1 << 63


class InferredDecoder:
    """The decoder of a table whose columns were inferred so far."""

    required: frozenset[str] = frozenset()

    def __init__(self, record: Record, *, taken: Sequence[str] = ()) -> None:
        """Decode to the columns so far; ``taken`` are names of columns that are no field's."""
        self.record = record
        self._taken = taken
        self._types = {column.name.lower(): column.type for column in self.record.columns}
        self._columns: dict[str, str] = {}
        """Columns by field, in lower case."""

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Return the values of a payload by column; raise :class:`Misfit`, or :class:`Unforeseen` for other columns."""
        found: dict[str, Any] = {}
        for name, value in fields_of(payload).items():
            column = self._column(name)
            if value is None:
                continue
            if column in found:
                raise Misfit(f"two fields are the column `{column}` - at `$.{name}`")
            found[column] = self._value(self._types.get(column), value, name)
        return found

    def columns(self, decoded: Sequence[dict[str, Any]]) -> list[Sequence[Any]]:
        """Return the values of each column."""
        return [[row.get(column) for row in decoded] for column in self._types]

    def widened(self, payloads: Iterable[bytes]) -> Record:
        """Return the columns that hold these payloads as well, as far as columns can be widened."""
        names = {column.name.lower(): column.name for column in self.record.columns}
        seen: dict[str, set[Scalar]] = {}
        for payload in payloads:
            try:
                fields = fields_of(payload)
            except Misfit:
                continue
            for name, value in fields.items():
                column = self._column(name)
                if value is not None and (column in names or len(names) < COLUMNS_MAX):
                    names.setdefault(column, column_names([name], taken=self._taken)[name])
                    seen.setdefault(column, set()).add(_type_of(value))
        return Record(
            tuple(
                TypedColumn(name, _joined(self._types.get(column), seen.get(column, set())))
                for column, name in names.items()
            )
        )

    def _column(self, name: str) -> str:
        column = self._columns.get(name)
        if column is None:
            column = column_names([name], taken=self._taken)[name].lower()
            if len(self._columns) < COLUMNS_MAX:
                self._columns[name] = column
        return column

    def _value(self, of: Any, value: Any, name: str) -> Any:
        """Return a value as its column takes it."""
        if of is None:
            if len(self._types) >= COLUMNS_MAX:
                raise Misfit(f"the table has {COLUMNS_MAX} columns already - at `$.{name}`")
            raise Unforeseen
        if of is Scalar.STRING:
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if of is Scalar.DOUBLE and is_number:
            return float(value)
        if of is Scalar.LONG and is_number:
            if isinstance(value, float) or not -_LONG <= value < _LONG:
                raise Unforeseen
            return value
        if of is Scalar.BOOLEAN and isinstance(value, bool):
            return value
        raise Misfit(f"Expected `{of.value}`, got `{type(value).__name__}` - at `$.{name}`")


def fields_of(payload: bytes) -> Mapping[str, Any]:
    """Return the fields of a payload; raise :class:`Misfit` unless it is a JSON object."""
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Misfit(str(error)) from None
    if not isinstance(found, dict):
        raise Misfit(f"Expected `object`, got `{type(found).__name__}`")
    return found


def _type_of(value: Any) -> Scalar:
    if isinstance(value, bool):
        return Scalar.BOOLEAN
    if isinstance(value, int):
        return Scalar.LONG if -_LONG <= value < _LONG else Scalar.DOUBLE
    return Scalar.DOUBLE if isinstance(value, float) else Scalar.STRING


def _joined(known: Any, seen: set[Scalar]) -> Any:
    """Return the type of a column that was of one type, None for a new one, and now has values of these."""
    if known is Scalar.LONG and Scalar.DOUBLE in seen:
        return Scalar.DOUBLE
    if known is not None:
        return known
    if seen <= {Scalar.LONG, Scalar.DOUBLE}:
        return Scalar.DOUBLE if Scalar.DOUBLE in seen else Scalar.LONG
    return next(iter(seen)) if len(seen) == 1 else Scalar.STRING
