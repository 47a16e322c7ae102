"""Random Python values, mixed, into columns of every type: each list is refused, or stored as Python says it is.

The judge reads a value by Python alone: no code of the client is asked.
"""

from __future__ import annotations

import calendar
import csv
import datetime as dt
import enum
import io
import itertools
import json
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from psoup.local import LocalPSoup
from psoup_cli.files.options import FileOptions
from psoup_cli.files.row_files import open_rows
from psoup_client import ColumnInfo, InvalidData, StreamInfo
from psoup_client.columns.convert import to_table
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import in_parts

COLUMNS = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "TEXT": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "DATE": pa.date32(),
}
TRIALS = 250
"""Lists of values for each form in which they come."""

_EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))
_DAY, _NOON = dt.date(2026, 7, 1), dt.datetime(2026, 7, 2, 12, 34, 56, 789_012)


class Colour(enum.IntEnum):
    RED = 3


class Word(enum.StrEnum):
    BLUE = "blue"


KINDS: dict[str, list[Any]] = {
    "nothing": [None, pd.NaT, pd.NA, float("nan"), np.datetime64("NaT"), Decimal("NaN")],
    "truth": [True, False, np.True_, np.False_],
    "whole": [0, 1, -7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**30, 10**5_000, Colour.RED],
    "numpy": [np.int8(-3), np.uint8(200), np.int64(2**60), np.uint64(2**63), np.float16(0.1), np.float32(0.1)],
    "float": [0.0, -0.0, 1.0, 1.5, 0.1, 0.1 + 0.2, 1e300, 2.0**60, float("inf"), np.float64(2.5), 12345.67],
    "wide": [np.longdouble(1) / 3, np.longdouble("0.5"), 1j, np.complex64(1)],
    "decimal": [Decimal(t) for t in ("1.5", "1.005", "7", "1E+3", "0.10", "1e400", "1e-30", "12345678.9", "1E+99999")],
    "text": ["", "a", "é", "1", "1.5", "12.345", "true", "2026-07-01", np.str_("b"), Word.BLUE, "\ud800"],
    "times in texts": ["2026-07-02T12:34:56Z", "2026-07-02 12:34:56.789012+05:30", "2026-07-02T12:34:56.7890121Z"],
    "bytes": [b"a", bytearray(b"b"), [1], {"a": 1}, (), dt.time(1), dt.timedelta(1), np.timedelta64(5, "s"), object()],
    "date": [_DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31), np.datetime64("2026-07-01")],
    "time": [_NOON, _NOON.replace(tzinfo=_EAST), dt.datetime(2026, 7, 1), dt.datetime.max, dt.datetime(1, 1, 1)],
    "instant": [
        pd.Timestamp("2026-07-01 12:00:00.123456"),
        pd.Timestamp("2026-07-01 12:00:00.123456789"),
        pd.Timestamp("2026-07-01", tz="Asia/Kolkata"),
        np.datetime64("2026-07-01T12:00:00.123456789"),
        np.datetime64("2026-07-01T12:00:00.123456000"),
        np.datetime64("2026-07-01T12"),
        np.datetime64("20260-07-01T12"),
    ],
    "scalars of arrow": [
        pa.scalar(5),
        pa.scalar("c"),
        pa.scalar(1.25),
        pa.scalar(None),
        pa.scalar(1, pa.timestamp("ns")),
    ],
}
GROUPS = [
    ("truth", "whole", "numpy"),
    ("whole", "float", "numpy", "decimal", "wide"),
    ("text", "times in texts"),
    ("date", "time", "instant", "times in texts"),
    ("scalars of arrow", "whole"),
    tuple(KINDS),
]


