"""Decimals that Arrow would make other numbers, or end the process with: many decimal places, small exponents."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from psoup_cli.files.options import FileOptions
from psoup_cli.files.row_files import open_rows
from psoup_client import ColumnInfo, InvalidData, StreamInfo
from psoup_client.columns.arrays import fit_array
from psoup_client.columns.casts import ISO
from psoup_client.columns.convert import to_table
from psoup_client.columns.decimals import are_near, exact, of_texts
from psoup_client.columns.frames import fit_series
from psoup_client.columns.lists import fit_list
from psoup_proto.csv_rows.values import has_exponents

PRICE = pa.decimal128(18, 3)
COLUMN = ColumnInfo("p", "DECIMAL(18,3)", PRICE, True)
_BEGIN = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
_COLUMNS = (ColumnInfo("w", "TEXT", pa.string(), True), COLUMN)
STREAM = StreamInfo("s", "1", "", _COLUMNS, "", dt.timedelta(0), *(None,) * 3, _BEGIN, None, None, *(0,) * 9)

TAKEN = (
    "1.5" + "0" * 36,
    "1.5" + "0" * 45,
    "1.5" + "0" * 300,
    "1.5" + "0" * 5_000,
    "0" * 300 + "7.25",
    "15e-1",
    "1500" + "0" * 60 + "e-63",
    "12e2",
    "0e-5000",
    "0e-999999999",
    "-0.000",
    "1e14",
)
REFUSED = (
    "1e-4",
    "1e-45",
    "1e-5000",
    "1e-4000000",
    "1e-999999999",
    "1e15",
    "1e999999999",
    "0." + "1" * 80,
    "0." + "1" * 5_000,
    "9" * 5_000,
)


def judged(text: str) -> Fraction:
    """The number that a text is, without Arrow and without Decimal."""
    if text.startswith("0e"):
        return Fraction(0)
    return Fraction(text.rstrip("0") if "." in text else text)


@pytest.mark.parametrize("text", TAKEN, ids=lambda text: text[:12])
def test_a_number_that_is_exact_is_taken_in_every_form(text: str) -> None:
    wanted = [judged(text)]
    for found in (
        fit_list([Decimal(text)], COLUMN, ISO),
        fit_list([text], COLUMN, ISO),
        fit_list([Decimal(text), 2.5, None], COLUMN, ISO).slice(0, 1),
        fit_array(pa.array([text, None]), COLUMN, ISO).slice(0, 1),
        fit_series(pd.Series([Decimal(text)]), COLUMN, ISO),
    ):
        assert [Fraction(value) for value in found.to_pylist()] == wanted


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:12])
def test_a_number_that_is_not_exact_is_refused_in_every_form(text: str) -> None:
    for values in ([Decimal(text)], [text], [None, Decimal(text), 2.5]):
        with pytest.raises(InvalidData, match=rf"column 'p'|row {len(values) - 1}"):
            fit_list(values, COLUMN, ISO)
    with pytest.raises(InvalidData):
        fit_array(pa.array([text]), COLUMN, ISO)
    with pytest.raises(InvalidData):
        fit_series(pd.Series([Decimal(text)]), COLUMN, ISO)


@pytest.mark.parametrize("scale", [-100, -21, 38, 39, 60, 76])
def test_decimals_of_types_that_arrow_does_not_rescale(scale: int) -> None:
    """An array of one number: 125 / 1000, or 1 where the scale is negative."""
    kind, unscaled = pa.decimal256(76, scale), 1 if scale < 0 else 125 * 10 ** (scale - 3)
    made = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(unscaled.to_bytes(32, "little"))])
    if scale < 0:
        with pytest.raises(InvalidData):
            fit_array(made, COLUMN, ISO)
    else:
        assert fit_array(made, COLUMN, ISO).to_pylist() == [Decimal("0.125")]


def test_numbers_that_are_not_finite_are_no_decimals() -> None:
    for text in ("NaN", "Infinity", "-Infinity", "sNaN"):
        with pytest.raises(ValueError):
            exact(Decimal(text), PRICE)
        with pytest.raises((ValueError, pa.ArrowException)):
            of_texts(pa.array([text]), PRICE)
    for text in ("1_0", "", " 1", "٣", "1e", "1e5000000000", "0x1"):
        with pytest.raises((ValueError, pa.ArrowException)):
            of_texts(pa.array([text]), PRICE)


def test_numbers_that_arrow_may_rescale() -> None:
    assert are_near([Decimal("-1." + "1" * 37), None, 5, Decimal("NaN")]) and are_near([])
    assert not are_near([Decimal("1"), Decimal("1e-7")])
    assert not are_near([Decimal("0." + "1" * 39)])
    assert (
        has_exponents(b"a,1E-5")
        and has_exponents(b"e-")
        and not has_exponents(b"1e5,2026-07-01")
        and not has_exponents(b"")
    )


def _rows(path: Path, text: str) -> list[Any]:
    """The decimals of a file; the first record that is refused raises."""
    path.write_text(text)
    found, given = list[Any](), FileOptions()
    for piece in open_rows(str(path), path.suffix[1:], STREAM, given):
        piece.check()
        found += to_table(piece.rows, STREAM, given.times).column("p").to_pylist()
    return found


@pytest.mark.parametrize("word", ["x", "3e-4a"])
def test_a_csv_has_its_decimals_exactly(tmp_path: Path, word: str) -> None:
    """Also beside a column of texts that look like exponents."""
    path = tmp_path / "p.csv"
    wanted = [judged(text) for text in TAKEN]
    found = _rows(path, "w,p\n" + "".join(f"{word},{text}\n" for text in TAKEN))
    assert [Fraction(value) for value in found] == wanted
    for text in REFUSED:
        with pytest.raises(InvalidData, match=r"line 3.*it has more digits than DECIMAL"):
            _rows(path, f"w,p\n{word},2\n{word},{text}\n")
    with pytest.raises(InvalidData, match="it is not a valid DECIMAL"):
        _rows(path, f"w,p\n{word},NaN\n")


def test_json_has_its_decimals_exactly(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for text in TAKEN:
        if text[:2] != "00":
            assert [Fraction(value) for value in _rows(path, f'{{"p": {text}}}\n')] == [judged(text)]
    for text in REFUSED:
        with pytest.raises(InvalidData):
            _rows(path, f'{{"p": {text}}}\n')
