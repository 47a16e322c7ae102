"""Rows in every form that callers have, against a stream with a column of each type."""

import datetime as dt
import math
import sys
from dataclasses import replace
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from psoup_client import ColumnInfo, InvalidData, RowsRefused, StreamInfo
from psoup_client.bulk import parameters_of
from psoup_client.columns import misfit_rows
from psoup_client.columns.convert import to_table
from psoup_client.payload import read, split

UTC = dt.UTC
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=UTC)
COLUMNS = (
    ColumnInfo("id", "BIGINT", pa.int64(), False),
    ColumnInfo("ok", "BOOLEAN", pa.bool_(), True),
    ColumnInfo("x", "DOUBLE", pa.float64(), True),
    ColumnInfo("price", "DECIMAL(9,2)", pa.decimal128(9, 2), True),
    ColumnInfo("name", "TEXT", pa.string(), True),
    ColumnInfo("at", "TIMESTAMP", pa.timestamp("us", tz="UTC"), True),
    ColumnInfo("day", "DATE", pa.date32(), True),
)


def stream(columns: tuple[ColumnInfo, ...] = COLUMNS) -> StreamInfo:
    return StreamInfo(
        "s", "1", "", columns, "", dt.timedelta(0), None, None, None, NOON, None, None, 0, 0, 0, 0, 0, 0, 0, 0, 0
    )


ROW = {
    "id": 1,
    "ok": True,
    "x": 1.5,
    "price": Decimal("12.50"),
    "name": "a",
    "at": NOON,
    "day": dt.date(2024, 5, 1),
}
WANTED = [ROW, {"id": 2, **dict.fromkeys(("ok", "x", "price", "name", "at", "day"))}]


def rows(data: Any) -> list[dict[str, Any]]:
    return to_table(data, stream()).to_pylist()


def test_rows_as_dicts() -> None:
    assert rows([ROW, {"id": 2}]) == WANTED


def test_all_missing_columns_are_named_at_once() -> None:
    columns = tuple(replace(column, nullable=column.name == "x") for column in COLUMNS[:4])
    with pytest.raises(InvalidData, match="columns 'ok', 'price' are missing, and stream 's' says NOT NULL"):
        to_table([{"id": 1}], stream(columns))


def test_columns_as_lists() -> None:
    assert rows({name: [row[name] for row in WANTED] for name in ROW}) == WANTED


def test_arrow_table_and_batch() -> None:
    table = pa.Table.from_pylist(WANTED)
    assert rows(table) == WANTED
    assert rows(table.to_batches()[0]) == WANTED


def test_pandas_with_gaps_that_made_integers_floats() -> None:
    frame = pd.DataFrame({"id": [1.0, 2.0], "x": [1.5, float("nan")], "name": ["a", None]})
    assert rows(frame) == [{"id": 1, "x": 1.5, "name": "a"}, {"id": 2, "x": None, "name": None}]


def test_pandas_objects_and_nanoseconds() -> None:
    frame = pd.DataFrame({"id": [1], "price": [Decimal("12.50")], "at": [pd.Timestamp("2024-05-01T12:00")]})
    assert rows(frame) == [{"id": 1, "price": Decimal("12.50"), "at": NOON}]


def test_polars_with_its_own_text_and_categories() -> None:
    frame = pl.DataFrame({"id": [1, 2], "name": ["a", None], "at": [NOON, None]})
    assert rows(frame) == [{"id": 1, "name": "a", "at": NOON}, {"id": 2, "name": None, "at": None}]
    assert rows(pl.DataFrame({"id": [1], "name": pl.Series(["a"], dtype=pl.Categorical)})) == [{"id": 1, "name": "a"}]


def test_names_are_found_in_any_case() -> None:
    assert rows([{"ID": 1, "Name": "a"}]) == [{"id": 1, "name": "a"}]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-01T12:00:00Z", NOON),
        ("2024-05-01 12:00:00", NOON),
        ("2024-05-01T14:00:00+02:00", NOON),
        ("2024-05-01T12:00:00.000001Z", NOON + dt.timedelta(microseconds=1)),
        ("2024-05-01", dt.datetime(2024, 5, 1, tzinfo=UTC)),
    ],
)
def test_times_as_text(text: str, moment: dt.datetime) -> None:
    assert rows([{"id": 1, "at": text}])[0]["at"] == moment
    assert rows(pa.table({"id": [1], "at": [text]}))[0]["at"] == moment


