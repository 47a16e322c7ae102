"""Dirty files: what is taken of each, and the exact words for what is not. Hostile ones: memory stays bounded."""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import gzip
import itertools
import random
import re
import shlex
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from psoup_cli.file_flags import file_options
from psoup_cli.files.csv_rows import CsvColumns, csv_pieces
from psoup_cli.files.header import FieldNames, HeaderRules
from psoup_cli.files.json_rows import json_pieces
from psoup_cli.files.options import FileOptions
from psoup_cli.files.row_files import format_of
from psoup_cli.files.source import FileSource, Text
from psoup_cli.row_upload import PushedFiles, Rejects, RowSpeed
from psoup_client import Client, InvalidData, PushResult, StreamInfo
from psoup_client.columns.convert import to_table
from psoup_client.schema import ColumnInfo
from psoup_proto.csv_rows import records
from psoup_proto.csv_rows import values as csv_values
from psoup_proto.csv_rows.field import CsvField
from psoup_testing.services.command import Psoup
from psoup_testing.services.dirty_file import Dirty
from psoup_testing.services.dirty_files import COLUMNS, CORPUS, endless
from psoup_testing.suite.sweeps import swept

_BEGIN = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
_TYPES: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "TEXT": pa.string(),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "BOOLEAN": pa.bool_(),
}
INFO = StreamInfo(
    "s",
    "1",
    "",
    tuple(ColumnInfo(name, kind, _TYPES[kind], name != "id") for name, kind in COLUMNS.items()),
    "",
    *(dt.timedelta(0), None, None, None, _BEGIN, None, None),
    *itertools.repeat(0, 9),
)


def checked(dirty: Dirty, path: Path, rejects: Rejects | None) -> tuple[int, str]:
    """Read a file as a push does; returns its rows, and the error without what became of other rows."""
    path.write_bytes(dirty.content)
    options = file_options(**dirty.options)
    source, rows = PushedFiles([(path.name, format_of(path.name, None))], options, rejects), 0
    try:
        for table in source.tables(INFO, PushResult):
            rows += len(to_table(table, INFO, options.times))
    except InvalidData as problem:
        return rows, source.named(problem, "").message.removeprefix(f"{path.name}: ").strip()
    return rows, ""


def test_the_corpus_has_fifty_files_and_more() -> None:
    assert len({dirty.name for dirty in CORPUS}) == len(CORPUS) >= 50


