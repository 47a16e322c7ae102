"""Functions of text; characters are code points, letters are changed one by one (no locale, no multi-letter forms).

Arrow computes what it has; pieces of texts come from `slices`. Where an argument that Arrow wants constant is a
column, the rows are grouped by its distinct values, so the cost grows with their number, not with that of the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.columns import Array, Column
from psoup.expressions.frame import (
    Evaluator,
    Frame,
    any_error,
    booleans,
    finish,
    finish_text,
    null_column,
    to_large_string,
)
from psoup.expressions.slices import cut, substring
from psoup.expressions.tree import Call, Literal
from psoup.model import BIGINT, BOOLEAN, TEXT

SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""What trim takes away unless told: the space separators of Unicode; not tabs and line ends, as in DuckDB."""

_FAR = np.int64(2**32)


def lower(call: Call, frame: Frame) -> Column:
    """Small letters."""
    columns = frame.columns(call)
    return finish_text(pc.utf8_lower(to_large_string(columns[0])), columns)


def upper(call: Call, frame: Frame) -> Column:
    """Capital letters."""
    columns = frame.columns(call)
    return finish_text(pc.utf8_upper(to_large_string(columns[0])), columns)


def length(call: Call, frame: Frame) -> Column:
    """Code points."""
    columns = frame.columns(call)
    counts = pc.utf8_length(to_large_string(columns[0])).fill_null(0)
    return finish(BIGINT, counts.to_numpy(zero_copy_only=False), columns)


def substr(call: Call, frame: Frame) -> Column:
    """substr(text, start [, length]); a start or length beyond 2**32 is an error, as in DuckDB."""
    columns = frame.columns(call)
    numbers = [c.values for c in columns[1:]]
    far = np.zeros(frame.rows, np.bool_)
    for position, number in enumerate(numbers):
        far |= (number >= _FAR) | (number < -_FAR)
        numbers[position] = np.clip(number, -_FAR, _FAR)
    piece = substring(columns[0], numbers[0], numbers[1] if len(numbers) > 1 else None)
    return finish_text(to_large_string(Column(TEXT, piece.values, None, piece.data)), columns, far)


def _trim(strip: Callable[..., pa.Array]) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        characters = SPACES
        if len(call.args) == 2:
            given = call.args[1]
            assert isinstance(given, Literal)
            if given.value is None:
                return null_column(TEXT, frame.rows)
            characters = str(given.value)
        column = frame.column(call.args[0])
        return finish_text(strip(to_large_string(column), characters=characters), [column])

    return evaluator


def concat(call: Call, frame: Frame) -> Column:
    """All arguments one after the other, NULLs as nothing."""
    joined = pc.binary_join_element_wise(
        *_some_array(call, frame), pa.scalar("", pa.large_string()), null_handling="replace", null_replacement=""
    )
    error = any_error([frame.column(arg) for arg in call.args if not isinstance(arg, Literal)])
    marks = [] if error is None else [Column(BOOLEAN, error, ~error, None, error)]
    return finish_text(joined, marks)


def concat_operator(call: Call, frame: Frame) -> Column:
    """a || b: NULL if one is."""
    joined = pc.binary_join_element_wise(*_some_array(call, frame), pa.scalar("", pa.large_string()))
    return finish_text(joined, frame.columns(call))


def _some_array(call: Call, frame: Frame) -> list[pa.Array | pa.Scalar]:
    """The arguments for Arrow; if all are constants the first becomes an array, so that the result is one."""
    texts = [frame.text(arg) for arg in call.args]
    if all(isinstance(text, pa.Scalar) for text in texts):
        texts[0] = to_large_string(frame.column(call.args[0]))
    return texts


def starts_with(call: Call, frame: Frame) -> Column:
    """Whether the first text begins with the second."""
    subject, prefix = call.args
    if isinstance(prefix, Literal) and prefix.value is not None:
        column = frame.column(subject)
        found = pc.starts_with(to_large_string(column), pattern=str(prefix.value))
        return finish(BOOLEAN, booleans(found), [column])
    columns = frame.columns(call)
    whole, start = columns
    sizes = np.minimum(np.diff(whole.values), np.diff(start.values))
    head = cut(whole, whole.values[:-1], whole.values[:-1] + sizes)
    return finish(BOOLEAN, booleans(pc.equal(to_large_string(head), to_large_string(start))), columns)


def contains(call: Call, frame: Frame) -> Column:
    """Whether the second text occurs in the first."""
    subject, part = call.args
    if isinstance(part, Literal) and part.value is not None:
        column = frame.column(subject)
        found = pc.match_substring(to_large_string(column), pattern=str(part.value))
        return finish(BOOLEAN, booleans(found), [column])
    columns = frame.columns(call)
    found = by_distinct(columns, lambda text, key: pc.match_substring(text, pattern=key[0]), pa.bool_())
    return finish(BOOLEAN, booleans(found), columns)


def replace(call: Call, frame: Frame) -> Column:
    """Every occurrence of the second text, from the left, replaced by the third; an empty second changes nothing."""
    columns = frame.columns(call)

    def one(text: pa.Array, key: tuple[str, ...]) -> pa.Array:
        return pc.replace_substring(text, pattern=key[0], replacement=key[1]) if key[0] else text

    old, new = call.args[1:]
    if isinstance(old, Literal) and isinstance(new, Literal):
        if old.value is None or new.value is None:
            return null_column(TEXT, frame.rows)
        return finish_text(one(to_large_string(columns[0]), (str(old.value), str(new.value))), columns[:1])
    return finish_text(by_distinct(columns, one, pa.large_string()), columns)


def by_distinct(
    columns: list[Column], apply: Callable[[pa.Array, tuple[str, ...]], pa.Array], result: pa.DataType
) -> pa.Array:
    """`apply(texts of columns[0], values of the other columns)` for each distinct tuple of those values.

    O(rows log rows) and one call of `apply` a distinct tuple. NULL where an argument is.
    """
    names = [str(position) for position in range(len(columns))]
    table = pa.table([to_large_string(column) for column in columns], names=names)
    keys = table.select(names[1:])
    grouped = keys.append_column("row", pa.array(np.arange(len(keys)))).group_by(names[1:]).aggregate([("row", "list")])
    parts: list[pa.Array] = []
    order: list[Array] = []
    listed = grouped.select(names[1:]).to_pylist()
    for key, rows in zip(listed, grouped.column("row_list").combine_chunks(), strict=True):
        positions = rows.values.to_numpy()
        order.append(positions)
        if None in key.values():
            parts.append(pa.nulls(len(positions), result))
        else:
            part = apply(to_large_string(columns[0].take(positions)), tuple(key.values()))
            parts.append(part)
    if not parts:
        return pa.array([], result)
    inverse = np.argsort(np.concatenate(order))
    return pa.concat_arrays(parts).take(pa.array(inverse))


EVALUATORS: dict[str, Evaluator] = {
    "lower": lower,
    "upper": upper,
    "length": length,
    "substr": substr,
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "concat": concat,
    "concat_op": concat_operator,
    "starts_with": starts_with,
    "contains": contains,
    "replace": replace,
}
