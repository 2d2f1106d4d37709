"""JSON as Go's encoder writes it."""

import json
from collections.abc import Mapping
from typing import Any

_ESCAPES: dict[int, str] = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_ESCAPES.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))


def write_json(value: Mapping[str, Any], *, by_name: bool = False) -> bytes:
    """Write compact JSON with Go's escapes for ``<``, ``>``, ``&``, U+2028, U+2029 and lone surrogates.

    ``by_name`` sorts the members, as Go does for a map.
    """
    # These characters can only stand inside strings, so the finished text can be escaped as a whole.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=by_name)
    return text.translate(_ESCAPES).encode()
