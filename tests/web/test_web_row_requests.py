"""Rows in by HTTP: taken once for each key, all or none, with every bad row named by its line."""

from __future__ import annotations

import dataclasses
import gzip
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.work.clock import VirtualClock
from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_service.wire.text_rows import reader
from psoup_storage import DurableStore
from psoup_testing.browser.page_requests import Page, Response
from psoup_testing.services.threaded_service import Serving, serving

ROW = {"at": "2024-05-01T12:00:00Z", "name": "IBM", "price": 1.5, "size": 3}
NUMBERS = itertools.count()
CSV = {"content-type": "text/csv; charset=utf-8; header=present"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def arrow_of(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    """A table as an Arrow IPC stream."""
    target = io.BytesIO()
    with pa.ipc.new_stream(target, table.schema, options=options) as writer:
        writer.write_table(table)
    return target.getvalue()


@pytest.fixture(scope="module")
def rows(served: Serving) -> Iterator[Rows]:
    with Client(served.address) as soup:
        yield Rows(Page(served.service), soup)


class Rows:
    """Sends rows to new streams of one service."""

    def __init__(self, page: Page, soup: Client) -> None:
        self.page = page
        self.soup = soup
        self.stream = ""

    def create(self, columns: str = "at TIMESTAMP NOT NULL, name TEXT, price DECIMAL(9,2), size BIGINT") -> str:
        self.stream = f"rows{next(NUMBERS)}"
        self.soup.create_stream(f"CREATE STREAM {self.stream} ({columns})")
        return self.stream

    def send(self, body: bytes | list[Any], headers: dict[str, str] | None = None, path: str = "") -> Response:
        if isinstance(body, list):
            body = b"".join(json.dumps(row).encode() + b"\n" for row in body)
        sent = {"idempotency-key": f"k{next(NUMBERS)}", **(headers or {})}
        path = path or f"/api/streams/{self.stream}/rows"
        return self.page.send("POST", path, body, {name: value for name, value in sent.items() if value})

    def refused(self, body: bytes | list[Any], headers: dict[str, str] | None = None) -> tuple[int, Any]:
        response = self.send(body, headers)
        return response.status, response.json

    def names(self) -> list[Any]:
        return [row["name"] for row in self.soup.ask(f"SELECT name FROM {self.stream}")]


@pytest.mark.seeded("a request is taken again when it comes with the same key")
def test_a_request_is_taken_once(rows: Rows) -> None:
    rows.create()
    first = rows.send([ROW, {**ROW, "name": "ABC"}], {"idempotency-key": "one"})
    again = rows.send([ROW, {**ROW, "name": "ABC"}], {"idempotency-key": "one"})
    assert first.status == again.status == 200
    assert first.json["accepted"] == "2" and not first.json["duplicate"]
    assert again.json == {**first.json, "duplicate": True, "replaced": "0"}
    other = rows.refused([{**ROW, "name": "XYZ"}], {"idempotency-key": "one"})
    assert other[0] == 409 and other[1]["reason"] == "KEY_REUSED"
    assert rows.names() == ["IBM", "ABC"]
    rows.create()
    assert rows.send([ROW], {"idempotency-key": "one"}).status == 200, "another stream has other keys"


@pytest.mark.seeded("a key is forgotten at a restart")
def test_a_key_survives_a_restart_and_is_forgotten_after_its_time(tmp_path: Path) -> None:
    settings, clock = Settings(port=0, web_port=0, idempotency_key_s=60), VirtualClock(1_000_000)
    replies = list[Any]()
    for seconds in (0, 59, 61):
        clock.advance(seconds=seconds)
        store = DurableStore(tmp_path, reserve_bytes=0)
        with serving(settings, clock, store) as served, Client(served.address) as soup:
            sender = Rows(Page(served.service), soup)
            sender.stream = "kept"
            soup.create_stream("CREATE STREAM kept (name TEXT)", if_not_exists=True)
            replies.append(sender.send([{"name": "a"}], {"idempotency-key": "one"}).json)
            assert sender.names() == ["a"] * (2 if seconds > 60 else 1)
    assert [reply["duplicate"] for reply in replies] == [False, True, False]
    assert replies[0]["sequence"] == replies[1]["sequence"] != replies[2]["sequence"]


@pytest.mark.seeded("rows before a bad one are taken")
def test_every_bad_row_is_named_by_line_and_none_is_taken(rows: Rows) -> None:
    rows.create()
    good = json.dumps(ROW).encode()
    lines = [
        good,
        b'{"at":"2024-05-01","name":5}',
        b"",
        b"{oops",
        good,
        b"[1]",
        b'{"name":"x"}',
        b'{"at":"2024","z":1}',
    ]
    status, refusal = rows.refused(b"\r\n".join(lines))
    assert status == 422 and refusal["reason"] == "BAD_ROWS" and refusal["more"] is False
    assert [row["line"] for row in refusal["rows"]] == [2, 4, 6, 7, 8]
    assert refusal["rows"][0]["column"] == "name" and "not a valid TEXT" in refusal["rows"][0]["message"]
    assert "TIMESTAMP" not in refusal["rows"][3]["message"] and "'at' is missing" in refusal["rows"][3]["message"]
    assert refusal["message"].startswith("line 2: 5 in column 'name'") and "No row was taken" in refusal["message"]
    assert rows.names() == []
    status, refusal = rows.refused([{"at": 1}] * 1_000)
    assert len(refusal["rows"]) == 100 and refusal["more"]


def test_late_rows_are_named_or_counted(rows: Rows) -> None:
    stream = f"late{next(NUMBERS)}"
    rows.soup.create_stream(f"CREATE STREAM {stream} (at TIMESTAMP, name TEXT) TIMESTAMP BY at")
    rows.stream = stream
    assert rows.send([{"at": "2024-05-02"}]).status == 200
    body = b'\n{"at":"2024-05-03"}\n{"at":"2024-05-01"}\n'
    status, refusal = rows.refused(body)
    assert status == 422 and refusal["reason"] == "ROWS_REFUSED" and refusal["lateLines"] == [3]
    assert refusal["message"].startswith("line 3: ") and "?refused=count" in refusal["message"]
    taken = rows.send(body, path=f"/api/streams/{stream}/rows?refused=count").json
    assert (taken["accepted"], taken["late"]) == ("1", "1")


def test_a_refusal_names_lines_and_leaves_the_text_of_the_client(rows: Rows) -> None:
    rows.create('"row 0" TEXT')
    status, refusal = rows.refused(b'\n\n{"row 0":"%s"}\n' % (b"x" * 2_000_000))
    assert status == 422 and refusal["message"].startswith("line 3: the text in column 'row 0' has 2,000,000 bytes")


def test_a_request_may_be_repeated_with_another_choice_for_late_rows(rows: Rows) -> None:
    rows.create()
    path = f"/api/streams/{rows.stream}/rows"
    for number, choice in enumerate(("", "?refused=count", "?refused=raise")):
        reply = rows.send([ROW], {"idempotency-key": "one"}, path + choice)
        assert (reply.status, reply.json["duplicate"]) == (200, number > 0), choice


def test_a_request_past_its_deadline_is_answered_in_json(
    rows: Rows, served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.create()
    gateway = served.service.gateway
    assert gateway is not None
    answering = gateway._calls.answering
    monkeypatch.setattr(answering, "limits", dataclasses.replace(answering.limits, default_deadline_s=0.0))
    connection = rows.page.opened()
    try:
        connection.putrequest("POST", f"/api/streams/{rows.stream}/rows")
        connection.putheader("content-length", "10")
        connection.putheader("idempotency-key", "late")
        connection.endheaders()
        reply = connection.getresponse()
        assert (reply.status, reply.getheader("content-type")) == (504, "application/json")
        assert json.loads(reply.read())["reason"] == "DEADLINE_EXCEEDED"
    finally:
        connection.close()


def test_a_table_takes_upserts_deletions_and_patches(rows: Rows) -> None:
    table = f"table{next(NUMBERS)}"
    rows.soup.create_stream(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT, city TEXT)")
    rows.stream = table
    rows.send([{"id": 1, "name": "a", "city": "x"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}])
    rows.send([{"id": 1, "name": "A"}, {"id": 2, "_deleted": True}])
    assert rows.send([{"id": 3, "city": "z", "_patch": True}]).status == 200
    remaining = rows.soup.ask(f"SELECT id, name, city FROM {table} ORDER BY id")
    assert list(remaining) == [{"id": 1, "name": "A", "city": None}, {"id": 3, "name": "c", "city": "z"}]
    status, refusal = rows.refused([{"id": 1, "city": "z", "_patch": True}, {"id": 1, "name": "q", "_patch": True}])
    assert status == 422 and refusal["rows"][0]["line"] == 1 and "the patch lacks 'name'" in refusal["message"]
    assert rows.refused([{"name": "q"}])[1]["rows"][0]["column"] == "id"


def test_a_body_may_be_gzip_with_a_mark_and_any_line_ends(rows: Rows) -> None:
    rows.create()
    body = b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n  " + json.dumps({**ROW, "name": "é"}).encode()
    members = gzip.compress(body[:50]) + gzip.compress(body[50:])
    assert rows.send(members, {"content-encoding": "gzip"}).json["accepted"] == "2"
    assert rows.names() == ["IBM", "é"]
    for raw, words in (
        (gzip.compress(body)[:-9], "ends within its gzip"),
        (b"no", "is not gzip"),
        (gzip.compress(b"\n") * 1_001, "more than 1000 members"),
    ):
        status, refusal = rows.refused(raw, {"content-encoding": "gzip"})
        assert status == 415 and words in refusal["message"]


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (b"\x1f\x8b\x08", 0, "send the header Content-Encoding: gzip"),
        ("{}".encode("utf-16"), 0, "is UTF-16"),
        (b'{"at":"2024-05-01","name":"caf\xe9"}', 1, "byte e9 is not utf-8"),
        (b'{"at":' + b"[" * 16_000, 1, "nested too deeply"),
        (b'{"at":"2024-05-01"}\n{"name":' + b"[" * 8_000 + b"]" * 8_000 + b"}", 2, "nested too deeply"),
        (b'{"at":"2024-05-01"}\n{"name":' + b"[" * 1_000_000 + b"}", 2, "more than 16,384 values"),
        (b'{"at":"2024-05-01"}\n{"size":' + b"1" * 3_000_000 + b"}", 2, "more digits than any column holds"),
        (b'{"name":"' + b"x" * 5_000_000 + b'"}', 1, "more than 4,194,304 bytes"),
        (b'{"at":"2024-05-01","name":"\\ud800"}', 1, "not a valid TEXT"),
    ],
)
def test_bodies_that_are_not_rows(rows: Rows, body: bytes, line: int, words: str) -> None:
    rows.create()
    status, refusal = rows.refused(body)
    assert status == 422 and refusal["rows"][0]["line"] == line and words in refusal["rows"][0]["message"]


@pytest.mark.seeded("a request without a key is taken")
def test_heads_that_are_refused(rows: Rows) -> None:
    rows.create()
    cases: list[tuple[dict[str, str], int, str]] = [
        ({"idempotency-key": ""}, 400, "header Idempotency-Key"),
        ({"idempotency-key": "é".encode().decode("latin-1")}, 400, "Idempotency-Key is"),
        ({"idempotency-key": "x" * 256}, 400, "1 to 255 characters"),
        ({"content-type": "application/xml"}, 415, "application/x-ndjson"),
        ({"content-type": "application/x-ndjson; charset=latin-1"}, 415, "send the body in UTF-8"),
        ({"content-encoding": "br"}, 415, "or as gzip"),
        ({"content-length": str(2**40)}, 413, "send it in parts"),
        ({"origin": "http://evil.example"}, 403, "comes from a page"),
        ({"sec-fetch-site": "cross-site"}, 403, "another site"),
        ({"transfer-encoding": "chunked"}, 411, "send Content-Length"),
    ]
    for headers, status, words in cases:
        refusal = rows.refused(b"", headers)
        assert refusal[0] == status and words in refusal[1]["message"], headers
    for path, status, words in (
        ("/api/streams/nothing/rows", 404, "'nothing'; create it"),
        ("/api/streams/%ff/rows", 400, "not UTF-8"),
        (f"/api/streams/{rows.stream}/rows?refuse=no", 400, "take refused"),
        (f"/api/streams/{rows.stream}/rows?refused=no", 400, "write raise or count"),
        (f"/api/streams/{rows.stream}/rows?delimiter=%3B", 400, "take refused"),
    ):
        response = rows.send([ROW], path=path)
        assert response.status == status and words in response.json["message"], path


def test_bodies_that_are_not_ndjson_are_told_of_curl_and_of_csv(rows: Rows) -> None:
    rows.create("name TEXT, size BIGINT")
    for body, words in ((b'{"name": "a"}{"name": "b"}', "--data-binary does not"), (b"name,size\na,1\n", "text/csv")):
        reply = rows.send(body, {"idempotency-key": words})
        assert reply.status == 422 and words in reply.json["rows"][0]["message"]


def test_arrow_goes_in(rows: Rows) -> None:
    rows.create("name TEXT, size BIGINT")
    body = arrow_of(pa.table({"size": [1, 2], "name": ["a", "b"]}))
    headers = {**ARROW, "idempotency-key": "arrow"}
    for duplicate in (False, True):
        reply = rows.send(body, headers).json
        assert (reply["accepted"], reply["duplicate"]) == ("2", duplicate)
    assert rows.names() == ["a", "b"]
    assert rows.refused(b"no arrow", {**headers, "idempotency-key": "other"})[0] == 400


@pytest.mark.long
def test_arrow_that_inflates_is_refused_by_its_declared_size(rows: Rows) -> None:
    rows.create("name TEXT")
    repeated = pa.table({"name": ["x" * 1_000_000] * 300})
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), pa.array(["x" * 900_000]))
    for body in (arrow_of(repeated, pa.ipc.IpcWriteOptions(compression="zstd")), arrow_of(pa.table({"name": names}))):
        assert len(body) < 6_000_000
        status, refusal = rows.refused(body, ARROW)
        assert status == 413 and "268,435,456 is the most" in refusal["message"]


