"""Files as they come: fifty that are wrong in some way, or only look so, each with what `psoup push` says of it.

The stream has the columns of `COLUMNS`.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Sequence

import pyarrow as pa

from psoup_testing.services.dirty_file import Dirty, arrow_bytes, gzip_bytes, parquet_bytes, text_file
from psoup_testing.services.dirty_numbers import other_forms

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


def _dialects() -> list[Dirty]:
    return [
        text_file("semicolons.csv", "id;name;price\n1;a,b;1.5\n2;c;2\n", rows=2),
        text_file("tabs.tsv", "id\tname\n1\ta,b\n2\tc;d\n", rows=2),
        text_file("bars.csv", "id|name\n1|a\n", rows=1),
        text_file("apostrophes.csv", "id,name\n1,'a,b'\n2,'it''s'\n", rows=2),
        text_file("odd.csv", "id^name\n1^~a^b~\n", "", 1, delimiter="^", quote="~"),
        text_file("no_quotes.csv", 'id,name\n1,"a\n2,b\n', "", 2, quote="none"),
        text_file("excel.csv", "sep=;\r\nid;name\r\n1;x\r\n", rows=1),
        text_file("macintosh.csv", "id,name\r1,x\r2,y\r", rows=2),
        text_file("blank_lines.csv", "\n\nid,name\n\n1,x\n\n\n2,y\n\n", rows=2),
        text_file(
            "wrong_delimiter.csv",
            "id;name\n1;x\n",
            "line 1: 'id;name' names none of the columns of stream 's', which are id, name, price, unit price,"
            " day, at, ok; if ';' separates the fields, say --delimiter ';'",
            0,
            delimiter=",",
        ),
        text_file(
            "comma.csv",
            "id;price\n1;2,50\n",
            "line 2, column 'price', '2,50': it is not a valid DECIMAL(9,2); say --decimal ,",
        ),
    ]


def _headers() -> list[Dirty]:
    return [
        text_file("shouting.csv", " ID ,NAME, Unit-Price\n1,x,2.5\n", rows=1),
        text_file("no_header.csv", "1,x,1.5,2,2026-07-01,2026-07-01,true\n", rows=1, no_header=True),
        text_file(
            "headless.csv",
            "1,x\n2,y\n",
            "line 1: '1, x' names none of the columns of stream 's', which are id, name, price, unit price,"
            " day, at, ok; if the first line is a row, say --no-header; if it has other names,"
            " --rename 'NAME=COLUMN' for each name; if the names come later, remove the lines before them",
        ),
        text_file(
            "short.csv",
            "1,x\n",
            "line 1: it has 2 values, and stream 's' 7 columns; without a header they have to be as many",
            0,
            no_header=True,
        ),
        text_file(
            "twice.csv",
            "id,name,Name\n1,x,y\n",
            "line 1: fields 2 and 3, 'name' and 'Name', are both column 'name'; give one another column:"
            " --rename Name=COLUMN",
        ),
        text_file(
            "nameless.csv",
            "id,name,\n1,x,\n",
            "line 1: field 3 has no name; name it, or leave it out with --ignore-extra",
        ),
        text_file("nameless_too.csv", "id,name,\n1,x,\n", "", 1, ignore_extra=True),
        text_file(
            "extra.csv",
            "id,nmae\n1,x\n",
            "line 1: stream 's' has no column 'nmae'; did you mean 'name'? its columns: id, name, price, unit"
            " price, day, at, ok; --ignore-extra leaves others out; --rename nmae=name gives it a column",
        ),
        text_file("extra_too.csv", "id,other,other\n1,x,\xff\n", "", 1, ignore_extra=True, written="latin-1"),
    ]


def _empties() -> list[Dirty]:
    return [
        text_file("empty.csv", "", "the file is empty: its first line has to name the columns, or say --no-header"),
        text_file(
            "blank.csv", "\n\r\n  \n", "the file is empty: its first line has to name the columns, or say --no-header"
        ),
        text_file("only_header.csv", "id,name\n"),
    ]


def _encodings() -> list[Dirty]:
    return [
        text_file("mark.csv", "\ufeffid,name\n1,x\n", rows=1),
        text_file("utf16.csv", "id,name\n1,Zürich\n", rows=1, written="utf-16"),
        text_file(
            "latin.csv",
            "id,name\n1,x\n2,Zürich\n",
            "line 3, column 'name', 'Z\\xfcrich': byte fc is not utf-8; say what the file is in, for"
            " instance --encoding cp1252",
            written="latin-1",
        ),
        text_file("latin_too.csv", "id,name\n1,Zürich\n", "", 1, encoding="latin-1", written="latin-1"),
        text_file(
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
        text_file(
            "ragged.csv",
            "id,name\n1,x\n2\n",
            "line 3: it has 1 value, and the first line 2 names; they are separated by commas;"
            " --delimiter names another character",
        ),
        text_file(
            "wide.csv",
            "id,name\n1,x,y,z\n",
            "line 2: it has 4 values, and the first line 2 names; they are separated by commas; put quotes"
            " around a value that contains one",
        ),
        text_file(
            "null_text.csv",
            "id,price\n1,NA\n",
            "line 2, column 'price', 'NA': it is not a valid DECIMAL(9,2); if that stands for NULL, say --null NA",
        ),
        text_file("null_texts.csv", "id,price,name\n1,NA,\n2,-,\n", "", 2, null=["NA", "-"]),
        text_file("plus.csv", "id\n+1\n", "line 2, column 'id', '+1': it is not a valid BIGINT; leave its sign out"),
        text_file(
            "large.csv",
            "id\n9223372036854775808\n",
            "line 2, column 'id', '9223372036854775808': it is not a valid BIGINT; it is out of the range of 64 bits",
        ),
        text_file(
            "cents.csv",
            "id,price\n1,1.005\n",
            "line 2, column 'price', '1.005': it has more digits than DECIMAL(9,2) holds; round it",
        ),
    ]


def _times() -> list[Dirty]:
    return [
        text_file(
            "german.csv",
            "id,day\n1,30.06.2026\n",
            "line 2, column 'day', '30.06.2026': it is not a valid DATE; say psoup push --date-format"
            " '%d.%m.%Y', or write it as 2013-07-04",
        ),
        text_file(
            "german_too.csv",
            "id,day,at\n1,30.06.2026,1.7.26 12:00\n",
            "",
            1,
            date_format=["%d.%m.%Y", "%d.%m.%y %H:%M"],
        ),
        text_file(
            "february.csv",
            "id,day\n1,30.02.2026\n",
            "line 2: '30.02.2026' in column 'day' is not a valid DATE; write it as 2013-07-04",
            0,
            date_format=["%d.%m.%Y"],
        ),
        text_file("epoch.csv", "id,at\n1,1782907200000\n", "", 1, time_unit="ms"),
        text_file(
            "epoch_without.csv",
            "id,at\n1,1782907200000\n",
            "line 2: '1782907200000' in column 'at' is not a valid TIMESTAMP; if it counts from 1970, say"
            ' --time-unit ms, or time_unit="ms" in Python',
        ),
        text_file("not_null.csv", "id,name\n,x\n", "line 2: 'id' is NULL, but the stream says NOT NULL"),
        text_file(
            "open.csv",
            'id,name\n1,"x\n2,y\n',
            "line 2: the quote that opens here is not closed before the end of the file; close it, double a"
            " quote that is text, or say what quotes are with --quote",
        ),
    ]


def _compressed() -> list[Dirty]:
    rows = b"id,name\n1,x\n2,y\n"
    return [
        Dirty("rows.csv.gz", gzip_bytes(rows), rows=2),
        Dirty("members.csv.gz", gzip_bytes(rows) + gzip_bytes(b"3,z\n"), rows=3),
        Dirty("rows.csv.zst", arrow_bytes("zstd", rows), rows=2),
        Dirty("rows.csv.lz4", arrow_bytes("lz4", rows), rows=2),
        Dirty("misnamed.csv", bz2.compress(rows), rows=2),
        Dirty("cut.csv.gz", gzip_bytes(rows)[:-9], "it cannot be decompressed as gzip: Truncated compressed stream"),
        Dirty(
            "crushed.csv.gz",
            gzip_bytes(rows)[:10] + b"\xff" * 9,
            "it cannot be decompressed as gzip: zlib inflate failed: invalid block type",
        ),
    ]


def _others() -> list[Dirty]:
    return [
        text_file(
            "rows.jsonl",
            '{"id": 1}\n{"id": 2, "price": 0.30000000000000004}\n',
            "line 2: 0.30000000000000004 in column 'price' does not fit DECIMAL(9,2) without loss; round it to"
            " 2 digits",
        ),
        text_file(
            "cut.jsonl",
            '{"id": 1}\n{"id": 2',
            "line 2: it is not valid JSON: Expecting ',' delimiter at column 9; write one object on each line",
        ),
        text_file(
            "deep.jsonl",
            '{"id": 1, "name": ' + "[" * 100_000 + "\n",
            "line 1: it is not valid JSON: it is nested too deeply; write one object on each line",
        ),
        Dirty("nanoseconds.parquet", parquet_bytes(id=pa.array([1]), at=pa.array([1_000], pa.timestamp("ns"))), rows=1),
        Dirty(
            "finer.parquet",
            parquet_bytes(id=pa.array([1]), at=pa.array([1], pa.timestamp("ns"))),
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
    *other_forms(),
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