@pytest.mark.parametrize("dirty", swept(CORPUS, fast=range(0, 200, 2)), ids=lambda dirty: dirty.name)
def test_a_dirty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dirty: Dirty) -> None:
    """Without rejects the first row that does not fit is an error; with them it is named in the same words."""
    monkeypatch.chdir(tmp_path)
    rows, said = checked(dirty, tmp_path / dirty.name, None)
    assert said == dirty.said
    rejects = Rejects("rejected", [])
    kept, again = checked(dirty, tmp_path / dirty.name, rejects)
    rejects.close()
    with open("rejected", newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == rejects.count
    if rejects.count:
        assert rejects.first[0] == f"{dirty.name}: {said}"
        assert written[0]["file"] == dirty.name
        assert f"{written[0]['line']}" in said.split(":")[0]
        assert said.endswith(written[0]["reason"])
    else:
        assert (kept, again) == (rows, said)
    assert rows <= kept
    if not dirty.said:
        assert rows == dirty.rows


_OPTION = re.compile(r"--(?!ignore|no-header|rename 'NAME)[a-z-]+ ('[^']+'|\"[^\"]+\"|[^\s;]+(?<!,)|,)")
_REPEATED = {"--null", "--rename", "--date-format"}


@pytest.mark.parametrize("dirty", [d for d in CORPUS if _OPTION.search(d.said)], ids=lambda dirty: dirty.name)
def test_the_option_that_a_refusal_names_takes_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dirty: Dirty
) -> None:
    """Each way that the refusal names is tried alone; a change of the file that it names is made first."""
    monkeypatch.chdir(tmp_path)
    if "write it as --decimal" in dirty.said or "COLUMN" in dirty.said or "another character" in dirty.said:
        return
    content = dirty.content.replace(" €".encode(), b"") if "leave '€' out" in dirty.said else dirty.content
    for way in dirty.said.split(" or "):
        given = dict[str, Any](dirty.options)
        for option in _OPTION.finditer(way):
            name, value = shlex.split(option[0])
            key = name[2:].replace("-", "_")
            given[key] = [*given.get(key, []), value] if name in _REPEATED else value
        if given != dirty.options:
            rows, said = checked(
                dataclasses.replace(dirty, content=content, options=given), tmp_path / dirty.name, None
            )
            assert (said, rows > 0) == ("", True), given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--delimiter", "ab"], "--delimiter 'ab': give one ASCII character"),
        (["--quote", ",", "--delimiter", ","], "--quote and --delimiter are both ','"),
        (["--encoding", "klingon"], "--encoding 'klingon' is not a known encoding; use utf-8"),
        (["--encoding", "zlib"], "--encoding 'zlib' is not a known encoding"),
        (["--decimal", ";"], "--decimal ';': give . or ,"),
        (["--thousands", "x"], "--thousands 'x': give one of , . ' _ or a blank in quotes"),
        (["--decimal", ",", "--thousands", ","], "--decimal and --thousands are both ','; give two characters"),
        (["--rename", "amount"], "--rename 'amount': give the file's name and the column"),
        (["--rename", "a=b", "--rename", "a=c"], "--rename names the field 'a' twice"),
        (["--rename", "a=b", "--rename", "c=b"], "--rename names the column 'b' twice"),
        (["--rename", "a=b", "--no-header"], "--rename needs names in the file"),
        (["--time-unit", "hour"], "--time-unit 'hour': give one of s, ms, us, ns"),
        (["--date-format", "%H:%M"], "--date-format '%H:%M' does not say year, month and day"),
        (["*.nothing"], "*.nothing: no file fits this pattern"),
        (["-", "-"], "- is standard input, which can be read once"),
    ],
)
def test_an_option_that_says_nothing_is_refused(psoup: Psoup, tmp_path: Path, given: list[str], said: str) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    ran = psoup("push", "s", "a.csv", "--format", "csv", *given)
    assert ran.code == 2
    assert said in " ".join(ran.err.replace("│", " ").split())


@pytest.mark.parametrize(("kind", "line"), [("csv", b"a"), ("csv", b'a,"'), ("csv", b'"a\n'), ("json", b"[")])
def test_a_line_without_an_end_is_refused(kind: str, line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte of one line is refused after some 32 MiB of it."""
    if line != b"a":  # the other ones need not be as long
        monkeypatch.setattr(records, "_MOST_BYTES", 2**20)
        monkeypatch.setattr(records, "PIECE_BYTES", 2**18)
    reader, read = endless(line)
    names, options = FieldNames(INFO, HeaderRules()), FileOptions(delimiter=",", quote='"')
    pieces: Any = csv_pieces(reader, CsvColumns(), options) if kind == "csv" else json_pieces(reader, names)
    with pytest.raises(InvalidData, match=r"^line 1: (it has more than [\d,]+ bytes;|the quote that opens here)"):
        list(pieces)
    assert read[0] <= records._MOST_BYTES + 2 * records.PIECE_BYTES


@pytest.mark.parametrize(("name", "begin"), [("big.csv", b"id,name\n1,"), ("big.jsonl", b'{"id": 1, "name": "')])
def test_a_gigabyte_of_one_line_in_a_file_takes_little_memory(tmp_path: Path, name: str, begin: bytes) -> None:
    """The file is a hole on the disk; what Python and Arrow hold of it is a few times the longest line."""
    path = tmp_path / name
    with open(path, "wb") as file:
        file.write(begin)
        file.truncate(2**30)
    source, arrow = PushedFiles([(str(path), format_of(name, None))], file_options()), pa.default_memory_pool()
    before = arrow.bytes_allocated()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidData, match=r"^line \d: it has more than 33,554,432 bytes; a line has to end with a"):
            list(source.tables(INFO, PushResult))
        assert tracemalloc.get_traced_memory()[1] < 4 * records._MOST_BYTES
    finally:
        tracemalloc.stop()
    assert arrow.bytes_allocated() - before < records._MOST_BYTES


def test_a_bomb_is_read_a_block_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What expands a thousandfold comes in blocks; one line of it is refused like any other."""
    monkeypatch.setattr(records, "_MOST_BYTES", 2**20)
    monkeypatch.setattr(records, "PIECE_BYTES", 2**18)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"id\n" + b"1\n" * 2**21))
    assert path.stat().st_size * 500 < 2**22
    with open(path, "rb") as file:
        text, rows = Text(FileSource(file), None), 0
        for piece in csv_pieces(text.read, CsvColumns(), FileOptions()):
            assert len(piece.records.data) <= 2 * records.PIECE_BYTES
            rows += len(piece.table)
    assert rows == 2**21
    path.write_bytes(gzip.compress(b"id,name\n1," + b"\0" * 2**22))
    with open(path, "rb") as file, pytest.raises(InvalidData, match="line 2: it has more than 1,048,576 bytes"):
        list(csv_pieces(Text(FileSource(file), None).read, CsvColumns(), FileOptions()))