def nanos(value: Any) -> int:
    """Nanoseconds since 1970 of a time of Python, pandas or NumPy; one without a zone is UTC."""
    if isinstance(value, np.datetime64):
        unit, step = np.datetime_data(value.dtype)
        size = {"D": 86_400 * 10**9, "h": 3_600 * 10**9, "s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}[unit]
        return int(value.astype(np.int64)) * size * step
    whole = calendar.timegm(value.utctimetuple()) if isinstance(value, dt.datetime) else None
    if whole is None:
        return calendar.timegm(value.timetuple()) * 10**9
    return whole * 10**9 + value.microsecond * 1_000 + getattr(value, "nanosecond", 0)


def is_same(value: Any, stored: Any, kind: str, nan_is_null: bool) -> bool:
    """Whether a stored value is what Python says that the given one is."""
    if isinstance(value, pa.TimestampScalar):
        value = None if value.value is None else np.datetime64(value.value, value.type.unit)
    elif isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, np.datetime64) and np.isnat(value)):
        return stored is None
    is_nan = isinstance(value, float | Decimal | np.floating) and value != value
    if is_nan and nan_is_null:
        return stored is None
    if stored is None:
        return False
    truth, text = isinstance(value, bool | np.bool_), isinstance(value, str)
    number = isinstance(value, int | float | Decimal | np.integer | np.floating) and not truth
    if kind == "BOOLEAN":
        return truth and stored is bool(value)
    if kind == "TEXT":
        return text and stored == str.__str__(value)
    if kind == "TIMESTAMP":
        if text:
            value = dt.datetime.fromisoformat(value)
        return isinstance(value, dt.date | np.datetime64) and nanos(stored) == nanos(value)
    if kind == "DATE":
        if text:
            return stored == dt.date.fromisoformat(value)
        return isinstance(value, dt.date | np.datetime64) and nanos(stored) == nanos(value)
    if kind.startswith("DECIMAL") and text:
        return stored == Decimal(value)
    if not number:
        return False
    if kind == "DOUBLE" and is_nan:
        return stored != stored
    if kind == "DOUBLE" and isinstance(value, Decimal):
        return stored == value or Decimal(repr(stored)) == value
    if kind.startswith("DECIMAL") and isinstance(value, float | np.floating):
        return stored == Decimal(str(value))
    return bool(stored == (value if isinstance(value, int | float | Decimal) else value.item()))


def info(kind: str) -> StreamInfo:
    begin = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
    column = ColumnInfo("c", kind, COLUMNS[kind], True)
    return StreamInfo("s", "1", "", (column,), "", dt.timedelta(0), *(None,) * 3, begin, None, None, *(0,) * 9)


def drawn(seed: str, part: slice) -> list[tuple[str, list[Any]]]:
    """A part of the lists of values, each with the type of the column that they go into."""
    return list(_drawn(seed))[part]


def _drawn(seed: str) -> Iterator[tuple[str, list[Any]]]:
    """Give lists of values, each with the type of the column that they go into."""
    dice = random.Random(seed)
    for kind, _ in zip(itertools.cycle(COLUMNS), range(TRIALS), strict=False):
        group = dice.choice(GROUPS)
        kinds = dice.sample(group, dice.randrange(1, min(3, len(group)) + 1))
        values = [dice.choice(KINDS[dice.choice(kinds)]) for _ in range(dice.choice((1, 2, 3, 5)))]
        if dice.random() < 0.3:
            values.insert(dice.randrange(len(values) + 1), None)
        yield kind, values


def as_rows(values: list[Any]) -> Any:
    return [{"c": value} for value in values]


def as_lists(values: list[Any]) -> Any:
    return {"c": values}


def as_objects(values: list[Any]) -> Any:
    column = np.empty(len(values), object)
    column[:] = values
    return {"c": column}


def as_frame(values: list[Any]) -> Any:
    series = pd.Series([None] * len(values), dtype=object)
    for place, value in enumerate(values):
        series.iat[place] = value
    return pd.DataFrame({"c": series})


FORMS: dict[str, Callable[[list[Any]], Any]] = {"rows": as_rows, "lists": as_lists, "objects": as_objects}


class Store:
    """A stream for each type, in this process."""

    def __init__(self) -> None:
        self._soup = LocalPSoup()
        for place, kind in enumerate(COLUMNS):
            self._soup.execute(f"CREATE STREAM s{place} (c {kind})")

    def stored(self, kind: str, table: pa.Table) -> list[Any]:
        """Push a table and return what an answer shows of it."""
        name = f"s{list(COLUMNS).index(kind)}"
        self._soup.push(name, table)
        answer = again(self._soup.ask, f"SELECT c FROM {name} BEGIN (NOW - {len(table)} ROWS)").to_table()
        return list(answer["c"].to_pylist())


def checked(store: Store, kind: str, values: list[Any], data: Any, nan_is_null: bool) -> bool:
    """Push values in some form; returns whether they were taken. A refusal is the project's, and names the column."""
    try:
        table = to_table(data, info(kind))
    except InvalidData as refused:
        assert "'c'" in refused.message, refused.message
        return False
    found = store.stored(kind, table)
    assert len(found) == len(values)
    for value, stored in zip(values, found, strict=True):
        assert is_same(value, stored, kind, nan_is_null), f"{value!r} among {values!r} is {stored!r} in a {kind}"
    return True


