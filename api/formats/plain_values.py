"""Arrow's values as JSON has them.

Times are RFC 3339 with the digits of their unit, in UTC where the column has a zone; bytes are base64; decimals without
a fraction are integers, others the nearest double; doubles that JSON lacks are strings; maps are objects.
"""

import json
import math
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def plain_values(array: Any) -> list[Any]:
    """Return the values of an array, None for null."""
    kind = array.type
    for is_kind, convert in _CONVERTERS:
        if is_kind(kind):
            return convert(array)
    return _mapped(array, str)


def _mapped(array: Any, convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _moments(array: Any) -> list[Any]:
    """Return timestamps as text; the digits of a unit are those that Arrow prints."""
    kind = array.type
    moments = array.view(pa.timestamp(kind.unit))
    texts: list[Any] = pc.strftime(moments, format="%Y-%m-%dT%H:%M:%S" + ("Z" if kind.tz else "")).to_pylist()
    return texts


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimals(array: Any) -> list[Any]:
    return _mapped(array, int if array.type.scale <= 0 else float)


def _bytes(array: Any) -> list[Any]:
    return _mapped(array, lambda value: b2a_base64(value, newline=False).decode())


def _structs(array: Any) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [plain_values(column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _lists(array: Any) -> list[Any]:
    return _sliced(array, plain_values(array.values))


def _fixed_lists(array: Any) -> list[Any]:
    return _lists(array.cast(pa.list_(array.type.value_type)))


def _maps(array: Any) -> list[Any]:
    keys = [key if isinstance(key, str) else json.dumps(key) for key in plain_values(array.keys)]
    entries = _sliced(array, list(zip(keys, plain_values(array.items), strict=True)))
    return [None if entry is None else dict(entry) for entry in entries]


def _sliced(array: Any, values: list[Any]) -> list[Any]:
    """Return the part of the values that each entry of a list array has."""
    offsets = array.offsets.to_pylist()
    spans = zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    return [values[start:end] if valid else None for start, end, valid in spans]


def _is_json_text(kind: Any) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.json"


def _is_bytes(kind: Any) -> bool:
    return any(is_kind(kind) for is_kind in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary))


def _is_json_value(kind: Any) -> bool:
    plain = (types.is_null, types.is_boolean, types.is_integer, types.is_string, types.is_large_string)
    return any(is_kind(kind) for is_kind in plain)


_CONVERTERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], list[Any]]], ...]] = (
    (_is_json_value, lambda array: array.to_pylist()),
    (_is_json_text, lambda array: _mapped(array.storage, json.loads)),
    (types.is_dictionary, lambda array: plain_values(array.dictionary_decode())),
    (types.is_timestamp, _moments),
    (types.is_floating, lambda array: _mapped(array, _float)),
    (types.is_decimal, _decimals),
    (_is_bytes, _bytes),
    (types.is_struct, _structs),
    (types.is_map, _maps),
    (types.is_fixed_size_list, _fixed_lists),
    (lambda kind: types.is_list(kind) or types.is_large_list(kind), _lists),
)
"""By the first that fits; any other type is shown as Python does."""
