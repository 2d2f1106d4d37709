"""What the writers of a batch add to the journal's rows, against the rules for one row."""

import pyarrow as pa

from delta_store.entries.batch_columns import completed, id_hashes
from delta_store.values.records import checksum, stored_size
from delta_store.values.schemas import JOURNAL_SCHEMA


def journal_rows(*rows: dict[str, object]) -> pa.Table:
    """Rows with what a test does not care about filled in."""
    filled = []
    for given in rows:
        row = {"stream": "A", "stream_id": 1, "seq": 1, "event_no": 1, "kind": "message", "subject": "a.b", "ts_ns": 0}
        row |= {"msg_id": None, "first_seq": 1, "evicts": 0, "headers": None, "data": b""} | given
        row["crc"] = given.get("crc", checksum(row["subject"], row["headers"], row["data"]))  # type: ignore[arg-type]
        filled.append(row)
    return pa.Table.from_pylist(filled, schema=JOURNAL_SCHEMA)


def test_sizes_count_bytes_and_damage_and_ids_are_told() -> None:
    """Bytes, not characters; payloads pass through; each row has its folder; an id is hashed with its stream."""
    headers = b"NATS/1.0\r\n\r\n"
    rows = journal_rows(
        {"subject": "ä.b", "data": "ö".encode(), "headers": headers},
        {"seq": 2, "msg_id": "m"},
        {"seq": 2, "event_no": 2, "kind": "stream", "subject": "", "headers": b""},
        {"seq": 3, "event_no": 2, "crc": 1},
        {"seq": 3, "event_no": 3, "kind": "consumer_state", "subject": "c"},
        {"seq": 4, "msg_id": "m", "stream_id": 2},
    )
    found = completed(rows)
    sizes = [stored_size(row["subject"], row["headers"], row["data"]) for row in rows.to_pylist()]
    assert found["size"].to_pylist() == sizes
    assert sizes[0] == stored_size("ä.b", headers, "ö".encode())
    assert found.select(rows.column_names) == rows
    partitions = ["$recent", "$recent", "$events", "$recent", "$consumers", "$recent"]
    assert found["subject_partition"].to_pylist() == partitions
    assert found["whole"].to_pylist() == [True, True, True, False, True, True]
    hashes = found["id_hash"].to_pylist()
    assert [one is None for one in hashes] == [True, False, True, True, True, False]
    assert [hashes[1], hashes[5]] == id_hashes("AA", (1, 2), "mm")
    assert hashes[1] != hashes[5]


def test_no_rows_have_all_columns() -> None:
    """As a batch may have none."""
    found = completed(JOURNAL_SCHEMA.empty_table())
    assert (found.num_rows, found.column_names[-4:]) == (0, ["size", "subject_partition", "whole", "id_hash"])