def test_a_body_is_bounded(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.create()
    monkeypatch.setattr(reader, "MOST_TEXT_BYTES", 1_000_000)
    status, refusal = rows.refused(gzip.compress(b"\n" * 5_000_000), {"content-encoding": "gzip"})
    assert status == 413 and "more than 1,000,000 bytes" in refusal["message"]


def test_few_bytes_for_very_many_columns_are_bounded(rows: Rows) -> None:
    rows.create(", ".join(f"c{n} BIGINT" for n in range(1_000)))
    status, refusal = rows.refused(b'{"c1":1}\n' * 40_000)
    assert status == 413 and "the rows take more than 268,435,456 bytes" in refusal["message"]
    many = pa.table({"c1": pa.nulls(40_000, pa.int64())})
    status, refusal = rows.refused(arrow_of(many), ARROW)
    assert status == 413 and refusal["reason"] == "BATCH_TOO_LARGE"


def test_a_refusal_reaches_a_client_that_still_sends(rows: Rows) -> None:
    rows.create()
    status, refusal = rows.refused(b"oops\n" * 1_000_000)
    assert status == 422 and refusal["more"]


def test_a_long_body_comes_in_pieces(rows: Rows) -> None:
    rows.create("n BIGINT, name TEXT")
    body = b"".join(b'{"n":%d,"name":"number %d"}\n' % (n, n) for n in range(30_000))
    assert rows.send(body).json["accepted"] == "30000"
    result = rows.soup.ask(f"SELECT count(*) AS rows, sum(n) AS total FROM {rows.stream}").rows()
    assert result == [(30_000, 30_000 * 29_999 // 2)]
    body += b"oops\n"
    status, refusal = rows.refused(body)
    assert status == 422 and [row["line"] for row in refusal["rows"]] == [30_001]


def test_a_csv_goes_in(rows: Rows) -> None:
    rows.create()
    body = (
        "\ufeffName; PRICE ;at;size\r\n"
        '"a; ""b""\nc";1.50;2024-05-01T12:00:00+02:00;7\r\n'
        "é;;2024-05-01;\r\n"
        "n/a;2e0;2024-05-01 10:00:00.5;NULL\r\n"
    ).encode()
    path = f"/api/streams/{rows.stream}/rows?null=n%2Fa&null=NULL"
    assert rows.send(body, CSV, path).json["accepted"] == "3"
    result = [tuple(map(str, row)) for row in rows.soup.ask(f"SELECT * FROM {rows.stream}").rows()]
    assert result == [
        ("2024-05-01 10:00:00+00:00", 'a; "b"\nc', "1.50", "7"),
        ("2024-05-01 00:00:00+00:00", "é", "None", "None"),
        ("2024-05-01 10:00:00.500000+00:00", "None", "2.00", "None"),
    ]


@pytest.mark.seeded("rows before a bad one are taken")
def test_bad_rows_of_a_csv_are_named_by_line(rows: Rows) -> None:
    rows.create()
    lines = [b'2024-05-01,"two\nlines",1', b"2024,x,1", b"2024-05-01,caf\xe9,2", b"", b",y,3", b"2024-05-01,z"]
    body = b"\n".join([b"at,name,price", *lines, b"2024-05-01,z,no"])
    status, refusal = rows.refused(body, CSV)
    assert status == 422
    assert [(row["line"], row.get("column")) for row in refusal["rows"]] == [
        (4, "at"), (5, "name"), (7, "at"), (8, None), (9, "price"),
    ]  # fmt: skip
    words = ["not a valid TIMESTAMP", "byte e9 in column 'name' is not utf-8", "missing or NULL", "it has 2 values"]
    for row, part in zip(refusal["rows"], words, strict=False):
        assert part in row["message"] and "--" not in row["message"]
    assert rows.names() == []


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (b"at,nam\n2024-05-01,x\n", 1, "names 'nam', and the stream has no such column; did you mean 'name'"),
        (b"at,At\n2024-05-01,x\n", 1, "column 'at' comes twice"),
        (b'at,name\n2024-05-01,"x\n', 2, "the quote that opens here is not closed"),
        (b"name\nx\n", 2, "column 'at' is missing"),
        ("at,name\n2024-05-01,x\n".encode("utf-16-le"), 1, "it has NUL bytes"),
        (b"at,price\n2024-05-01,1e999999999\n", 2, "not a valid DECIMAL(9,2)"),
        ("at,name\n2024-05-01,é\n".encode("utf-16"), 0, "UTF-16"),
        (b"at;name\n" + b"2024-05-01;x\n" * 50_000 + b"2024;x\n", 50_002, "not a valid TIMESTAMP"),
    ],
)
def test_csvs_that_are_refused(rows: Rows, body: bytes, line: int, words: str) -> None:
    rows.create()
    status, refusal = rows.refused(body, CSV)
    assert status == 422 and refusal["rows"][0]["line"] == line and words in refusal["rows"][0]["message"]
    assert "--" not in refusal["message"]


@pytest.mark.long
def test_a_refusal_of_very_many_bad_rows_is_quick(rows: Rows) -> None:
    rows.create()
    for line in (b"%d.x,a,1,1", b"2024-05-01,a,%dx,1", b"2024-05-01,a,1,%dx"):
        body = b"at,name,price,size\n" + b"\n".join(line % n for n in range(30_000))
        status, refusal = rows.refused(body, CSV)
        assert status == 422 and len(refusal["rows"]) == 100 and refusal["more"]
        assert [row["line"] for row in refusal["rows"]] == list(range(2, 102))
