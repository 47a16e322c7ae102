"""Numbers, truths and times of files: stored as they are written, or refused by line and column."""

from __future__ import annotations

import datetime as dt
import io
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup_cli.files.arrow_rows import parquet_pieces
from psoup_cli.files.header import FieldNames, HeaderRules
from psoup_cli.files.json_values import json_value
from psoup_cli.files.options import FileOptions
from psoup_cli.files.row_files import open_rows
from psoup_cli.parameters import read_parameters
from psoup_client import Client, ColumnInfo, InvalidData, StreamInfo
from psoup_client.columns.casts import TimeOptions
from psoup_client.columns.convert import to_table
from psoup_testing.services.command import Psoup

COLUMNS = (
    ColumnInfo("id", "BIGINT", pa.int64(), True),
    ColumnInfo("ok", "BOOLEAN", pa.bool_(), True),
    ColumnInfo("x", "DOUBLE", pa.float64(), True),
    ColumnInfo("price", "DECIMAL(9,2)", pa.decimal128(9, 2), True),
    ColumnInfo("name", "TEXT", pa.string(), True),
    ColumnInfo("at", "TIMESTAMP", pa.timestamp("us", tz="UTC"), True),
)
_BEGIN = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
STREAM = StreamInfo("s", "1", "", COLUMNS, "", dt.timedelta(0), *(None,) * 3, _BEGIN, None, None, *(0,) * 9)