@pytest.mark.parametrize("form", FORMS)
@in_parts(2)
def test_mixed_values(form: str, part: slice) -> None:
    store, taken = Store(), 0
    for kind, values in drawn(form, part):
        taken += checked(store, kind, values, FORMS[form](values), nan_is_null=False)
    assert 10 < taken < TRIALS // 2 - 10


@pytest.mark.long
@in_parts(2)
def test_mixed_values_in_a_frame_of_pandas(part: slice) -> None:
    store, taken = Store(), 0
    for kind, values in drawn("frame", part):
        taken += checked(store, kind, values, as_frame(values), nan_is_null=True)
        try:
            inferred = pd.DataFrame({"c": values})
        except (TypeError, ValueError, OverflowError):
            continue
        checked(store, kind, list(inferred["c"].to_numpy()), inferred, nan_is_null=True)
    assert 10 < taken < TRIALS // 2 - 10


def said_by(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of an array, with their own width where that says how many digits count."""
    if pa.types.is_timestamp(column.type):
        return list(column)
    width = {pa.float16(): np.float16, pa.float32(): np.float32}.get(column.type)
    return [value if value is None or width is None else width(value) for value in column.to_pylist()]


@in_parts(2)
def test_mixed_values_in_an_array_of_arrow_or_polars(part: slice) -> None:
    """What the array says counts: it may have been cut when it was made."""
    store, taken = Store(), 0
    for kind, values in drawn("arrow", part):
        scalars = any(isinstance(value, pa.Scalar | np.generic) for value in values)
        if scalars and len(set(map(type, values))) > 1:
            continue  # PyArrow itself ends the process for some scalars of several types
        try:
            table = pa.table({"c": pa.array(values)})
            said = said_by(table["c"])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
        taken += checked(store, kind, said, table, nan_is_null=False)
        try:
            frame = pl.from_arrow(table)
        except pl.exceptions.PolarsError:  # a time zone that is an offset
            continue
        taken += checked(store, kind, said, frame, nan_is_null=False)
    assert taken > 10


@pytest.mark.long
@in_parts(2)
def test_mixed_values_in_a_csv(part: slice, tmp_path: Path) -> None:
    store, taken = Store(), 0
    for kind, values in drawn("csv", part):
        texts = [value for value in values if isinstance(value, str | int | Decimal | dt.date)]
        texts = [str(value) for value in texts if value is not pd.NaT and value != 10**5_000 and value != "\ud800"]
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["c"], *([each] for each in texts)])
        (tmp_path / "a.csv").write_text(text.getvalue())
        taken += _pushed(store, kind, texts, tmp_path / "a.csv", "csv")
    assert taken > 10


@in_parts(2)
def test_mixed_values_in_json(part: slice, tmp_path: Path) -> None:
    store, taken = Store(), 0
    for kind, values in drawn("json", part):
        texts = [json.dumps(v) for v in values if type(v) in (str, int, float, bool) and v not in (10**5_000, "\ud800")]
        texts += [str(value) for value in values if isinstance(value, Decimal) and value.is_finite()]
        (tmp_path / "a.jsonl").write_text("".join(f'{{"c": {text}}}\n' for text in texts))
        said = [json.loads(text, parse_float=Decimal) for text in texts]
        taken += _pushed(store, kind, said, tmp_path / "a.jsonl", "json")
    assert taken > 10


def _pushed(store: Store, kind: str, said: list[Any], path: Path, format: str) -> bool:
    """Push a file; returns whether it was taken: each value is read by Python as its column's type."""
    read: dict[str, Callable[[str], Any]] = {
        "BOOLEAN": lambda text: {"1": True, "true": True, "0": False, "false": False}[text.lower()],
        "BIGINT": int,
        "DOUBLE": float,
    }
    try:
        found = list[Any]()
        for piece in open_rows(str(path), format, info(kind), FileOptions()):
            piece.check()
            found += store.stored(kind, to_table(piece.rows, info(kind)))
    except InvalidData:
        return False
    for value, stored in zip(said, found, strict=True):
        if format == "csv" and value == "":
            continue
        expected = read.get(kind, str)(value) if format == "csv" else value
        assert is_same(expected, stored, kind, nan_is_null=False), f"{value!r} is {stored!r} in a {kind}"
        assert kind != "DOUBLE" or abs(stored) != float("inf") or str(value).lower() in ("inf", "infinity")
    return bool(said)
