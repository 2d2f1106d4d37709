"""Decoding of request bodies: values, and the error texts of nats-server 2.15 (recorded from the real server)."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.jetstream.request_shapes import MSG_GET_REQUEST, STREAM_CONFIG_REQUEST
from delta_store.dialect.json_shapes import decode, is_empty_request, is_object_or_array
from delta_store.dialect.json_syntax import JsonError, quote, syntax_error

SYNTAX = {
    '{"name":': "unexpected EOF",
    '{"name":"A"': "unexpected EOF",
    "[": "unexpected EOF",
    "tru": "unexpected EOF",
    "1.": "unexpected EOF",
    "1e+": "unexpected EOF",
    '{"a":"\\u12': "unexpected EOF",
    '{"a":"\\': "unexpected EOF",
    "x": "invalid character 'x' looking for beginning of value at offset 1",
    "\u00e9": "invalid character 'é' looking for beginning of value at offset 2",
    "\ufeff{}": "invalid character '\\ufeff' looking for beginning of value at offset 3",
    "'a'": "invalid character '\\'' looking for beginning of value at offset 1",
    "\x01": "invalid character '\\x01' looking for beginning of value at offset 1",
    "NaN": "invalid character 'N' looking for beginning of value at offset 1",
    "Infinity": "invalid character 'I' looking for beginning of value at offset 1",
    "+1": "invalid character '+' looking for beginning of value at offset 1",
    "{name:1}": "invalid character 'n' looking for beginning of object key string at offset 2",
    '{"name":"A",}': "invalid character '}' looking for beginning of object key string at offset 13",
    '{"name":"A" "b":1}': "invalid character '\"' after object key:value pair at offset 13",
    '{"name" 1}': "invalid character '1' after object key at offset 9",
    '{"a":}': "invalid character '}' looking for beginning of value at offset 6",
    '{"a":01}': "invalid character '1' after object key:value pair at offset 7",
    '{"a":1]': "invalid character ']' after object key:value pair at offset 7",
    '{"a":[1 2]}': "invalid character '2' after array element at offset 9",
    "[1,]": "invalid character ']' looking for beginning of value at offset 4",
    '{"a":tru}': "invalid character '}' in literal true (expecting 'e') at offset 9",
    '{"a":nul}': "invalid character '}' in literal null (expecting 'l') at offset 9",
    '{"a":"\n"}': "invalid character '\\n' in string at offset 7",
    '{"a":"\\x"}': "invalid escape sequence `\\x` in string at offset 8",
    '{"a":"\\u12x"}': 'invalid escape sequence `\\u12x"` in string at offset 12',
    '{"a":-}': "invalid character '}' in numeric literal at offset 7",
    '{"a":1.}': "invalid character '}' in numeric literal at offset 8",
    "1e+x": "invalid character 'x' in numeric literal at offset 4",
    '{"name":"A"}x': "invalid character 'x' looking for beginning of value at offset 13",
    "nullx": "invalid character 'x' looking for beginning of value at offset 5",
    "[" * 10_001: "exceeded max depth at offset 10001",
}

WRONG_TYPES = {
    "5": "json: cannot unmarshal number into Go value of type server.StreamConfigRequest",
    "[]x": "json: cannot unmarshal array into Go value of type server.StreamConfigRequest",
    '{"name":"A"}5': "json: cannot unmarshal number into Go value of type server.StreamConfigRequest",
    '{"name":5}': "json: cannot unmarshal number into Go struct field StreamConfigRequest.name of type string",
    '{"max_msgs":1.5}': (
        "json: cannot unmarshal number 1.5 into Go struct field StreamConfigRequest.max_msgs of type int64"
    ),
    '{"num_replicas":1e3}': (
        "json: cannot unmarshal number 1e3 into Go struct field StreamConfigRequest.num_replicas of type int"
    ),
    '{"max_msg_size":9999999999}': (
        "json: cannot unmarshal number 9999999999 into Go struct field StreamConfigRequest.max_msg_size of type int32"
    ),
    '{"first_seq":-1}': (
        "json: cannot unmarshal number -1 into Go struct field StreamConfigRequest.first_seq of type uint64"
    ),
    '{"max_age":"1s"}': (
        "json: cannot unmarshal string into Go struct field StreamConfigRequest.max_age of type time.Duration"
    ),
    '{"subjects":["a",1]}': "json: cannot unmarshal number into StreamConfigRequest.subjects.1 of type string",
    '{"subjects":{}}': (
        "json: cannot unmarshal object into Go struct field StreamConfigRequest.subjects of type []string"
    ),
    '{"metadata":{"a~/b":5}}': (
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.metadata.a~0~1b of type string"
    ),
    '{"sources":[{"name":1}]}': (
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.sources.0.name of type string"
    ),
    '{"sources":5}': (
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.sources of type []*server.StreamSource"
    ),
    '{"DESCRIPTION":5}': (
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.DESCRIPTION of type string"
    ),
    '{"retention":"x"}': 'can not unmarshal "\\"x\\""',
    '{"retention":null}': 'can not unmarshal "null"',
    '{"compression":"zz"}': "unknown compression algorithm",
    '{"compression":5}': "json: cannot unmarshal number into Go value of type string",
    '{"xyz":1,"max_msgs":"x"}': 'json: unknown field "xyz"',
    '{"retention":"q","max_msgs":"x"}': 'can not unmarshal "\\"q\\""',
    '{"a<b":1}': 'json: unknown field "a<b"',
    '{"é\\n\\"":1}': 'json: unknown field "é\\n\\""',
    '{"mirror":{"external":{"q":1}}}': 'json: unknown field "q"',
    '{"mirror":{"opt_start_time":5}}': (
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.mirror.opt_start_time of type time.Time"
    ),
}

TIMES = {
    "zz": 'parsing time "zz" as "2006-01-02T15:04:05Z07:00": cannot parse "zz" as "2006"',
    "2020-01-01": 'parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"',
    "2020-13-01T00:00:00Z": 'parsing time "2020-13-01T00:00:00Z": month out of range',
    "2020-02-30T00:00:00Z": 'parsing time "2020-02-30T00:00:00Z": day out of range',
    "2020-01-01T01:00:00Zx": 'parsing time "2020-01-01T01:00:00Zx": extra text: "x"',
    "2020-01-01T01:00:00+25:00": 'parsing time "2020-01-01T01:00:00+25:00": time zone offset hour out of range',
}


@pytest.mark.parametrize(("document", "text"), [*SYNTAX.items(), *WRONG_TYPES.items()])
def test_refused_with_the_servers_words(document: str, text: str) -> None:
    """A body that is no JSON, or the wrong JSON, is refused with the text that nats-server gives."""
    with pytest.raises(JsonError) as refused:
        decode(document.encode(), STREAM_CONFIG_REQUEST)
    assert str(refused.value) == text


@pytest.mark.parametrize(("written", "text"), TIMES.items())
def test_times_refused_with_the_servers_words(written: str, text: str) -> None:
    """A time that is no RFC 3339 is refused with Go's text."""
    with pytest.raises(JsonError) as refused:
        decode(json.dumps({"start_time": written}).encode(), MSG_GET_REQUEST)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ('{"name":null,"subjects":null,"metadata":null,"mirror":null}', {}),
        ('{"NAME":"A","Max_Msgs":-0}', {"name": "A", "max_msgs": 0}),
        ('{"name":"A"} {"subjects":["b"]}', {"name": "A", "subjects": ["b"]}),
        ('{"name":"A","name":"B"}', {"name": "B"}),
        ('{"metadata":{"a":"1"},"metadata":{"b":null}}', {"metadata": {"a": "1", "b": ""}}),
        ('{"subjects":[null]}', {"subjects": [""]}),
        ('{"discard":"OLD","persist_mode":"default"}', {"discard": "old", "persist_mode": ""}),
        ('{"description":"\\ud800x\\ud83d\\ude00"}', {"description": "\ufffdx😀"}),
        ('{"max_bytes":9223372036854775807}', {"max_bytes": 2**63 - 1}),
    ],
)
def test_decoded_as_go_does(document: str, fields: dict[str, object]) -> None:
    """Null is absence, keys match in any case, later values win or are merged, surrogate halves are replaced."""
    assert decode(document.encode(), STREAM_CONFIG_REQUEST) == fields


