"""Columns of pandas -> arrays of Arrow. NaN, NaT and NA become NULL, which is their meaning in pandas.

index named "id"          a column like the others, if it is the only one of that name
index without a name      numbers of rows, and left out
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
    """Whether it is a frame of pandas: none exists before pandas is imported, or while it is being imported."""
    return _is_of_pandas(data, "DataFrame")


def is_series(values: Any) -> bool:
    """Whether it is a column of pandas, or an index."""
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
    """Make a column of pandas an array that the service takes for `column`; raises InvalidData that names the row."""
    kinds = _kinds(series)
    if goes_together(kinds) or kinds == _TEXTS:
        typed = column.arrow if Decimal in kinds and pa.types.is_decimal(column.arrow) else None
        try:
            if typed is None or are_near(series):
                return fit_array(pa.array(series, typed, from_pandas=True), column, times)
        except REFUSALS:  # a type that Arrow does not have, or objects that do not have the type
            pass
        except InvalidData:
            if series.dtype != object:
                raise
    return fit_list(_values(series), column, times)


def guessed_series(series: Any) -> Column:
    """Make a column of pandas an array of its own type; raises as `plain.guessed`."""
    kinds = _kinds(series)
    return pa.array(series, from_pandas=True) if goes_together(kinds) or kinds == _TEXTS else guessed(_values(series))


_TEXTS = frozenset({str, float})
"""Types of a column of texts in which NaN is NULL: Arrow takes no other float among texts."""


def _kinds(series: Any) -> frozenset[type]:
    """Return the types of the objects in a column; none if all have the type of the column."""
    objects = series.dtype.categories if hasattr(series.dtype, "categories") else series
    return frozenset() if objects.dtype != object else kinds_of(objects.tolist())


def _values(series: Any) -> list[Any]:
    """Return the Python values of a column, None for each that pandas holds to be missing."""
    objects = series.astype(object)
    try:
        missing = objects.isna()
    except ArithmeticError:  # a signalling NaN, which will be refused with its row
        return list(objects)
    return [None if null else value for value, null in zip(objects.tolist(), missing, strict=True)]
