"""Files as they come: fifty that are wrong in some way, or only look so, each with what `psoup push` says of it.

The stream has the columns of `COLUMNS`.
"""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {
    "id": "BIGINT",
    "name": "TEXT",
    "price": "DECIMAL(9,2)",
    "unit price": "DOUBLE",
    "day": "DATE",
    "at": "TIMESTAMP",
    "ok": "BOOLEAN",
}
"""Names and types of the stream's columns; id is NOT NULL."""


@dataclass(frozen=True)
class Dirty:
    """A file: its name and bytes, what is said of it, how many of its rows fit, and how it is read (`file_options`)."""

    name: str
    content: bytes
    said: str = ""
    rows: int = 0
    options: dict[str, Any] = field(default_factory=dict)


def _text(name: str, text: str, said: str = "", rows: int = 0, *, written: str = "utf-8", **options: Any) -> Dirty:
    return Dirty(name, text.encode(written), said, rows, options)


def _gzip(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def _arrow(codec: str, text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as file:
        file.write(text)
    return sink.getvalue().to_pybytes()


def _parquet(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _dialects() -> list[Dirty]:
    return [
        _text("semicolons.csv", "id;name;price\n1;a,b;1.5\n2;c;2\n", rows=2),
        _text("tabs.tsv", "id\tname\n1\ta,b\n2\tc;d\n", rows=2),
        _text("bars.csv", "id|name\n1|a\n", rows=1),
        _text("apostrophes.csv", "id,name\n1,'a,b'\n2,'it''s'\n", rows=2),
        _text("odd.csv", "id^name\n1^~a^b~\n", "", 1, delimiter="^", quote="~"),
        _text("no_quotes.csv", 'id,name\n1,"a\n2,b\n', "", 2, quote="none"),
        _text("excel.csv", "sep=;\r\nid;name\r\n1;x\r\n", rows=1),
        _text("macintosh.csv", "id,name\r1,x\r2,y\r", rows=2),
        _text("blank_lines.csv", "\n\nid,name\n\n1,x\n\n\n2,y\n\n", rows=2),
        _text(
            "wrong_delimiter.csv",
            "id;name\n1;x\n",
            "line 1: 'id;name' names none of the columns of stream 's', which are id, name, price, unit price,"
            " day, at, ok; if ';' separates the fields, say --delimiter ';'",
            0,
            delimiter=",",
        ),
        _text(
            "comma.csv",
            "id;price\n1;2,50\n",
            "line 2, column 'price', '2,50': it is not a valid DECIMAL(9,2); say --decimal ,",
        ),
    ]


def _headers() -> list[Dirty]:
    return [
        _text("shouting.csv", " ID ,NAME, Unit-Price\n1,x,2.5\n", rows=1),
        _text("no_header.csv", "1,x,1.5,2,2026-07-01,2026-07-01,true\n", rows=1, no_header=True),
        _text(
            "headless.csv",
            "1,x\n2,y\n",
            "line 1: '1, x' names none of the columns of stream 's', which are id, name, price, unit price,"
            " day, at, ok; if the first line is a row, say --no-header; if it has other names,"
            " --rename 'NAME=COLUMN' for each name; if the names come later, remove the lines before them",
        ),
        _text(
            "short.csv",
            "1,x\n",
            "line 1: it has 2 values, and stream 's' 7 columns; without a header they have to be as many",
            0,
            no_header=True,
        ),
        _text(
            "twice.csv",
            "id,name,Name\n1,x,y\n",
            "line 1: fields 2 and 3, 'name' and 'Name', are both column 'name'; give one another column:"
            " --rename Name=COLUMN",
        ),
        _text(
            "nameless.csv",
            "id,name,\n1,x,\n",
            "line 1: field 3 has no name; name it, or leave it out with --ignore-extra",
        ),
        _text("nameless_too.csv", "id,name,\n1,x,\n", "", 1, ignore_extra=True),
        _text(
            "extra.csv",
            "id,nmae\n1,x\n",
            "line 1: stream 's' has no column 'nmae'; did you mean 'name'? its columns: id, name, price, unit"
            " price, day, at, ok; --ignore-extra leaves others out; --rename nmae=name gives it a column",
        ),
        _text("extra_too.csv", "id,other,other\n1,x,\xff\n", "", 1, ignore_extra=True, written="latin-1"),
        _text(
            "missing.csv",
            "name\nx\n",
            "line 1: column 'id' is missing, and stream 's' says NOT NULL; add it to the file",
        ),
    ]


def _empties() -> list[Dirty]:
    return [
        _text("empty.csv", "", "the file is empty: its first line has to name the columns, or say --no-header"),
        _text(
            "blank.csv", "\n\r\n  \n", "the file is empty: its first line has to name the columns, or say --no-header"
        ),
        _text("only_header.csv", "id,name\n"),
    ]


def _encodings() -> list[Dirty]:
    return [
        _text("mark.csv", "\ufeffid,name\n1,x\n", rows=1),
        _text("utf16.csv", "id,name\n1,Zürich\n", rows=1, written="utf-16"),
        _text(
            "latin.csv",
            "id,name\n1,x\n2,Zürich\n",
            "line 3, column 'name', 'Z\\xfcrich': byte fc is not utf-8; say what the file is in, for"
            " instance --encoding cp1252",
            written="latin-1",
        ),
        _text("latin_too.csv", "id,name\n1,Zürich\n", "", 1, encoding="latin-1", written="latin-1"),
        _text(
            "utf16_unmarked.csv",
            "id,name\n1,x\n",
            "line 1: it has NUL bytes; if the file is UTF-16, say --encoding utf-16-le or utf-16-be",
            written="utf-16-le",
        ),
        Dirty(
            "cp1252.csv",
            b"id,name\n1,x\n2,\x81\n",
            "line 3: byte 81 is not cp1252; say what the file is in, for instance --encoding latin-1",
            0,
            {"encoding": "cp1252"},
        ),
        Dirty(
            "half.csv",
            "id,name\n1,é".encode("utf-16")[:-1],
            "line 2: the file ends within a character of utf-16; get it whole, or name another --encoding",
        ),
        Dirty("nul.csv", b"id,name\n1,a\0b\n", "", 1),
        Dirty(
            "nul_number.csv",
            b"id,name\n1\x00,a\n",
            "line 2, column 'id', '1\\x00': it is not a valid BIGINT; leave '\\x00' out of the file",
        ),
    ]


def _values() -> list[Dirty]:
    return [
        _text(
            "ragged.csv",
            "id,name\n1,x\n2\n",
            "line 3: it has 1 value, and the first line 2 names; they are separated by commas;"
            " --delimiter names another character",
        ),
        _text(
            "wide.csv",
            "id,name\n1,x,y,z\n",
            "line 2: it has 4 values, and the first line 2 names; they are separated by commas; put quotes"
            " around a value that contains one",
        ),
        _text(
            "null_text.csv",
            "id,price\n1,NA\n",
            "line 2, column 'price', 'NA': it is not a valid DECIMAL(9,2); if that stands for NULL, say --null NA",
        ),
        _text("null_texts.csv", "id,price,name\n1,NA,\n2,-,\n", "", 2, null=["NA", "-"]),
        _text("plus.csv", "id\n+1\n", "line 2, column 'id', '+1': it is not a valid BIGINT; leave its sign out"),
        _text(
            "large.csv",
            "id\n9223372036854775808\n",
            "line 2, column 'id', '9223372036854775808': it is not a valid BIGINT; it is out of the range of 64 bits",
        ),
        _text(
            "cents.csv",
            "id,price\n1,1.005\n",
            "line 2, column 'price', '1.005': it has more digits than DECIMAL(9,2) holds; round it",
        ),
    ]


def _numbers() -> list[Dirty]:
    price, german = "it is not a valid DECIMAL(9,2)", {"decimal": ",", "thousands": "."}
    return [
        _text(
            "thousand.csv",
            'id,price\n1,"1,000"\n',
            f"line 2, column 'price', '1,000': {price}; say --thousands , if it is 1000, or say --decimal , if it is"
            " 1.000",
        ),
        _text(
            "thousands.csv",
            'id,price\n1,"12,500.00"\n',
            f"line 2, column 'price', '12,500.00': {price}; say --thousands ,",
        ),
        _text("thousands_too.csv", 'id,price\n"1,001","12,500.00"\n', "", 1, thousands=","),
        _text("german_numbers.csv", "id;price;unit price\n1.001;12.500,50;-1,5e3\n2;+1;0,5\n", "", 2, **german),
        _text("points.csv", "id;price\n1.001;1,5\n", "", 1, thousands="."),
        _text("spaces.csv", "id;price\n1\u00a0001;12\u202f500,50\n2;\n", "", 2, thousands=" ", decimal=","),
        _text("swiss.csv", "id;price\n1;1’500.50\n", "", 1, thousands="'"),
        _text(
            "half_groups.csv",
            "id;price\n1;1.00,5\n",
            f"line 2, column 'price', '1.00,5': {price}; its separators are not where a number has them; correct it",
            **german,
        ),
        _text(
            "other_form.csv",
            "id;price\n1;12,500.00\n",
            f"line 2, column 'price', '12,500.00': {price}; write it as --decimal , --thousands . reads it",
            **german,
        ),
        _text(
            "euros.csv",
            "id;price\n1;1.234,50 €\n",
            f"line 2, column 'price', '1.234,50 €': {price}; leave '€' out of the file and say --decimal ,"
            " --thousands .",
        ),
        _text(
            "brackets.csv",
            "id,price\n1,(12.50)\n",
            f"line 2, column 'price', '(12.50)': {price}; write - instead of the brackets",
        ),
        _text(
            "fraction.csv",
            "id\n1.5\n",
            "line 2, column 'id', '1.5': it is not a valid BIGINT; round it, or make the column DECIMAL",
        ),
        _text(
            "large_german.csv",
            "id;price\n1;1,005\n",
            "line 2, column 'price', '1,005': it has more digits than DECIMAL(9,2) holds; round it",
            **german,
        ),
    ]


def _renames() -> list[Dirty]:
    return [
        _text("renamed.csv", "Nr.;Amount (EUR)\n1;2.5\n", "", 1, rename=["Nr.=id", "amount (eur)=price"]),
        _text("renamed.jsonl", '{"Nr.": 1}\n{"id": 2, "name": "x"}\n', "", 2, rename=["Nr.=id"]),
        Dirty(
            "renamed.parquet", _parquet(key=pa.array([1]), id=pa.array(["x"])), "", 1, {"rename": ["key=id", "id=name"]}
        ),
        _text(
            "misspelt.csv",
            "Nr.;Amount\n1;2.5\n",
            "--rename: the file has no 'Ammount'; did you mean 'amount'?",
            rename=["Nr.=id", "Ammount=price"],
        ),
        _text(
            "no_column.csv",
            "Nr.;Amount\n1;2.5\n",
            "--rename: stream 's' has no column 'pice'; did you mean 'price'? its columns: id, name, price, unit price,"
            " day, at, ok",
            rename=["Nr.=id", "Amount=pice"],
        ),
        _text(
            "unnamed_key.csv",
            "Nr.;name\n1;x\n",
            "line 1: column 'id' is missing, and stream 's' says NOT NULL; if 'Nr.' is it, say --rename Nr.=id",
            ignore_extra=True,
        ),
    ]


def _times() -> list[Dirty]:
    return [
        _text(
            "german.csv",
            "id,day\n1,30.06.2026\n",
            "line 2, column 'day', '30.06.2026': it is not a valid DATE; say psoup push --date-format"
            " '%d.%m.%Y', or write it as 2013-07-04",
        ),
        _text(
            "german_too.csv",
            "id,day,at\n1,30.06.2026,1.7.26 12:00\n",
            "",
            1,
            date_format=["%d.%m.%Y", "%d.%m.%y %H:%M"],
        ),
        _text(
            "february.csv",
            "id,day\n1,30.02.2026\n",
            "line 2: '30.02.2026' in column 'day' is not a valid DATE; write it as 2013-07-04",
            0,
            date_format=["%d.%m.%Y"],
        ),
        _text(
            "american.csv",
            "id,at\n1,07/04/2026 3:05 PM\n",
            "line 2: '07/04/2026 3:05 PM' in column 'at' is not a valid TIMESTAMP; say psoup push --date-format"
            " '%d/%m/%Y %I:%M %p' or --date-format '%m/%d/%Y %I:%M %p', or write it as 2013-07-04T12:00:00Z",
        ),
        _text("epoch.csv", "id,at\n1,1782907200000\n", "", 1, time_unit="ms"),
        _text(
            "epoch_without.csv",
            "id,at\n1,1782907200000\n",
            "line 2: '1782907200000' in column 'at' is not a valid TIMESTAMP; if it counts from 1970, say"
            ' --time-unit ms, or time_unit="ms" in Python',
        ),
        _text("not_null.csv", "id,name\n,x\n", "line 2: 'id' is NULL, but the stream says NOT NULL"),
        _text(
            "open.csv",
            'id,name\n1,"x\n2,y\n',
            "line 2: the quote that opens here is not closed before the end of the file; close it, double a"
            " quote that is text, or say what quotes are with --quote",
        ),
    ]


def _compressed() -> list[Dirty]:
    rows = b"id,name\n1,x\n2,y\n"
    return [
        Dirty("rows.csv.gz", _gzip(rows), rows=2),
        Dirty("members.csv.gz", _gzip(rows) + _gzip(b"3,z\n"), rows=3),
        Dirty("rows.csv.zst", _arrow("zstd", rows), rows=2),
        Dirty("rows.csv.lz4", _arrow("lz4", rows), rows=2),
        Dirty("misnamed.csv", bz2.compress(rows), rows=2),
        Dirty("cut.csv.gz", _gzip(rows)[:-9], "it cannot be decompressed as gzip: Truncated compressed stream"),
        Dirty(
            "crushed.csv.gz",
            _gzip(rows)[:10] + b"\xff" * 9,
            "it cannot be decompressed as gzip: zlib inflate failed: invalid block type",
        ),
    ]


def _others() -> list[Dirty]:
    return [
        _text(
            "rows.jsonl",
            '{"id": 1}\n{"id": 2, "price": 0.30000000000000004}\n',
            "line 2: 0.30000000000000004 in column 'price' does not fit DECIMAL(9,2) without loss; round it to"
            " 2 digits",
        ),
        _text(
            "cut.jsonl",
            '{"id": 1}\n{"id": 2',
            "line 2: it is not valid JSON: Expecting ',' delimiter at column 9; write one object on each line",
        ),
        _text(
            "deep.jsonl",
            '{"id": 1, "name": ' + "[" * 100_000 + "\n",
            "line 1: it is not valid JSON: it is nested too deeply; write one object on each line",
        ),
        Dirty("nanoseconds.parquet", _parquet(id=pa.array([1]), at=pa.array([1_000], pa.timestamp("ns"))), rows=1),
        Dirty(
            "finer.parquet",
            _parquet(id=pa.array([1]), at=pa.array([1], pa.timestamp("ns"))),
            "row 1: Timestamp('1970-01-01 00:00:00.000000001') in column 'at' does not fit TIMESTAMP without"
            " loss; a TIMESTAMP has microseconds: round it",
        ),
        Dirty(
            "no.parquet",
            b"id,name\n1,x\n",
            "this cannot be read as parquet: Parquet magic bytes not found in footer. Either the file is"
            " corrupted or this is not a parquet file.",
        ),
    ]


CORPUS: Sequence[Dirty] = [
    *_dialects(),
    *_headers(),
    *_empties(),
    *_encodings(),
    *_values(),
    *_numbers(),
    *_renames(),
    *_times(),
    *_compressed(),
    *_others(),
]


def endless(line: bytes) -> tuple[Callable[[int], bytes], list[int]]:
    """Return what reads a gigabyte of one repeated text, a block at a time, and how much was read."""
    done = [0]

    def read(size: int) -> bytes:
        block = (line * (size // len(line) + 1))[: min(size, 2**30 - done[0])]
        done[0] += len(block)
        return block

    return read, done