def test_bytes_that_are_no_unicode_are_replaced() -> None:
    """A stray byte inside a string becomes the replacement character, as in Go."""
    assert decode(b'{"name":"a\xffb"}', STREAM_CONFIG_REQUEST) == {"name": "a\ufffdb"}


def test_offset_counts_bytes_of_all_values() -> None:
    """The offset of an error in a second value counts from the start of the body."""
    with pytest.raises(JsonError, match=r"at offset 16$"):
        decode('{"name":"é"} [x'.encode(), STREAM_CONFIG_REQUEST)


def test_deep_nesting_is_refused_without_harm() -> None:
    """A body nested beyond any use is refused, not a crash."""
    with pytest.raises(JsonError, match="exceeded max depth"):
        decode(b"[" * 9_999 + b"]" * 9_999, STREAM_CONFIG_REQUEST)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"[" + b"0," * 50_000 + b"x", "invalid text near offset 100001"),
        (b"[" + b"0," * 50_000, "unexpected EOF"),
        (b"[" + b"0," * 50_000 + b"[" * 5_000 + b"]" * 5_001, "exceeded max depth"),
    ],
)
def test_errors_far_into_a_body_are_told_briefly(document: bytes, text: str) -> None:
    """Past 64 KiB an error is not searched for byte by byte: that would hold up every other request."""
    with pytest.raises(JsonError) as refused:
        decode(document, STREAM_CONFIG_REQUEST)
    assert str(refused.value) == text


