"""Values that Arrow would change on their way into a column: taken as they are, or refused with the way out."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from psoup.errors import InvalidInput
from psoup.local import LocalPSoup
from psoup_client import ColumnInfo, InvalidData, StreamInfo
from psoup_client.bulk import parameters_of
from psoup_client.columns.convert import to_table

COLUMNS = {
    "id": ColumnInfo("id", "BIGINT", pa.int64(), True),
    "ok": ColumnInfo("ok", "BOOLEAN", pa.bool_(), True),
    "x": ColumnInfo("x", "DOUBLE", pa.float64(), True),
    "price": ColumnInfo("price", "DECIMAL(9,2)", pa.decimal128(9, 2), True),
    "name": ColumnInfo("name", "TEXT", pa.string(), True),
    "at": ColumnInfo("at", "TIMESTAMP", pa.timestamp("us", tz="UTC"), True),
    "day": ColumnInfo("day", "DATE", pa.date32(), True),
}
_BEGIN = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
STREAM = StreamInfo(
    "s", "1", "", tuple(COLUMNS.values()), "", dt.timedelta(0), *(None,) * 3, _BEGIN, None, None, *(0,) * 9
)
DAY, NOON = dt.date(2026, 7, 1), dt.datetime(2026, 7, 2, 12, 34, 56)
MIDNIGHT = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
FINE = pd.Timestamp("2026-07-01 12:00:00.123456789")


def taken(name: str, values: Any) -> list[Any]:
    return list(to_table({name: values}, STREAM)[name].to_pylist())


def refusal(data: Any) -> str:
    with pytest.raises(InvalidData) as caught:
        to_table(data, STREAM)
    return caught.value.message


@pytest.mark.parametrize(
    "values",
    [
        [DAY, NOON],
        [None, DAY, NOON][1:],
        (DAY, NOON),
        [DAY, pd.Timestamp(NOON)],
        [DAY, np.datetime64(NOON)],
        np.array([DAY, NOON], object),
        pd.Series([DAY, NOON], dtype=object),
        pd.Series([DAY, NOON], dtype=object).astype("category"),
        ["2026-07-01", NOON],
    ],
    ids=str,
)
def test_a_date_before_a_time_does_not_make_dates_of_both(values: Any) -> None:
    assert taken("at", values) == [MIDNIGHT, NOON.replace(tzinfo=dt.UTC)]


@pytest.mark.parametrize(
    "data",
    [
        [{"at": FINE}],
        {"at": [NOON, FINE]},
        {"at": [FINE.to_datetime64()]},
        {"at": np.array([FINE.to_datetime64()])},
        pd.DataFrame({"at": [FINE]}),
        pd.DataFrame({"at": pd.Series([FINE], dtype=object)}),
        {"at": pl.Series([FINE.value]).cast(pl.Datetime("ns"))},
        pl.DataFrame({"at": pl.Series([FINE.value]).cast(pl.Datetime("ns"))}),
        pa.table({"at": pa.array([FINE.value], pa.timestamp("ns"))}),
        [{"at": pa.scalar(FINE.value, pa.timestamp("ns"))}],
    ],
    ids=lambda data: type(data).__name__,
)
def test_nanoseconds_are_refused_in_every_form(data: Any) -> None:
    said = refusal(data)
    assert "12:00:00.123456789" in said
    assert said.endswith("in column 'at' does not fit TIMESTAMP without loss; a TIMESTAMP has microseconds: round it")


def test_scalars_of_numpy_are_what_they_say() -> None:
    assert taken("ok", [np.True_, False]) == [True, False]
    assert taken("id", [1, np.int8(-3), np.uint64(2**63 - 1)]) == [1, -3, 2**63 - 1]
    assert taken("x", [1, np.float16(0.5), np.longdouble("0.25")]) == [1.0, 0.5, 0.25]
    assert taken("at", [np.datetime64("2026-07-01"), np.datetime64("NaT")]) == [MIDNIGHT, None]
    assert "True in column 'id' does not fit BIGINT" in refusal({"id": [1, np.True_]})
    assert "row 0: 0.1" in refusal({"id": [np.float16(0.1), 1]})


def test_what_is_missing_in_pandas_is_null() -> None:
    assert taken("at", [pd.NaT, NOON]) == [None, NOON.replace(tzinfo=dt.UTC)]
    assert taken("id", [1, pd.NA]) == [1, None]
    assert taken("name", pd.Series(["a", pd.NA, float("nan"), None], dtype=object)) == ["a", None, None, None]
    assert taken("id", pd.Series([1, Decimal("NaN")], dtype=object)) == [1, None]


@pytest.mark.parametrize(
    ("name", "value", "way"),
    [
        ("id", float("nan"), "; make it NULL"),
        ("price", float("nan"), "; make it NULL"),
        ("at", float("nan"), "; make it NULL"),
        ("id", float("inf"), "; only a DOUBLE holds infinity: make it NULL"),
        ("id", 1e300, "; it is out of the range of 64 bits"),
        ("id", 1.5, "; round it, or make the column DOUBLE"),
        ("id", Decimal("1E+999999999"), "; it is out of the range of 64 bits"),
        ("price", Decimal("1E+999999999"), "; it has 7 digits before the point"),
        ("id", Decimal("sNaN"), "; make it NULL"),
        ("id", [10**5_000], ""),
        ("at", np.datetime64("20260-07-01T12"), "; its year is beyond those of a TIMESTAMP"),
        ("id", 10**5_000, "; it is out of the range of 64 bits"),
        ("price", Decimal("1.005"), "; round it to 2 digits"),
        ("price", 1.005, "; round it to 2 digits, or give text or Decimal"),
        ("price", 10**7, "; it has 7 digits before the point"),
        ("x", 2**53 + 1, ": round it"),
        ("x", 10**400, ": round it"),
        ("x", Decimal("0.12345678901234567891"), ": round it, or make the column DECIMAL"),
        ("x", Decimal("1e400"), ": round it, or make the column DECIMAL"),
        ("day", NOON, "; a DATE has no time of day: give value.date(), or make the column TIMESTAMP"),
        ("name", b"a", "; decode it"),
    ],
    ids=itertools.count(),
)
def test_the_way_out(name: str, value: Any, way: str) -> None:
    for data in ([{name: value}], {name: [None, value]}):
        said = refusal(data)
        assert f"in column '{name}' does not fit {COLUMNS[name].type} without loss" in said
        assert said.endswith(way)


def test_a_decimal_is_a_double_where_that_is_written_alike() -> None:
    assert taken("x", [Decimal("0.1"), 1, None]) == [0.1, 1.0, None]
    assert taken("price", [1, Decimal("2.50"), 0.1, "3"]) == [Decimal(t) for t in ("1.00", "2.50", "0.10", "3.00")]


@pytest.mark.parametrize("values", [{1, 2}, {"a": 1}, np.array(5), "ab", 7])
def test_what_has_no_order_is_no_column(values: Any) -> None:
    assert f"column 'id' is one {type(values).__name__}; give a list of values" in refusal({"id": values})


def test_an_index_with_a_name_is_a_column() -> None:
    frame = pd.DataFrame({"x": [1.5, 2.5]}, index=pd.Index([7, 8], name="ID"))
    assert to_table(frame, STREAM).to_pylist() == [{"id": 7, "x": 1.5}, {"id": 8, "x": 2.5}]
    levels = pd.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["id", "name"])
    frame = pd.DataFrame({"x": [1.5, 2.5]}, index=levels)
    assert to_table(frame, STREAM).to_pylist() == [
        {"id": 1, "x": 1.5, "name": "a"},
        {"id": 2, "x": 2.5, "name": "b"},
    ]
    assert to_table(frame.droplevel("name")[:0], STREAM).column_names == ["id", "x"]


def test_an_index_without_a_name_numbers_rows() -> None:
    frame = pd.DataFrame({"id": [1]}, index=pd.Index([7]))
    assert to_table(frame, STREAM).to_pylist() == [{"id": 1}]
    unnamed = pd.MultiIndex.from_tuples([(1, 2)])
    assert to_table(pd.DataFrame({"id": [1]}, index=unnamed), STREAM).to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("name", "why"), [("row", "not a column of stream 's'"), ("x", "a column of the frame, too"), (0, "not a column")]
)
def test_another_name_of_an_index_is_refused(name: Any, why: str) -> None:
    said = refusal(pd.DataFrame({"x": [1.5]}, index=pd.Index([7], name=name)))
    assert f"the index of the frame is named {str(name)!r}, which is {why}" in said
    assert "make it a column with reset_index(), or leave it out with reset_index(drop=True)" in said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pl.Series("id", [1]), "a Series is not a table that Arrow reads"),
        (pd.DataFrame({"id": [Decimal(1), Decimal("sNaN"), "a"]}), "row 1: sNaN in column 'id' does not fit BIGINT"),
        (pd.DataFrame({"id": [1 + 2j]}), "row 0: (1+2j) in column 'id' does not fit BIGINT"),
        (
            pd.DataFrame({"at": pd.period_range("2026-01", periods=1, freq="M")}),
            "column 'at' is TIMESTAMP, but the data",
        ),
        ({"id": pd.MultiIndex.from_tuples([(1, 2)])}, "row 0: (1, 2) in column 'id'"),
        (pa.table({"at": pa.array([2**62], pa.timestamp("s"))}), "its year is beyond those of a TIMESTAMP"),
        (pa.table({"day": pa.array([5], pa.timestamp("s", "Mars/X"))}), "row 0: "),
        (
            pa.table({"name": pa.DictionaryArray.from_arrays(pa.array([9], pa.int8()), ["a"], safe=False)}),
            "column 'name' is a dictionary that cannot be read",
        ),
    ],
)
def test_errors_of_other_libraries_are_refusals(data: Any, said: str) -> None:
    assert said in refusal(data)


# Parameters ----------------------------------------------------------------------------------------------


def test_parameters_of_several_types() -> None:
    sql = "SELECT id FROM s WHERE at = ?"
    dates = parameters_of(sql, [(DAY,), (NOON,)]).table.column(0).to_pylist()
    assert dates == [dt.datetime(2026, 7, 1, tzinfo=dt.UTC), NOON.replace(tzinfo=dt.UTC)]
    assert parameters_of(sql, [(pd.NaT,), (np.int8(3),)]).table.column(0).to_pylist() == [None, 3]
    for rows in ([(1,), (np.True_,)], [(1,), ("a",)], [(DAY,), ("a",)]):
        with pytest.raises(InvalidData, match="cannot be sent together"):
            parameters_of(sql, rows)
    for fine in ([(NOON,), (FINE,)], {"at": [FINE]}, pd.DataFrame({"at": pd.Series([FINE], dtype=object)})):
        with pytest.raises(InvalidData, match=r"row \d, Timestamp\('2026-07-01 12:00:00.123456789'\), is finer"):
            parameters_of(sql, fine)


def test_parameters_keep_the_types_of_their_columns() -> None:
    fine = pl.Series([FINE.value]).cast(pl.Datetime("ns"))
    table = parameters_of("SELECT id FROM s WHERE at = $at AND x = $x", {"at": fine, "x": np.array([0.5])}).table
    assert table.schema.types == [pa.timestamp("ns"), pa.float64()]


def test_an_index_of_parameters() -> None:
    frame = pd.DataFrame({"x": [0.5]}, index=pd.Index([7], name="least"))
    sql = "SELECT id FROM s WHERE id > $least AND x = $x"
    assert parameters_of(sql, frame).table.to_pylist() == [{"least": 7, "x": 0.5}]
    with pytest.raises(InvalidData, match=r"'least', which is not a parameter of the statement; .*reset_index\(\)"):
        parameters_of("SELECT id FROM s WHERE x = ?", frame)


def test_nanoseconds_as_a_parameter_in_this_process() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (at TIMESTAMP)")
    with pytest.raises(InvalidInput, match="which has nanoseconds; round it to microseconds"):
        soup.register_many("SELECT at FROM s WHERE at = ?", [(FINE,)])