def test_midnight_is_a_date() -> None:
    frame = pd.DataFrame({"id": [1], "day": [pd.Timestamp("2024-05-01")]})
    assert rows(frame) == [{"id": 1, "day": dt.date(2024, 5, 1)}]
    assert rows([{"id": 1, "at": dt.date(2024, 5, 1)}])[0]["at"] == dt.datetime(2024, 5, 1, tzinfo=UTC)


def test_dates_and_decimals_as_text() -> None:
    expected = [{"id": 1, "price": Decimal("12.50"), "day": dt.date(2024, 5, 1)}]
    assert rows([{"id": 1, "price": "12.5", "day": "2024-05-01"}]) == expected
    assert rows(pa.table({"id": [1], "price": ["12.50"], "day": ["2024-05-01"]})) == expected


def test_values_of_several_types() -> None:
    given = [{"id": 1.0, "x": 1}, {"id": Decimal(2), "x": Decimal("0.5")}, {"id": 3, "x": 2.5}]
    assert rows(given) == [{"id": 1, "x": 1.0}, {"id": 2, "x": 0.5}, {"id": 3, "x": 2.5}]
    assert rows({"id": np.array([1, 2]), "x": [np.float64(1), 2]}) == [{"id": 1, "x": 1.0}, {"id": 2, "x": 2.0}]


def test_nan_stays_a_number_outside_pandas() -> None:
    assert math.isnan(rows([{"id": 1, "x": float("nan")}])[0]["x"])


def test_no_rows() -> None:
    assert to_table([], stream()).num_rows == 0
    assert to_table({"id": []}, stream()).num_rows == 0


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ([{"id": 1, "nam": "a"}], ["no column 'nam'", "did you mean 'name'"]),
        ([{"name": "a"}], ["'id' is missing", "NOT NULL"]),
        ([{"id": 1}, {"id": None}], ["row 1", "'id' is NULL"]),
        ([{"id": 1}, {"id": "x"}], ["row 1: 'x'", "'id'", "BIGINT"]),
        ([{"id": 1.5}], ["row 0: 1.5", "BIGINT"]),
        ([{"id": 2**63}], ["row 0", "BIGINT"]),
        ([{"id": 1, "price": 0.1 + 0.2}], ["0.30000000000000004", "round it to 2 digits, or give text or Decimal"]),
        ([{"id": 1, "price": Decimal("1.234")}], ["'price'", "DECIMAL(9,2)"]),
        ([{"id": 1, "at": "yesterday"}], ["'yesterday'", "is not a valid TIMESTAMP; write it as 2013-07-04T12:00:00Z"]),
        ([{"id": 1, "day": NOON}], ["'day'", "DATE"]),
        ([{"id": 1, "name": 5}], ["'name'", "TEXT"]),
        ([{"id": 1, "name": b"a"}], ["b'a'", "TEXT"]),
        ([{"id": 1, "name": "\ud800"}], ["row 0", "TEXT"]),
        ([{"id": True}], ["True", "BIGINT"]),
        ([{"id": 1, "ok": 1}], ["1 in column 'ok'", "BOOLEAN"]),
        ([{"id": 1, "at": 5}], ["5 in column 'at' does not fit TIMESTAMP", 'time_unit="s"']),
        ([{"id": 1, "day": 5}], ["5 in column 'day'", "DATE"]),
        ([{"id": 1, "x": 2**53 + 1}], ["row 0", "DOUBLE"]),
        ([{"id": 1}, 7], ["row 1 is a int"]),
        ({"id": [1], "ID": [2]}, ["comes twice"]),
        ({"id": [1, 2], "x": [1.0]}, ["different lengths", "id 2", "x 1"]),
        ({"id": 1}, ["give a list of values"]),
        (pa.table({"id": [1], "name": [5]}), ["'name' is TEXT", "int64"]),
        (pa.table({"id": [1.0, 2.5]}), ["row 1: 2.5", "BIGINT"]),
        (pa.table({"id": [1, 2], "at": ["2024-05-01", "soon"]}), ["row 1: 'soon'"]),
    ],
)
def test_what_does_not_fit_is_named(data: Any, parts: list[str]) -> None:
    with pytest.raises(InvalidData) as caught:
        to_table(data, stream())
    for part in parts:
        assert part in caught.value.message


