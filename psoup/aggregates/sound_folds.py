"""The check of folds from disk: whether arrays are the states of a recipe. Kernels do not check the places they read.

    groups   one row of each key, one element of each array of a state       sketches: entries of existing groups only
    texts    offsets that ascend, within the bytes

A job may have written the bytes, so a checksum does not show that they have this form. The values are not checked: they
are the job's task, like its matches.
"""

from __future__ import annotations

import numpy as np

from psoup.aggregates.recipes import Fold, Recipe
from psoup.aggregates.sketches import Sketch
from psoup.aggregates.state import Folding, State
from psoup.aggregates.sums import DoubleSum
from psoup.model import DataType, Kind
from psoup.values.columns import Array, Column
from psoup.values.kinds import TYPES

_MOST_EXPONENT = 4_096
"""An upper bound of the exponents in a sum of DOUBLEs."""
_MOST_WORDS = 64
"""An upper bound of the words of a sum of DOUBLEs."""
_MOST_ROWS = 2**48
"""An upper bound of the rows of a sum of DOUBLEs."""


def is_sound(recipe: Recipe, fold: Fold) -> bool:
    """Whether all parts of a decoded fold have the types and lengths of the recipe. O(bytes of texts and sketches).

    Raises AttributeError, TypeError or ValueError for parts of other types.
    """
    groups = fold.groups
    if not 0 <= groups < 2**31 or min(fold.matched, fold.errors, fold.failed) < 0:
        return False
    keys = zip(fold.keys, recipe.keys, strict=True)
    states = zip(recipe.foldings, fold.states, strict=True)
    return all(_is_column(column, key.type, groups) for column, key in keys) and all(
        _is_state(folding, state, groups) for folding, state in states
    )


def _is_state(folding: Folding, state: State, groups: int) -> bool:
    if isinstance(folding, Sketch):
        return _is_sketch(folding, state, groups)
    if isinstance(folding, DoubleSum):
        return _is_double_sum(state, groups)
    parts = zip(state, folding.empty(groups), strict=True)
    return all(
        _is_column(part, like.type, groups)
        if isinstance(like, Column)
        else isinstance(part, np.ndarray) and (part.dtype, part.shape) == (like.dtype, like.shape)
        for part, like in parts
    )


def _is_double_sum(state: State, groups: int) -> bool:
    counts, sums, scale, odd = state
    if not all(isinstance(part, np.ndarray) and part.dtype == np.int64 for part in state):
        return False
    assert isinstance(sums, np.ndarray) and isinstance(scale, np.ndarray) and isinstance(odd, np.ndarray)
    if sums.ndim != 2 or len(counts) != groups or len(sums) != groups or not 2 <= sums.shape[1] <= _MOST_WORDS:
        return False
    if scale.shape != (3,) or odd.shape not in ((0, 3), (groups, 3)):
        return False
    base, top, rows = scale.tolist()
    return max(abs(base), abs(top)) <= _MOST_EXPONENT and 0 <= rows < _MOST_ROWS and (base <= top or not rows)


def _is_sketch(folding: Sketch, state: State, groups: int) -> bool:
    """Whether a state has runs of entries: ascending keys of existing groups, and a number of each."""
    if not state or len(state) % 2:
        return False
    for keys, values in zip(state[::2], state[1::2], strict=True):
        if not all(
            isinstance(part, np.ndarray) and part.dtype == np.int64 and part.ndim == 1 for part in (keys, values)
        ):
            return False
        assert isinstance(keys, np.ndarray) and isinstance(values, np.ndarray)
        if len(keys) != len(values) or (keys[1:] <= keys[:-1]).any() or (values < 0).any():
            return False
        if len(keys) and not (keys[0] >= 0 and keys[-1] >> folding.bits < groups):
            return False
        if not folding.adds and len(values) and values.max() > 64 - folding.bits + 1:
            return False
    return True


def _is_column(column: Array | Column, data_type: DataType, rows: int) -> bool:
    if not isinstance(column, Column) or column.type != data_type:
        return False
    values, valid, data = column.values, column.valid, column.data
    text = data_type.kind is Kind.TEXT
    if values.dtype != TYPES[data_type.kind].dtype or values.shape != (rows + text,):
        return False
    if valid is not None and (valid.dtype != np.bool_ or valid.shape != (rows,)):
        return False
    if not text:
        return data is None
    if data is None or data.dtype != np.uint8 or data.ndim != 1:
        return False
    return bool(values[0] >= 0 and values[-1] <= len(data) and (values[1:] >= values[:-1]).all())
