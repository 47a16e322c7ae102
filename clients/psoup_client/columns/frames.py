"""Conversion of pandas columns to Arrow arrays. NaN, NaT and NA become NULL, which is their meaning in pandas.

index named "id"          a column, unless the frame has another column of that name
index without a name      numbers of rows, which are left out
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pyarrow as pa

from psoup_client.columns.arrays import Column, fit_array
from psoup_client.columns.casts import REFUSALS, TimeOptions
from psoup_client.columns.decimals import are_near
from psoup_client.columns.lists import fit_list
from psoup_client.columns.plain import goes_together, guessed, kinds_of
from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo


def is_pandas(data: Any) -> bool:
    """Whether an object is a frame of pandas. It never is before pandas is completely imported."""
    return _is_of_pandas(data, "DataFrame")


def is_series(values: Any) -> bool:
    """Whether an object is a series or a simple index of pandas."""
    return _is_of_pandas(values, "Series") or (_is_of_pandas(values, "Index") and not hasattr(values, "levels"))


def _is_of_pandas(data: Any, name: str) -> bool:
    kind = getattr(sys.modules.get("pandas"), name, None)
    return kind is not None and isinstance(data, kind)


def columns_of_frame(frame: Any, names: Collection[str], kind: str) -> list[tuple[str, Any]]:
    """List the columns of a frame by name, after the named levels of its index.

    `names`: the allowed names of a level, in lower case. `kind`: the word for them in an error. Raises InvalidData for
    any other name, and for a level that has the name of a column.
    """
    columns = [(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    column_names = {name.lower() for name, _ in columns}
    levels = []
    for place, name in enumerate(frame.index.names):
        if name is None:
            continue
        folded = str(name).lower()
        if folded in column_names or folded not in names:
            why = "a column of the frame, too" if folded in column_names else f"not {kind}"
            raise InvalidData(
                f"the index of the frame is named {str(name)!r}, which is {why}; make it a column with reset_index(),"
                " or leave it out with reset_index(drop=True)",
                facts={"column": str(name)},
            )
        levels.append((str(name), frame.index.get_level_values(place)))
    return levels + columns


def fit_series(series: Any, column: ColumnInfo, times: TimeOptions) -> Column:
    """Convert a pandas column to an array for `column`. Raises InvalidData that names the row."""
    kinds = _kinds(series)
    if goes_together(kinds) or kinds == _TEXTS:
        typed = column.arrow if Decimal in kinds and pa.types.is_decimal(column.arrow) else None
        try:
            if typed is None or are_near(series):
                return fit_array(pa.array(series, typed, from_pandas=True), column, times)
        except REFUSALS:  # Arrow lacks the type, or an object has another one
            pass
        except InvalidData:
            if series.dtype != object:
                raise
    return fit_list(_values(series), column, times)


def guessed_series(series: Any) -> Column:
    """Convert a pandas column to an array of its own type. Raises the errors of `plain.guessed`."""
    kinds = _kinds(series)
    return pa.array(series, from_pandas=True) if goes_together(kinds) or kinds == _TEXTS else guessed(_values(series))


_TEXTS = frozenset({str, float})
"""The Python types in a column of texts whose NaN means NULL. Arrow refuses any other float among texts."""


def _kinds(series: Any) -> frozenset[type]:
    """Return the types of the objects in a column; none if pandas knows one type for the whole column."""
    objects = series.dtype.categories if hasattr(series.dtype, "categories") else series
    return frozenset() if objects.dtype != object else kinds_of(objects.tolist())


def _values(series: Any) -> list[Any]:
    """Return the Python values of a column, with None for each value that pandas regards as missing."""
    objects = series.astype(object)
    try:
        missing = objects.isna()
    except ArithmeticError:  # a signalling NaN, which will be refused with its row
        return list(objects)
    return [None if null else value for value, null in zip(objects.tolist(), missing, strict=True)]
