"""Avro and Protobuf schemas as columns: what their libraries write is read back, what is not theirs is a misfit."""

import json
import sys
from base64 import b64decode, b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from delta_store.typed.avro_schema import AvroDecoder
from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.column_types import arrow_type, record_of, schema_string, sql_type
from delta_store.typed.payload_decoder import Misfit, PayloadDecoder
from delta_store.typed.protobuf_schema import ProtobufDecoder
from delta_store.typed.typing_terms import decoder_of, terms_of

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "x", "type": "double"}, {"name": "id", "type": "string"}],
}
AVRO = {
    "type": "record",
    "name": "All",
    "namespace": "test",
    "fields": [
        {"name": name, "type": of}
        for name, of in {
            "i": "int", "l": "long", "f": "float", "d": "double", "b": "boolean", "s": "string", "raw": "bytes",
            "time": {"type": "long", "logicalType": "timestamp-micros"},
            "day": {"type": "int", "logicalType": "date"},
            "at": {"type": "long", "logicalType": "time-micros"},
            "id": {"type": "string", "logicalType": "uuid"},
            "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
            "two": {"type": "fixed", "name": "Two", "size": 2},
            "tags": {"type": "array", "items": "string"},
            "named": {"type": "map", "values": "long"},
            "place": PLACE,
            "other": ["null", "Place"],
        }.items()
    ],
}  # fmt: skip


def _row(decoder: PayloadDecoder, payload: bytes) -> dict[str, Any]:
    """What a table has of a payload."""
    columns = decoder.columns([decoder.decode(payload)])
    arrays = [
        pa.array(values, arrow_type(one.type)) for one, values in zip(decoder.record.columns, columns, strict=True)
    ]
    assert record_of(schema_string(decoder.record)) == decoder.record
    found: dict[str, Any] = pa.table(arrays, names=[one.name for one in decoder.record.columns]).to_pylist()[0]
    return found