@pytest.fixture
def files(tmp_path: Path, stream: str) -> list[str]:
    """Three files of a stream (id, name, price, at): two good rows, one bad among three, none good."""
    (tmp_path / "a1.csv").write_text("id,name,price,at\n1,a,1.5,2026-07-01\n2,b,,2026-07-02\n")
    (tmp_path / "a2.csv").write_text('id,name,at\n3,c,2026-07-03\nx,"d\nf",2026-07-04\n5,g,\n6,h,2026-07-05\n')
    (tmp_path / "b.jsonl").write_text('{"id": 7}\n[8]\n{"id": 9, "at": "soon"}\n{"id": 10, "nmae": 1}\n')
    return ["a1.csv", "a2.csv", "b.jsonl"]


REJECTED = """\
file,line,reason,row
a2.csv,3,"column 'id', 'x': it is not a valid BIGINT; if that stands for NULL, say --null x","x,""d
f"",2026-07-04"
a2.csv,5,"'at' is NULL, but the stream says NOT NULL","5,g,"
b.jsonl,1,"'at' is NULL, but the stream says NOT NULL","{""id"": 7}"
b.jsonl,2,it is an array; write one object on each line,[8]
b.jsonl,3,'soon' in column 'at' is not a valid TIMESTAMP; write it as 2013-07-04T12:00:00Z,"{""id"": 9, ""at"": ""soon""}"
"""  # noqa: E501


def test_rows_that_do_not_fit_are_written_down(
    psoup: Psoup, client: Client, stream: str, files: list[str], tmp_path: Path
) -> None:
    expected = REJECTED + (
        f"b.jsonl,4,\"stream '{stream}' has no column 'nmae'; did you mean 'name'? its columns: id, name, price, at;"
        ' --ignore-extra leaves others out; --rename nmae=name gives it a column","{""id"": 10, ""nmae"": 1}"\n'
    )
    ran = psoup("push", stream, *files, "--dry-run")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.splitlines()[0].startswith("a2.csv: line 3, column 'id', 'x': it is not a valid BIGINT")
    assert ran.err.splitlines()[-1] == "4 rows would be sent; refused: 6 rejected; none was."
    assert client.describe(stream).next_tuple_id == 0
    named = ("push", stream, "a?.csv", "b.jsonl", "--rejects", "r.csv", "--whole", "--id", "monday")
    for said in (
        "4 rows taken in 1 batch; refused: 6 rejected (r.csv); watermark 2026-07-05T00:00:00Z.",
        "Nothing was",
    ):
        (tmp_path / "r.csv").unlink(missing_ok=True)
        ran = psoup(*named)
        assert (ran.code, ran.out) == (6, "")
        assert ran.err.startswith(said), "a push that is sent again says the same of its rejects"
        assert (tmp_path / "r.csv").read_text() == expected
    answer = client.ask(f"SELECT id, name FROM {stream}").to_arrow().to_pydict()
    assert answer == {"id": [1, 2, 3, 6], "name": ["a", "b", "c", "h"]}


