"""Files of rows as strangers have them: other encodings, headers with quotes, pipes that come in drops."""

import datetime as dt
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from psoup_cli.files import open_rows
from psoup_client import Client, InvalidData, StreamInfo


@pytest.fixture
def info(client: Client) -> StreamInfo:
    sql = 'CREATE STREAM IF_ANY ("Order ID" BIGINT, "naïve, col" TEXT, price DECIMAL(9,2), day DATE)'
    return client.create_stream(sql, if_not_exists=True)


def rows(path: Path, format: str, info: StreamInfo, *nulls: str) -> list[dict[str, Any]]:
    found = []
    for piece, _ in open_rows(str(path), format, info, ("", *nulls)):
        found += piece if isinstance(piece, list) else piece.to_pylist()
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
        ("Order ID,naïve\n1,x\n".encode("latin-1"), "not UTF-8"),
        (b"Order ID,price\n1,NA\n", "row 1 .*column 'price', 'NA': The string 'NA'.*--null"),
        (b"price,Order ID\n1.25,1\n,2\n1.555,3\n", r"row 3 \(the first below .* 'price', '1.555': .* data loss"),
        (b'naive,price\n"a\nb",1\n"c\nd",12345678901\n', "row 2 .* 'price', '12345678901'"),
        (b"Order ID\n" + b"7\n" * 30_000 + b"x7\n" + b"7\n" * 30_000, "row 30,001 .* 'Order ID', 'x7'"),
        (b"Order ID,price\n1\n", "cannot be read as csv: CSV parse error: Expected 2 columns"),
    ],
)
def test_csv_that_does_not_fit(info: StreamInfo, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=message):
        rows(path, "csv", info)
    if b"NA" in content:
        assert rows(path, "csv", info, "NA") == [{"Order ID": 1, "price": None}]


@pytest.mark.parametrize("content", [b"", b"\n", b"Order ID,price\n", b"Order ID,price"])
def test_csv_without_rows(info: StreamInfo, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.csv"
    path.write_bytes(content)
    assert rows(path, "csv", info) == []


def test_a_pipe_gives_what_has_come(info: StreamInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = os.pipe()
    with os.fdopen(into, "wb", buffering=0) as pipe, os.fdopen(out, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        pieces = open_rows("-", "json", info, ())
        pipe.write(b'{"Order ID": 1}\n\n{"Order ID": 2}\n{"Ord')
        assert next(pieces)[0] == [{"Order ID": 1}, {"Order ID": 2}]
        pipe.write(b'er ID": 3}\n[4]')
        assert next(pieces)[0] == [{"Order ID": 3}]
        pipe.close()
        with pytest.raises(InvalidData, match="line 5 is a JSON list"):
            next(pieces)