def rows(path: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a file with this text; the first that is refused raises."""
    path.write_text(text)
    found, given = list[dict[str, Any]](), FileOptions(**options)
    for piece in open_rows(str(path), path.suffix[1:].removesuffix("l"), STREAM, given):
        piece.check()
        try:
            found += to_table(piece.rows, STREAM, given.times).to_pylist()
        except InvalidData as problem:
            raise InvalidData(f"{piece.place(int(problem.facts['row']))}: {problem.message}") from None
    return found


def refused(path: Path, text: str, **options: Any) -> str:
    with pytest.raises(InvalidData) as caught:
        rows(path, text, **options)
    return caught.value.message


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, " 1e309 "])
def test_a_number_that_no_double_holds(tmp_path: Path, number: str) -> None:
    said = refused(tmp_path / "a.csv", f"id,x\n1,2.5\n2,{number}\n")
    assert said.startswith(f"line 3, column 'x', '{number[:100]}")
    assert said.endswith("it is too large for a DOUBLE; write inf if it stands for infinity")
    said = refused(tmp_path / "a.jsonl", f'{{"x": 2.5}}\n{{"x": {number}}}\n')
    assert said.startswith("line 2")
    assert "too large for a DOUBLE" in said or "a DOUBLE holds whole numbers up to 2^53" in said


def test_infinity_in_letters_is_infinity(tmp_path: Path) -> None:
    csv = rows(tmp_path / "a.csv", "x\ninf\n-Infinity\n1e-400\n1.5\n")
    assert [row["x"] for row in csv] == [float("inf"), float("-inf"), 0.0, 1.5]
    lines = rows(tmp_path / "a.jsonl", '{"x": Infinity}\n{"x": -Infinity}\n')
    assert [row["x"] for row in lines] == [float("inf"), float("-inf")]


@pytest.mark.parametrize("number", ["12345678.9", "1e8", "1.005"])
def test_a_decimal_of_too_many_digits(tmp_path: Path, number: str) -> None:
    """Arrow's reader takes the first two without a word, and the service refuses the batch without a line."""
    said = refused(tmp_path / "a.csv", f"id,price\n1,1.5\n2,{number}\n")
    assert said == f"line 3, column 'price', '{number}': it has more digits than DECIMAL(9,2) holds; round it"
    said = refused(tmp_path / "a.jsonl", f'{{"price": 1.5}}\n{{"price": {number}}}\n')
    assert said.startswith("line 2: row 1: ")
    assert "in column 'price' does not fit DECIMAL(9,2) without loss; " in said


def test_numbers_of_json_keep_their_digits(tmp_path: Path) -> None:
    lines = [
        '{"id": 9007199254740993, "price": 0.10, "x": 0.1}',
        '{"id": 9007199254740993.0, "price": 9999999.99, "x": 1}',
        '{"id": 9.007199254740993e15, "price": 7, "x": 1e-400}',
    ]
    found = rows(tmp_path / "a.jsonl", "\n".join(lines))
    assert [row["id"] for row in found] == [2**53 + 1] * 3
    assert [row["price"] for row in found] == [Decimal("0.10"), Decimal("9999999.99"), Decimal("7.00")]
    assert [row["x"] for row in found] == [0.1, 1.0, 0.0]
    for number in ("9007199254740992.5", "1.00000000000000000001", "0.1"):
        assert f"{number} in column 'id' does not fit BIGINT" in refused(tmp_path / "a.jsonl", f'{{"id": {number}}}')
    assert "round it to 2 digits" in refused(tmp_path / "a.jsonl", '{"price": 1.00000000000000000001}')
    assert "more digits than any column holds" in refused(tmp_path / "a.jsonl", f'{{"id": {"9" * 5_000}}}')


def test_times_of_json_keep_their_digits(tmp_path: Path) -> None:
    times = TimeOptions("s")
    found = rows(tmp_path / "a.jsonl", '{"at": 1782824400.123456}\n{"at": 1782824400}\n{"at": null}\n', times=times)
    whole = dt.datetime(2026, 6, 30, 13, tzinfo=dt.UTC)
    assert [row["at"] for row in found] == [whole + dt.timedelta(microseconds=123_456), whole, None]
    for number in ("1782824400.1234561", "1e300"):
        assert "in column 'at'" in refused(tmp_path / "a.jsonl", f'{{"at": {number}}}', times=times)


def test_a_name_that_comes_twice_in_json(tmp_path: Path) -> None:
    said = refused(tmp_path / "a.jsonl", '{"id": 1}\n{"id": 1, "id": 2}\n')
    assert said == "line 2: the name 'id' comes twice in one object; give it once"
    assert "column 'id' comes twice" in refused(tmp_path / "a.jsonl", '{"id": 1, "ID": 2}\n')
    (tmp_path / "p.jsonl").write_text('{"a": 1, "a": 2}\n')
    with pytest.raises(ValueError, match="line 1: the name 'a' comes twice in one object"):
        read_parameters(str(tmp_path / "p.jsonl"))


def test_names_of_json_that_are_left_out(tmp_path: Path) -> None:
    line = '{"id": 1, "nothing": 1e999, "Name": "a"}\n'
    assert rows(tmp_path / "a.jsonl", line * 2, ignore_extra=True) == [{"id": 1, "name": "a"}] * 2
    names = FieldNames(STREAM, HeaderRules(ignore_extra=True))
    for number in range(1_000):
        assert names.of_row({"id": 1, f"n{number}": 2}) == {"id": 1}
    assert len(names._shapes) <= 256


def test_numbers_of_parameters_are_floats_where_nothing_is_lost() -> None:
    values = json_value("[0.1, 1.50, 1e300, 12345678901.1234567, 7]", shortest=True)
    assert values == [0.1, 1.5, 1e300, Decimal("12345678901.1234567"), 7]
    assert [type(value) for value in values] == [float, float, float, Decimal, int]
    with pytest.raises(InvalidData, match=r"1E\+999 is too large for a DOUBLE"):
        json_value("[1e999]", shortest=True)


@pytest.mark.parametrize(
    ("truth", "words"),
    [(True, "true True TRUE tRuE t T yes Yes YES y Y 1"), (False, "false False FALSE f F no No NO n N 0")],
)
def test_truths_of_a_csv_are_those_of_cast(tmp_path: Path, truth: bool, words: str) -> None:
    found = rows(tmp_path / "a.csv", "ok\n" + "\n".join(words.split()) + "\n")
    assert {row["ok"] for row in found} == {truth}


def test_a_truth_that_is_none_says_what_is_valid(tmp_path: Path) -> None:
    said = refused(tmp_path / "a.csv", "id,ok\n1,yes\n2,maybe\n")
    assert said == (
        "line 3, column 'ok', 'maybe': it is not a valid BOOLEAN; write true or false, t or f, yes or no, y or n, 1 or"
        " 0; if that stands for NULL, say --null maybe"
    )


# Times of INT96, as Spark writes them --------------------------------------------------------------------


def int96(times: pa.Array) -> BinaryIO:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": range(len(times)), "at": times}), file, use_deprecated_int96_timestamps=True)
    file.seek(0)
    return file


def pushed(file: BinaryIO) -> list[Any]:
    pieces = parquet_pieces(file, FieldNames(STREAM, HeaderRules()), 0)
    return [value for piece in pieces for value in to_table(piece.table, STREAM)["at"].to_pylist()]


def test_far_days_of_int96(tmp_path: Path) -> None:
    days = [dt.datetime(year, 12, 31, 23, 59, 59, 999_999) for year in (1, 1582, 1677, 2026, 2262, 9999)]
    times = pa.array([*days, None], pa.timestamp("us"))
    assert pushed(int96(times)) == [*days, None]
    (tmp_path / "p.parquet").write_bytes(int96(times).read())
    assert read_parameters(str(tmp_path / "p.parquet")).rows["at"].to_pylist() == times.to_pylist()


def test_nanoseconds_of_int96_are_refused() -> None:
    """The reader would cut them: it is asked for microseconds."""
    times = pa.array([1_000, None, -1_001], pa.timestamp("ns"))
    with pytest.raises(InvalidData, match="row 3: the time in column 'at' has nanoseconds, and a TIMESTAMP micro"):
        pushed(int96(times))


def test_a_year_of_int96_beyond_those_of_a_timestamp_is_refused() -> None:
    """The Julian day of a file may be any of 32 bits, and microseconds of 64 bits end in the year 294247."""
    raw = int96(pa.array([dt.datetime(2026, 7, 1, 12)], pa.timestamp("us"))).read()
    day = struct.pack("<qI", 43_200 * 10**9, 2_461_223)
    assert raw.count(day) == 1
    with pytest.raises(InvalidData, match="row 1: the time in column 'at' is of a year that a TIMESTAMP cannot hold"):
        pushed(io.BytesIO(raw.replace(day, struct.pack("<qI", 43_200 * 10**9, 2**31 - 1))))


def test_a_push_of_int96(psoup: Psoup, client: Client, make_stream: Callable[[str], str], tmp_path: Path) -> None:
    """The command reads a file on disk, by several readers at once, in more than one batch."""
    name, days = make_stream("(id BIGINT, at TIMESTAMP)"), [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)]
    (tmp_path / "a.parquet").write_bytes(int96(pa.array(days * 40_000, pa.timestamp("us"))).read())
    assert psoup("push", name, "a.parquet").err.startswith("80,000 rows taken in 2 batches")
    answer = client.ask(f"SELECT id, at FROM {name} BEGIN (NOW - 2 ROWS)").rows()
    assert answer == [(79_998, days[0].replace(tzinfo=dt.UTC)), (79_999, days[1].replace(tzinfo=dt.UTC))]
