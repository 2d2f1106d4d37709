"""Delta Sharing: its Python client reads a stream, now and at points of the past, and no key reads another's."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from api.cli.app import app as silt
from delta_store.dialect.times import format_time
from delta_store.values.records import Row
from tests.servers import Child, http_open, wait_until
from tests.tables import History, Tables
from tests.tools import sharing_python

READY = re.compile(r'^({"ready": true.*})$', re.MULTILINE)
TABLE = "/delta-sharing/shares/silt/schemas/streams/tables/S"
CLIENT = """
import json, sys
import delta_sharing

profile, points = sys.argv[1], json.loads(sys.argv[2])
tables = delta_sharing.SharingClient(profile).list_all_tables()
found = []
for point in points:
    frame = delta_sharing.load_as_pandas(f"{profile}#silt.streams.S", **point)
    assert list(frame.columns) == ["subject", "seq", "time", "headers", "data", "text"], frame.columns
    rows = zip(frame["seq"].tolist(), frame["subject"], frame["data"], frame["text"])
    found.append(sorted([seq, subject, data.hex(), text] for seq, subject, data, text in rows))
print(json.dumps({"tables": [table.name for table in tables], "rows": found}))
"""


@dataclass(frozen=True, slots=True)
class Shared:
    """An HTTP process with keys, over the streams S and OTHER."""

    url: str
    keys: dict[str, str]
    history: History
    folder: Path

    def client(self, key: str) -> httpx.Client:
        """A client with a key."""
        headers = {"Authorization": f"Bearer {self.keys[key]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


def stored(folder: Path) -> tuple[Tables, History]:
    """Six messages on four subjects, a millisecond apart, with a limit of one a subject; five are settled."""
    history, tables = History(per_subject=1), Tables(folder)

    def publish(subject: str, data: bytes) -> Row:
        history.now_ns += 1_000_000
        return history.publish(subject, data, headers=b"NATS/1.0\r\nA: x\r\n\r\n")

    tables.commit([history.create(), *(publish(f"s.{number}", b"first") for number in (1, 2, 3))])
    tables.settle()
    tables.commit([publish("s.1", b"\xff\xfe"), publish("s.2", "grün".encode())])
    tables.settle()
    tables.apply_limits()
    tables.commit([publish("s.4", b"last")])
    return tables, history


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """The tables of a stream with a limit of one message a subject, half of it settled."""
    folder = tmp_path_factory.mktemp("sharing")
    data, file = folder / "data", folder / "keys.toml"
    data.mkdir()
    tables, history = stored(data)
    other = History(stream="OTHER")
    tables.commit([other.create(), other.publish("o.1")])
    keys = {}
    for name, scope in {"reader": "read:S", "all": "read", "other": "read:OTHER"}.items():
        made = CliRunner().invoke(silt, ["key", "new", name, "--scope", scope, "--file", str(file)])
        keys[name] = made.stdout.strip()
    command = [sys.executable, "-m", "api.rest.serve_main", "--data", str(data), "--http-port", "0", "--http-only"]
    child = Child(command, folder / "serve.log", {"SILT_HTTP__API_KEYS_FILE": str(file)})
    child.start()
    try:
        url = json.loads(child.wait_log(READY, seconds=60)[1])["url"]
        wait_until(lambda: http_open(url), what="the store is open", log=child.log)
        yield Shared(url, keys, history, folder)
    finally:
        child.stop()


def test_the_client_of_pypi_reads_now_and_the_past(shared: Shared) -> None:
    """By a profile of the key: the live messages alone, as of now, versions and times, as they were."""
    profile = shared.folder / "silt.share"
    made = CliRunner().invoke(
        silt, ["key", "profile", "--server", shared.url, "--file", str(profile)], input=shared.keys["reader"]
    )
    assert (made.exit_code, profile.stat().st_mode & 0o777) == (0, 0o600), made.output
    times = {row.seq: row.ts_ns for row in shared.history.rows if row.kind == "message"}
    points = [{}, {"version": 3}, {"version": 4}, {"timestamp": format_time(times[4] + 1000)}, {"version": 0}]
    ran = subprocess.run(
        [str(sharing_python()), "-c", CLIENT, str(profile), json.dumps(points)],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["tables"] == ["S"]
    payloads = {row.seq: (row.subject, row.data) for row in shared.history.rows if row.kind == "message"}
    for found, seqs in zip(said["rows"], ([3, 4, 5, 6], [1, 2, 3], [2, 3, 4], [2, 3, 4], []), strict=True):
        assert [row[0] for row in found] == seqs
        assert [(row[1], bytes.fromhex(row[2])) for row in found] == [payloads[seq] for seq in seqs]
    with shared.client("reader") as http:
        for version, found in ((3, said["rows"][1]), (4, said["rows"][2])):
            asked = {"query": "SELECT seq FROM as_of('S', $1) ORDER BY seq", "parameters": [version]}
            by_sql = [row["seq"] for row in http.post("/v1/sql", json=asked).json()]
            path = f"/v1/streams/S/multi-last?subject=s.*&up_to_seq={version}"
            by_rest = [message["seq"] for message in http.get(path).json()["messages"]]
            assert by_sql == by_rest == [row[0] for row in found]


def lines_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """The objects of an answer."""
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_file_is_opened_by_its_signed_url_alone(shared: Shared) -> None:
    """Whole or in parts, without a key; not by another signature, time or name."""
    with shared.client("reader") as http:
        *_, file = lines_of(http.post(f"{TABLE}/query", json={"limitHint": 1}))
        again = lines_of(http.post(f"{TABLE}/query", json={}))[-1]["file"]
    url, size = file["file"]["url"], file["file"]["size"]
    assert again["id"] == file["file"]["id"]
    whole = httpx.get(url)
    assert (len(whole.content), whole.headers["accept-ranges"]) == (size, "bytes")
    assert sorted(pq.read_table(pa.BufferReader(whole.content))["seq"].to_pylist()) == [3, 4, 5, 6]
    assert httpx.head(url).headers["content-length"] == str(size)
    for start, end in ((0, 3), (size - 8, size - 1), (5, size + 100)):
        part = httpx.get(url, headers={"Range": f"bytes={start}-{end}"})
        assert (part.status_code, part.content) == (206, whole.content[start : end + 1])
    assert httpx.get(url, headers={"Range": f"bytes={size - 8}-"}).content == whole.content[-8:]
    assert httpx.get(url, headers={"Range": f"bytes={size}-"}).status_code == 416
    wrong = [re.sub("signature=.", "signature=z", url), re.sub(r"expires=\d", "expires=9", url)]
    for changed in (*wrong, url.replace(".parquet", "x.parquet")):
        assert httpx.get(changed).status_code == 403, changed
    assert httpx.get(url.partition("&")[0]).status_code == 400


def test_versions_and_metadata_follow_the_protocol(shared: Shared) -> None:
    """Headers and lines as PROTOCOL.md has them; a version is a sequence."""
    times = {row.seq: row.ts_ns for row in shared.history.rows if row.kind == "message"}
    with shared.client("reader") as http:
        assert http.get(f"{TABLE}/version").headers["delta-table-version"] == "6"
        since = http.get(f"{TABLE}/version", params={"startingTimestamp": format_time(times[4])})
        assert since.headers["delta-table-version"] == "4"
        late = http.get(f"{TABLE}/version", params={"startingTimestamp": format_time(times[6] + 1)})
        assert late.status_code == 400
        protocol, metadata = lines_of(http.get(f"{TABLE}/metadata"))
        assert protocol == {"protocol": {"minReaderVersion": 1}}
        schema = json.loads(metadata["metaData"]["schemaString"])
        assert [field["name"] for field in schema["fields"]][:2] == ["subject", "seq"]
        asked = http.post(f"{TABLE}/query", json={"version": 3, "predicateHints": ["seq > 1"]})
        assert asked.headers["delta-table-version"] == "3"
        for body in ({"version": 7}, {"timestamp": "noon"}, {"version": 1, "timestamp": "2026-01-01T00:00:00Z"}):
            assert http.post(f"{TABLE}/query", json=body).status_code == 400, body


def test_a_key_sees_its_own_tables(shared: Shared) -> None:
    """Lists have nothing else, page by page, and other tables are forbidden."""
    with shared.client("other") as http:
        base = "/delta-sharing/shares"
        assert http.get(base).json() == {"items": [{"name": "silt"}]}
        assert http.get(f"{base}/silt").json() == {"share": {"name": "silt"}}
        assert http.get(f"{base}/silt/schemas").json() == {"items": [{"name": "streams", "share": "silt"}]}
        assert [one["name"] for one in http.get(f"{base}/silt/all-tables").json()["items"]] == ["OTHER"]
        for path in (f"{TABLE}/version", f"{TABLE}/metadata"):
            assert http.get(path).status_code == 403
        assert http.post(f"{TABLE}/query", json={}).status_code == 403
        assert http.get(f"{base}/none/schemas").status_code == 404
        hidden = http.post("/v1/sql", content="SELECT * FROM S")
        assert (hidden.status_code, http.post("/v1/sql", content="SELECT seq FROM OTHER").json()) == (400, [{"seq": 1}])
        assert [one["name"] for one in http.post("/v1/sql", content="SELECT name FROM silt_streams").json()] == [
            "OTHER"
        ]
    with shared.client("all") as http:
        page = http.get(f"{base}/silt/schemas/streams/tables", params={"maxResults": 1}).json()
        assert [one["name"] for one in page["items"]] == ["OTHER"]
        rest = {"maxResults": 1, "pageToken": page["nextPageToken"]}
        page = http.get(f"{base}/silt/schemas/streams/tables", params=rest).json()
        assert ([one["name"] for one in page["items"]], "nextPageToken" in page) == (["S"], False)
