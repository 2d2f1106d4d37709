"""Errors in JSON texts, in the words of nats-server.

Only texts that Python's parser has refused come here, so this may be slow; it walks the text once, with a stack of its
own, and names the first offending byte as Go's ``encoding/json`` (as built into nats-server 2.15) does.
"""

import re

DEPTH_MAX = 10_000
"""Nesting that Go's parser accepts."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_HEX = re.compile(rb"[0-9a-fA-F]{0,4}")
_DIGITS = re.compile(rb"[0-9]*")
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_QUOTED = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\"}


class JsonError(ValueError):
    """The request is not the JSON that its endpoint takes; the reply has the text behind ``invalid JSON: ``."""


class _Truncated(Exception):
    """The text ends inside a value."""


def syntax_error(document: bytes, start: int) -> JsonError | None:
    """Return the error of the one value that begins at or after ``start``; None if it is valid.

    ``start`` counts towards the reported offset: a request may hold several values one after another.
    """
    try:
        _walk(document, start)
    except _Truncated:
        return JsonError("unexpected EOF")
    except JsonError as error:
        return error
    return None


def quote(text: str, mark: str = '"') -> str:
    """Quote as Go's ``%q``: a double-quoted (or, with ``mark`` ``'``, single-quoted) literal with Go's escapes."""
    return mark + "".join(_escape(char, mark) for char in text) + mark


def _escape(char: str, mark: str) -> str:
    if char == mark:
        return "\\" + mark
    if char in _QUOTED:
        return _QUOTED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as Python's surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _invalid(document: bytes, at: int, where: str) -> JsonError:
    """Return the error about the character at ``at``; its offset counts the bytes up to and including it."""
    for width in range(1, 5):
        try:
            char = document[at : at + width].decode()
        except UnicodeDecodeError:
            continue
        return JsonError(f"invalid character {quote(char, mark=chr(39))} {where} at offset {at + width}")
    return JsonError(f"invalid character '\\x{document[at]:02x}' {where} at offset {at + 1}")


def _skip_space(document: bytes, at: int) -> int:
    """Return the position of the next byte that is not white space; raise ``_Truncated`` at the end."""
    found = _SPACE.match(document, at)
    assert found is not None
    if found.end() >= len(document):
        raise _Truncated
    return found.end()


def _walk(document: bytes, start: int) -> int:
    """Skip one value; return the position behind it."""
    stack: list[int] = []
    at = start
    while True:
        at = _skip_space(document, at)
        byte = document[at]
        if byte in b"{[":
            if len(stack) >= DEPTH_MAX:
                raise JsonError(f"exceeded max depth at offset {at + 1}")
            at = _skip_space(document, at + 1)
            if document[at] != byte + 2:  # "}" and "]" are their opening byte plus two
                stack.append(byte)
                at = _object_key(document, at) if byte == ord("{") else at
                continue
            at += 1
        else:
            at = _scalar(document, at)
        while stack:
            at = _skip_space(document, at)
            if document[at] == ord(","):
                at = _skip_space(document, at + 1)
                at = _object_key(document, at) if stack[-1] == ord("{") else at
                break
            if document[at] != stack[-1] + 2:
                what = "object key:value pair" if stack[-1] == ord("{") else "array element"
                raise _invalid(document, at, f"after {what}")
            stack.pop()
            at += 1
        else:
            return at


def _object_key(document: bytes, at: int) -> int:
    """Skip a key and its colon; return the position behind them."""
    if document[at] != ord('"'):
        raise _invalid(document, at, "looking for beginning of object key string")
    at = _skip_space(document, _string(document, at))
    if document[at] != ord(":"):
        raise _invalid(document, at, "after object key")
    return at + 1


def _scalar(document: bytes, at: int) -> int:
    byte = document[at]
    if byte == ord('"'):
        return _string(document, at)
    if byte in b"-0123456789":
        return _number(document, at)
    literal = _LITERALS.get(byte)
    if literal is None:
        raise _invalid(document, at, "looking for beginning of value")
    for place, wanted in enumerate(literal):
        if at + place >= len(document):
            raise _Truncated
        if document[at + place] != wanted:
            where = f"in literal {literal.decode()} (expecting {quote(chr(wanted), mark=chr(39))})"
            raise _invalid(document, at + place, where)
    return at + len(literal)


def _string(document: bytes, at: int) -> int:
    at += 1
    while True:
        found = _PLAIN.match(document, at)
        assert found is not None
        at = found.end()
        if at >= len(document):
            raise _Truncated
        if document[at] == ord('"'):
            return at + 1
        if document[at] != ord("\\"):
            raise _invalid(document, at, "in string")
        at = _string_escape(document, at)


def _string_escape(document: bytes, at: int) -> int:
    if at + 1 >= len(document):
        raise _Truncated
    if document[at + 1] != ord("u"):
        if document[at + 1] in b'"\\/bfnrt':
            return at + 2
        raise _bad_escape(document[at : at + 2], at)
    digits = _HEX.match(document, at + 2)
    assert digits is not None
    if digits.end() == at + 6:
        return at + 6
    if digits.end() >= len(document):
        raise _Truncated
    raise _bad_escape(document[at : at + 6], at)


def _bad_escape(what: bytes, at: int) -> JsonError:
    text = what.decode(errors="surrogateescape")
    plain = "`" not in text and text.isprintable() and not any(map(str.isspace, text))
    shown = f"`{text}`" if plain else quote(text)
    return JsonError(f"invalid escape sequence {shown} in string at offset {at + len(what)}")


def _number(document: bytes, at: int) -> int:
    if document[at] == ord("-"):
        at += 1
    if document[at : at + 1] == b"0":
        at += 1
    else:
        at = _digits(document, at)
    if document[at : at + 1] == b".":
        at = _digits(document, at + 1)
    if document[at : at + 1] in (b"e", b"E"):
        at += 1
        if document[at : at + 1] in (b"+", b"-"):
            at += 1
        at = _digits(document, at)
    return at


def _digits(document: bytes, at: int) -> int:
    """Skip one digit or more; return the position behind them."""
    found = _DIGITS.match(document, at)
    assert found is not None
    if found.end() > at:
        return found.end()
    if at >= len(document):
        raise _Truncated
    raise _invalid(document, at, "in numeric literal")