@pytest.mark.parametrize(("body", "empty"), [(b"", True), (b"{}", True), (b" { } ", True), (b"null", False)])
def test_empty_request(body: bytes, empty: bool) -> None:
    """Nothing and an object without members are empty, null is not."""
    assert is_empty_request(body) is empty


@pytest.mark.parametrize(("body", "looks"), [(b" {", True), (b"\n[", True), (b"x{", False), (b"", False)])
def test_object_or_array(body: bytes, looks: bool) -> None:
    """Only the first character decides whether an optional body is read."""
    assert is_object_or_array(body) is looks


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(document: bytes) -> None:
    """No body makes the decoder fail in any other way than by refusing it."""
    with suppress(JsonError):
        decode(document, STREAM_CONFIG_REQUEST)


@given(st.text(alphabet='{}[]",:0123456789.eE-+\\untrfalse \x01é', max_size=24))
def test_syntax_agrees_with_pythons_parser(document: str) -> None:
    """The scanner finds an error in just those texts that Python's parser refuses."""
    try:
        json.loads(document)
        valid = True
    except ValueError:
        valid = False
    if valid:
        assert syntax_error(document.encode(), 0) is None
    elif len(document.split()) == 1 and document[:1] in '{["':
        # A broken single value; values that stand one after another are the decoder's business.
        error = syntax_error(document.encode(), 0)
        assert error is not None or _value_with_a_tail(document)


def _value_with_a_tail(document: str) -> bool:
    try:
        _, end = json.JSONDecoder().raw_decode(document)
    except ValueError:
        return False
    return end < len(document)


def test_quote_is_gos() -> None:
    """Go's %q: its own escapes for control characters, others as they are."""
    assert quote('a"\\\n\x01\x7f\u200bé😀') == '"a\\"\\\\\\n\\x01\\x7f\\u200bé😀"'