def _avro(schema: dict[str, Any], datum: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return out.getvalue()


def test_avro_types_are_columns() -> None:
    """Each logical type too."""
    datum = {
        "i": -5, "l": 1 << 40, "f": 0.5, "d": 0.1, "b": True, "s": "é", "raw": b"\0\1", "time": WHEN,
        "day": date(2026, 1, 2), "at": WHEN.time(), "id": UUID(int=7), "price": Decimal("12.34"), "kind": "B",
        "two": b"ab", "tags": ["x"], "named": {"n": 1}, "place": {"x": 1.5, "id": "p"}, "other": None,
    }  # fmt: skip
    decoder = AvroDecoder(AVRO, taken=("time",))
    assert _row(decoder, _avro(AVRO, datum)) == {
        **{name: value for name, value in datum.items() if name != "time"},
        "time_": WHEN, "at": "03:04:05.678901", "id": str(UUID(int=7)), "named": [("n", 1)],
    }  # fmt: skip
    told = sql_type(decoder.record)
    assert "price: decimal(9, 2), kind: string, two: binary, tags: array<string>, named: map<string, bigint>" in told


@given(st.binary(max_size=40))
def test_bytes_that_are_no_avro_are_misfits(payload: bytes) -> None:
    """Whatever they are; what is decoded is written back to the same bytes, or to shorter ones of the same datum."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "long"}]}
    decoder = AvroDecoder(schema)
    try:
        found = decoder.decode(payload)
    except Misfit:
        return
    assert decoder.decode(_avro(schema, found)) == found


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (["int", "string"], "union of several types"),
        ("null", "'null' has no column"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "local timestamp"),
        ("Nope", "no Avro schema"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, "without any bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "without any bytes"),
        (["null", "R"], "refers to itself"),
    ],
)
def test_an_avro_schema_that_has_no_columns_is_refused(field: Any, reason: str) -> None:
    """With the place."""
    with pytest.raises(BadSchema, match=reason):
        AvroDecoder(
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "v", "type": field}]}
        )


def _file() -> FileDescriptorProto:
    """A file with the messages ``t.Inner`` and ``t.All``, and the enum ``t.Kind``."""
    file = FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/struct.proto"])
    file.dependency.append("google/protobuf/wrappers.proto")
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("NONE", "SOME")):
        kind.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=FieldDescriptorProto.TYPE_DOUBLE, label=1)
    everything = file.message_type.add(name="All")
    entry = everything.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FieldDescriptorProto.TYPE_INT32, label=1)
    entry.field.add(name="value", number=2, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".t.Inner", label=1)
    fields = [
        ("i", FieldDescriptorProto.TYPE_INT32, "", 1), ("u", FieldDescriptorProto.TYPE_UINT64, "", 1),
        ("f", FieldDescriptorProto.TYPE_FLOAT, "", 1), ("s", FieldDescriptorProto.TYPE_STRING, "", 1),
        ("raw", FieldDescriptorProto.TYPE_BYTES, "", 1), ("b", FieldDescriptorProto.TYPE_BOOL, "", 1),
        ("kind", FieldDescriptorProto.TYPE_ENUM, ".t.Kind", 1), ("many", FieldDescriptorProto.TYPE_INT64, "", 3),
        ("inner", FieldDescriptorProto.TYPE_MESSAGE, ".t.Inner", 1),
        ("counts", FieldDescriptorProto.TYPE_MESSAGE, ".t.All.CountsEntry", 3),
        ("time", FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Timestamp", 1),
        ("free", FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Struct", 1),
        ("maybe", FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Int64Value", 1),
    ]  # fmt: skip
    for number, (name, of, type_name, label) in enumerate(fields, 1):
        everything.field.add(name=name, number=number, type=of, type_name=type_name or None, label=label)
    return file


def _descriptors(*, imports: bool = True) -> str:
    files = FileDescriptorSet()
    for module in (timestamp_pb2, struct_pb2, wrappers_pb2) if imports else ():
        module.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(_file())
    return b64encode(files.SerializeToString()).decode()


def _message(**values: Any) -> Any:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(b64decode(_descriptors())).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("t.All"))(**values)


def test_protobuf_types_are_columns() -> None:
    """What is not set and can be told so is null; well-known types have their own."""
    message = _message(i=-5, u=7, f=0.5, s="é", raw=b"\0", b=True, kind=1, many=[1, 2], inner={"x": 1.5})
    message.counts[3].x = 2.5
    message.time.FromDatetime(WHEN)
    message.free.update({"a": [1, None]})
    message.maybe.value = 9
    decoder = ProtobufDecoder(_descriptors(), "t.All", taken=("time",))
    assert _row(decoder, message.SerializeToString()) == {
        "i": -5, "u": 7, "f": 0.5, "s": "é", "raw": b"\0", "b": True, "kind": "SOME", "many": [1, 2],
        "inner": {"x": 1.5}, "counts": [("3", {"x": 2.5})], "time_": WHEN, "free": '{"a": [1.0, null]}', "maybe": 9,
    }  # fmt: skip
    empty = _row(decoder, b"")
    assert (empty["i"], empty["s"], empty["many"], empty["kind"]) == (0, "", [], "NONE")
    assert [name for name, value in empty.items() if value is None] == ["inner", "time_", "free", "maybe"]
    with pytest.raises(Misfit, match="Protobuf"):
        decoder.decode(b"\xff\xff")


@pytest.mark.parametrize(
    ("descriptors", "message", "reason"),
    [
        ("%%", "t.All", "no base64 FileDescriptorSet"),
        (b64encode(b"\xff\xff").decode(), "t.All", "no base64 FileDescriptorSet"),
        (_descriptors(), "t.Nope", "no message 't.Nope'"),
        (_descriptors(imports=False), "t.All", "with its imports"),
    ],
)
def test_protobuf_descriptors_that_can_not_be_used_are_refused(descriptors: str, message: str, reason: str) -> None:
    """With what is missing."""
    with pytest.raises(BadSchema, match=reason):
        ProtobufDecoder(descriptors, message)


def test_the_kind_of_a_schema_follows_from_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a library that is not installed is named."""
    for metadata, kind in (
        ({"silt.schema": json.dumps(AVRO)}, AvroDecoder),
        ({"silt.schema": _descriptors(), "silt.schema.message": "t.All"}, ProtobufDecoder),
    ):
        terms = terms_of(metadata)
        assert terms is not None
        assert isinstance(decoder_of(terms.schema), kind)
    decoder_of.cache_clear()
    monkeypatch.delitem(sys.modules, "delta_store.typed.avro_schema")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(BadSchema, match=r"pip install 'silt\[avro\]'"):
        terms_of({"silt.schema": json.dumps(AVRO)})
