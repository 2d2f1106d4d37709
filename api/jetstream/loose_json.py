"""Decoding as nats-server does it on the few endpoints that take bodies with fields it does not know."""

from api.jetstream.json_syntax import JsonError, quote
from api.jetstream.request_json import WHITESPACE, Decoded, Members, Place, Struct, explained, parse_one


def decode_loosely(document: bytes, shape: Struct) -> Decoded:
    """The fields that are known; there must be one value and nothing behind it. Raises :class:`JsonError`."""
    document = document.strip(WHITESPACE.encode())
    text = document.decode(errors="surrogateescape")
    try:
        value, end = parse_one(text, 0)
    except (ValueError, RecursionError) as error:
        told = str(explained(error, document, text, 0))
        short = "unexpected end of JSON input" if told == "unexpected EOF" else told.partition(" at offset ")[0]
        raise JsonError(short) from None
    if rest := text[end:].lstrip(WHITESPACE):
        raise JsonError(f"invalid character {quote(rest[0], mark=chr(39))} after top-level value")
    if isinstance(value, Members):
        value = Members((key, member) for key, member in value if key.lower() in shape.fields)
    return {} if value is None else shape.decode(value, Place(shape.name), {})
