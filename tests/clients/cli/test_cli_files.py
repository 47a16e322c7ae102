"""Files of rows as strangers have them: other encodings, headers with quotes, pipes that come in drops."""

import csv
import datetime as dt
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup_cli.files.options import FileOptions
from psoup_cli.files.row_files import format_of, open_rows
from psoup_client import Client, InvalidData, StreamInfo
from psoup_proto.csv_rows.records import read_records
from psoup_testing.services.command import Psoup


@pytest.fixture
def info(client: Client) -> StreamInfo:
    sql = 'CREATE STREAM IF_ANY ("Order ID" BIGINT, "naïve, col" TEXT, price DECIMAL(9,2), day DATE)'
    return client.create_stream(sql, if_not_exists=True)


def rows(path: Path, format: str, info: StreamInfo, *nulls: str) -> list[dict[str, Any]]:
    found = []
    for piece in open_rows(str(path), format, info, FileOptions(nulls=nulls, ignore_extra=True)):
        piece.check()
        found += piece.rows if isinstance(piece.rows, list) else piece.rows.to_pylist()
    return found


def test_csv_of_a_spreadsheet(info: StreamInfo, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes('\ufeffOrder ID,"naïve, col",day\r\n1,"x, ""y""\nz",2026-07-01\r\n2,,\r\n'.encode())
    assert rows(path, "csv", info) == [
        {"Order ID": 1, "naïve, col": 'x, "y"\nz', "day": dt.date(2026, 7, 1)},
        {"Order ID": 2, "naïve, col": None, "day": None},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Order ID,naïve\n1,x\n".encode("latin-1"),
            "line 1: byte ef is not utf-8; say .* for instance --encoding cp1252",
        ),
        (b"Order ID,price\n1,NA\n", r"line 2, column 'price', 'NA': it is not a valid DECIMAL\(9,2\);.*--null"),
        (b"price,Order ID\n1.25,1\n,2\n1.555,3\n", r"line 4, .*: it has more digits than DECIMAL.*; round it$"),
        (b'naive,price\n"a\nb",1\n"c\nd",12345678901\n', "line 4, column 'price', '12345678901': it has more digits"),
        (
            b"Order ID\n" + b"7\n" * 30_000 + b"x7\n" + b"7\n" * 30_000,
            "line 30002, column 'Order ID', 'x7': it is not a valid BIGINT;",
        ),
        (b"Order ID,day\n1,2026-02-30\n", "line 2, column 'day', '2026-02-30': it is not a valid DATE; write it as"),
        (
            b"Order ID,price\n1\n",
            "line 2: it has 1 value, and the first line 2 names; they are separated by commas; --delimiter",
        ),
        (
            b"Order ID;price\n1;2,5\n",
            "line 2, column 'price', '2,5': it is not a valid .*; say --decimal ,",
        ),
        (
            b"Order ID,price,day\n1,2\n",
            "line 2: it has 2 values, and the first line 3 names; they are .*an empty field is NULL$",
        ),
        (b"", "the file is empty: its first line has to name the columns, or say --no-header"),
        (b"\n \n", "the file is empty"),
    ],
)
def test_csv_that_does_not_fit(info: StreamInfo, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=message):
        rows(path, "csv", info)
    if b"NA" in content:
        assert rows(path, "csv", info, "NA") == [{"Order ID": 1, "price": None}]


def test_what_is_not_a_file_of_a_known_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a directory; name a file$"):
        format_of(str(tmp_path), None)
    with pytest.raises(ValueError, match=r"cannot tell the format from a name without a suffix; add --format$"):
        format_of(str(tmp_path / "trades"), None)
    with pytest.raises(ValueError, match=r"cannot tell the format from '\.xls'; add --format$"):
        format_of(str(tmp_path / "trades.xls"), None)