def test_what_is_no_table() -> None:
    with pytest.raises(TypeError, match="cannot push a int"):
        to_table(7, stream())


def test_narrow_columns_go_as_they_are() -> None:
    table = pa.table({"id": pa.array([1], pa.int16()), "name": pa.array(["a"], pa.large_string())})
    assert to_table(table, stream()).schema.types == [pa.int16(), pa.large_string()]


def test_split_keeps_order_and_size() -> None:
    table = pa.table({"id": range(10)})
    payloads = list(split(table, batch_rows=4))
    assert [payload.rows for payload in payloads] == [4, 4, 2]
    assert pa.concat_tables([read(payload.data) for payload in payloads]).equals(table)


def test_split_by_bytes() -> None:
    table = pa.table({"text": ["x" * 1_000_000] * 30})
    payloads = list(split(table))
    assert sum(payload.rows for payload in payloads) == 30
    assert all(len(payload.data) < 16 * 1024 * 1024 for payload in payloads)
    assert len(payloads) >= 3


def test_a_row_that_fits_no_message() -> None:
    with pytest.raises(InvalidData, match="row 1 takes"):
        list(split(pa.table({"text": ["a", "x" * 17_000_000]}), batch_rows=1))


def test_rows_are_taken_while_another_thread_imports_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the module is there, without what is in it."""
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))
    assert to_table([{"id": 1}], stream()).column("id").to_pylist() == [1]
    assert parameters_of("SELECT * FROM s WHERE id = ?", [(1,)]).table.num_rows == 1


@pytest.mark.parametrize(
    "form",
    [
        list,
        lambda given: {name: [row[name] for row in given] for name in given[0]},
        pa.Table.from_pylist,
        pd.DataFrame,
        pl.DataFrame,
    ],
    ids=["dicts", "lists", "arrow", "pandas", "polars"],
)
def test_all_rows_whose_values_do_not_fit_are_listed(form: Any) -> None:
    given = [{"id": n, "price": "12.5" if n % 3 else f"price {n}"} for n in range(1, 13)]
    with pytest.raises(
        RowsRefused, match=r"^row 2: 'price 3' in column 'price' does not fit .* not fit either$"
    ) as caught:
        to_table(form(given), stream())
    refused = caught.value
    assert "; 3 later rows do not fit either" in str(refused)
    assert [row.row for row in refused.rows] == [2, 5, 8, 11]
    assert refused.rows[1].reason.startswith("'price 6' in column 'price' does not fit DECIMAL(9,2) without loss")
    assert (refused.total, refused.late, refused.reason) == (4, 0, "INVALID_BATCH")


def test_the_list_of_rows_that_do_not_fit_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"id": [1, *["x"] * 1_200, 2]}
    with pytest.raises(RowsRefused, match=r"^row 1: .*; at least 999 later rows do not fit either$") as caught:
        to_table(data, stream())
    assert (len(caught.value.rows), caught.value.total) == (1_000, 1_000)
    monkeypatch.setattr(misfit_rows, "LOOKED_AT", 3)
    with pytest.raises(RowsRefused, match="at least 1 later row does not fit either") as caught:
        to_table({"id": [1, "x", 2, "y", "z"]}, stream())
    assert [row.row for row in caught.value.rows] == [1, 3]
    with pytest.raises(RowsRefused, match=r"give a whole number$") as caught:
        to_table({"id": [1, 2, "x"]}, stream())
    assert [str(row) for row in caught.value.rows] == [str(caught.value)]
