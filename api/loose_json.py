"""Decoding as nats-server does it on the few endpoints that take bodies with fields it does not know."""

import json

from api.json_syntax import JsonError, quote, syntax_error
from api.request_json import Decoded, Struct, decode


def decode_loosely(document: bytes, shape: Struct) -> Decoded:
    """The fields that are known; there must be one value and nothing behind it. Raises :class:`JsonError`."""
    broken = syntax_error(document, 0)
    if broken is not None:
        text = str(broken)
        raise JsonError(
            "unexpected end of JSON input" if text == "unexpected EOF" else text.partition(" at offset ")[0]
        )
    text = document.decode(errors="replace").strip(" \t\r\n")
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except RecursionError:
        raise JsonError("exceeded max depth") from None
    if rest := text[end:].lstrip(" \t\r\n"):
        raise JsonError(f"invalid character {quote(rest[0], mark=chr(39))} after top-level value")
    if isinstance(value, dict):
        known = {key: member for key, member in value.items() if key.lower() in shape.fields}
        return decode(json.dumps(known).encode(), shape)
    return decode(document, shape)