@pytest.mark.parametrize("content", [b"Order ID,price\n", b"Order ID,price"])
def test_csv_without_rows(info: StreamInfo, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.csv"
    path.write_bytes(content)
    assert rows(path, "csv", info) == []


def test_a_pipe_gives_what_has_come(info: StreamInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = os.pipe()
    with os.fdopen(into, "wb", buffering=0) as pipe, os.fdopen(out, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        pieces = open_rows("-", "json", info, FileOptions())
        pipe.write(b'{"Order ID": 1}\n\n{"Order ID": 2}\n{"Ord')
        assert next(pieces).rows == [{"Order ID": 1}, {"Order ID": 2}]
        pipe.write(b'er ID": 3}\n[4]')
        assert next(pieces).rows == [{"Order ID": 3}]
        pipe.close()
        with pytest.raises(InvalidData, match="line 5: it is an array; write one object"):
            next(pieces).check()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # the quote of line 3 swallows what follows
        ('naive,price\n"a",1\n"b,2\nc,3\nd,4\n', "line 3: the quote that opens here is not closed before the end"),
        ('naive,price\n"a\nb",1\n\n"c,2\n', "line 5: the quote that opens here"),
        ('price,naive\n1,"a ""b\n2,c\n', "line 2: the quote that opens here"),
        ('price,naive\n1,"""\n2,c\n', "line 2: the quote that opens here"),
        ('price,naive\r\n1,x\r\n2,"y\r\n3,z\r\n', "line 3: the quote that opens here"),
        ('"price,naive\n1,x\n', "line 1: the quote that opens here"),
        ('\ufeff"naive","price\n1,x\n', "line 1: the quote that opens here"),
        # it is closed by the quote that opens another
        ('price,naive\n1,"a\n2,"b"\n3,c\n', "line 2: the quote that opens here is closed on line 3, where text"),
        ('price,naive\n1,5" pipe\n2,"b\n', "line 3: the quote that opens here is not closed"),
    ],
)
def test_a_quote_without_an_end_is_an_error(info: StreamInfo, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "open.csv"
    path.write_text(content, newline="")
    with pytest.raises(InvalidData, match=message) as caught:
        rows(path, "csv", info)
    assert caught.value.reason == "UNCLOSED_QUOTE"


def test_quotes_that_are_text_are_let_be(info: StreamInfo, tmp_path: Path) -> None:
    path = tmp_path / "inches.csv"
    path.write_text('Order ID,"naïve, col"\n1,5" pipe\n2,"6"" pipe, long"\n3,""\n4,"a" b\n', newline="")
    found = [row["naïve, col"] for row in rows(path, "csv", info)]
    assert found == ['5" pipe', '6" pipe, long', "", "a b"]


def test_records_are_whole_however_the_bytes_come() -> None:
    """Every way to cut some bytes in two gives the same records, on the lines where they are."""
    content = b'a,b\n\n1,"x\ny"\r\n\r\n2,"p ""q"""\n3,5"\n"4\n\n",z\n5,end'
    for cut in range(len(content)):
        parts = iter([content[:cut], content[cut:], b""] if cut else [content, b""])
        found = list(read_records(lambda size, parts=parts: next(parts)))
        assert b"".join(records.data for records in found) == content
        assert [line for records in found for line in records.lines()] == [1, 3, 6, 7, 8, 11], cut


def test_pieces_are_cut_between_records(info: StreamInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of several lines at the edges of what is read at once, and a bad value far behind them."""
    monkeypatch.setattr("psoup_proto.csv_rows.records.PIECE_BYTES", 100)
    path = tmp_path / "long.csv"
    lines = ['Order ID,"naïve, col"', *(f'{n},"{n}\n{"x" * (n % 60)}\n"' for n in range(300))]
    path.write_text("\n".join(lines) + "\n")
    assert [row["Order ID"] for row in rows(path, "csv", info)] == list(range(300))
    path.write_text("\n".join([*lines, "\n", "bad,x"]) + "\n")
    with pytest.raises(InvalidData, match="line 904, column 'Order ID', 'bad'"):
        rows(path, "csv", info)


def test_a_row_that_does_not_fit_is_named_by_its_line(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    """Refused by the SDK, or by the service: in a CSV and in JSON lines it is the line, in other files the row."""
    (tmp_path / "t.csv").write_text('id,name,at\n1,"a\nb",2024-05-01\n\n2,c,2024-05-02\n3,d,\n')
    ran = psoup("push", stream, "t.csv")
    assert (ran.code, ran.err) == (
        1,
        "psoup: t.csv: line 6: 'at' is NULL, but the stream says NOT NULL\n0 rows before it were taken.\n",
    )
    (tmp_path / "t.jsonl").write_text('\n{"id": 1, "at": "2024-05-01"}\n\n{"id": "x", "at": "2024-05-02"}\n')
    assert "t.jsonl: line 4: 'x'" in psoup("push", stream, "t.jsonl", "--whole").err
    pq.write_table(
        pa.table({"id": [1, 2, None], "at": pa.array([0, 1, 2], pa.timestamp("us"))}), tmp_path / "t.parquet"
    )
    assert "t.parquet: row 3: 'id' is NULL" in psoup("push", stream, "t.parquet").err
    ran = psoup("push", stream, "-", "--format", "csv", stdin=b'id,at\n1,"2024')
    assert "standard input: line 2: the quote that opens here is not closed before the end of the file" in ran.err


def test_a_row_that_the_service_refuses_is_named_by_its_line(
    psoup: Psoup, client: Client, make_stream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psoup_proto.csv_rows.records.PIECE_BYTES", 2_000)
    stream = make_stream("(n BIGINT, t TIMESTAMP, x TEXT) TIMESTAMP BY t")
    lines = [f"{n},2024-05-01T00:{n // 60:02}:{n % 60:02}Z,x" for n in range(2_000)]
    lines[1_234] = "1234,,x"  # SDK lets NULL in a nullable column go; the service needs a time
    for name in ("t.csv", "t2.csv"):
        (tmp_path / name).write_text("n,t,x\n" + "\n".join(lines) + "\n")
    ran = psoup("push", stream, "t.csv")
    assert ran.code == 1
    assert "t.csv: line 1236: 't' is NULL, but it is the stream's TIMESTAMP BY" in ran.err
    taken = int(ran.err.splitlines()[-1].split()[0].replace(",", ""))
    assert 0 < taken <= 1_234
    assert client.describe(stream, wait_for=0).late == 0
    ran = psoup("push", stream, "t2.csv", "--whole")
    assert "t2.csv: line 1236: 't' is NULL" in ran.err


def test_parameters_are_named_by_their_line(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    sql = f"SELECT id FROM {stream} WHERE id = $id AND name = $name"
    (tmp_path / "p.csv").write_text('id,name\n1,"two\nlines"\n\nx,b\n')
    ran = psoup("register", sql, "--params", "p.csv")
    assert ran.code == 1
    assert "psoup: p.csv, line 5: parameter $id of query 2 is 'x'" in ran.err
    (tmp_path / "p.csv").write_text('id,name\n1,"two\n2,b\n')
    ran = psoup("register", sql, "--params", "p.csv")
    assert ran.code == 2
    assert "p.csv, line 2: the quote that opens here is not closed" in " ".join(ran.err.replace("│", " ").split())
    (tmp_path / "p.jsonl").write_text('{"id": 1, "name": "a"}\n\n{"id": "x", "name": "b"}\n')
    ran = psoup("register", sql, "--params", "p.jsonl")
    assert "p.jsonl: the values of parameter id cannot be sent together: int (line 1), str (line 3);" in ran.err
    (tmp_path / "q.sql").write_text(f"-- first\n\nSELECT id FROM {stream}\nSELECT nothing FROM {stream}\n")
    assert "psoup: q.sql, line 4: query 2: " in psoup("register", "--file", "q.sql").err


def test_columns_of_a_file_are_keys_and_labels(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    (tmp_path / "searches.csv").write_text("search,user,least\na,u1,5\nb,u2,6\nc,u1,7\n")
    sql = f"SELECT id FROM {stream} WHERE id > $least"
    arguments = ["register", sql, "--params", "searches.csv", "--key", "search", "--label", "user"]
    ids = psoup(*arguments).out.split()
    assert (len(ids), psoup(*arguments).out.split()) == (3, ids)
    listed = psoup("queries", "--label", "user=u1", "--json").rows
    assert [(row["query_id"], row["key"]) for row in listed] == [(ids[0], "a"), (ids[2], "c")]
    (row,) = csv.DictReader(psoup("queries", "--key", "b").out.splitlines())
    assert (row["key"], row["labels"], row["window_kind"]) == ("b", '{"user": "u2"}', "landmark")
    assert "No query is on that stream or has those labels" in psoup("queries", "--label", "user=nobody").err
    single = psoup(
        "register", f"SELECT id FROM {stream}", "--key", "d", "--label", "user=u9", "--label", "kind=x", "--json"
    )
    assert single.rows[0]["labels"] == {"user": "u9", "kind": "x"}
    taken = psoup("register", sql.replace("$least", "9"), "--key", "a")
    assert (taken.code, "key 'a' is that of a query of a block of 3 " in taken.err) == (5, True)
    assert psoup("invoke", "--key", "a", "--json").code == 0
    assert [row["query_id"] for row in psoup("invoke", "--key", "c", "--key", "a", "--json").rows] == [ids[2], ids[0]]
    assert psoup("explain", "--key", "a").code == 0
    assert psoup("explain", ids[0], "--key", "a").code == 2
    assert psoup("unregister", "--key", "c").code == 0
    assert psoup("invoke", "--key", "c").code == 4
    assert "is not NAME=VALUE" in psoup("register", sql, "--label", "user").err
    assert psoup("register", "--file", "searches.csv", "--key", "search").code == 2