def test_the_exit_code_says_how_much_was_taken(psoup: Psoup, stream: str, files: list[str]) -> None:
    assert psoup("push", stream, "a1.csv").code == 0
    assert psoup("push", stream, "a2.csv", "--rejects", "r.csv").code == 6
    ran = psoup("push", stream, "b.jsonl", "--rejects", "r.csv")
    assert (ran.code, ran.err) == (5, "psoup: b.jsonl: 4 rows are rejected, and none was taken\n")
    ran = psoup("push", stream, "b.jsonl", "--dry-run", "--json")
    assert (ran.code, ran.rows[0]["rejected"], ran.rows[0]["dry_run"]) == (5, 4, True)
    assert psoup("push", stream, "a2.csv").code == 1
    assert psoup("push", stream, "a2.csv", "--rejects", "r.csv", "--json").rows[0]["late"] == 1
    ran = psoup("push", stream, "a1.csv", "a2.csv", "--rejects", "./a2.csv")
    assert (ran.code, "--rejects ./a2.csv is the file that is read" in ran.err) == (1, True)
    assert Path("a2.csv").read_text().startswith("id,name,at\n3")


def test_a_row_refused_by_the_service_is_named_among_several_files(psoup: Psoup, stream: str, files: list[str]) -> None:
    ran = psoup("push", stream, "a1.csv", "a2.csv")
    assert (ran.code, ran.err.splitlines()[-1]) == (1, "2 rows before it were taken.")
    assert ran.err.startswith("psoup: a2.csv: line 3, column 'id', 'x'")
    ran = psoup("push", stream, "-", "--format", "csv", "--rejects", "r.csv", stdin=b"id,at\n1,2026-07-09\n2\n")
    assert (ran.code, Path("r.csv").read_text().splitlines()[1].split(",")[:2]) == (6, ["standard input", "3"])


def test_a_bar_tells_rows_and_their_speed() -> None:
    assert RowSpeed().render(SimpleNamespace(fields={"rows": 1_000}, elapsed=2.0)).plain == "1,000 rows, 500 rows/s"


TOKENS = [
    b",",
    b";",
    b'"',
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"NA",
    b"0x1F",
    b"\xff",
    b"\xef\xbb\xbf",
    b"2026-02-30",
    b"{",
    b" ",
]


@pytest.mark.long
def test_a_damaged_file_is_read_or_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are put in, taken out and changed: without rejects no more rows are taken than with them."""
    drawn = random.Random(7)
    monkeypatch.chdir(tmp_path)
    for _ in range(150):
        dirty = drawn.choice(CORPUS)
        content = bytearray(dirty.content)
        for _ in range(drawn.randrange(4)):
            at = drawn.randrange(len(content) + 1)
            content[at : at + drawn.randrange(3)] = drawn.choice([*TOKENS, b"", bytes([drawn.randrange(256)])])
        monkeypatch.setattr(records, "PIECE_BYTES", drawn.choice([7, 50, 2**23]))
        damaged = Dirty(dirty.name, bytes(content), options=dirty.options)
        rows, said = checked(damaged, tmp_path / dirty.name, None)
        rejects = Rejects(None, [])
        kept, again = checked(damaged, tmp_path / dirty.name, rejects)
        assert rows <= kept, damaged
        assert (kept, again, rejects.count) == (rows, "", 0) if not said else again or rejects.count, damaged


def test_places_of_rows_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked, or is in a stage, holds no memory."""
    monkeypatch.setattr(records, "PIECE_BYTES", 100)
    (tmp_path / "long.csv").write_text("id\n" + "1\n" * 5_000)
    source = PushedFiles([(str(tmp_path / "long.csv"), "csv")], file_options())
    for _ in source.tables(INFO, lambda: PushResult(accepted=source.rows)):
        assert len(source._sent) <= 2
    assert source.rows == 5_000


def test_what_is_not_tried_could_not_be_read() -> None:
    """No text that Arrow reads as a number or a day looks like none."""
    drawn = random.Random(3)
    for arrow, letters in ((pa.int64(), "019-+xXaF ."), (pa.date32(), "0129-/ T")):
        own, day = CsvField("a", arrow, "T"), "2026-01-21" if arrow == pa.date32() else "0x1F"
        for _ in range(500):
            text = list(day)
            for _ in range(drawn.randrange(1, 4)):
                text.insert(drawn.randrange(len(text) + 1), drawn.choice(letters))
                del text[drawn.randrange(len(text))]
            values = pa.array(["".join(text).encode()])
            if csv_values._hopeless(values, own):
                with pytest.raises(pa.ArrowInvalid):
                    csv_values.converted(values, own)
