"""Functions of text; characters are code points, letters are changed one by one (no locale, no multi-letter forms).

Arrow computes most functions; pieces of texts come from `slices`. Arrow requires some arguments to be constant. If
such an argument is a column, the rows are grouped by its distinct values, so the cost grows with their number. The
length of a result is computed before it is made (`sizes`). A result above the limit of a value is an error of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.frame import (
    Evaluator,
    Frame,
    any_error,
    booleans,
    finish,
    finish_text,
    held,
    null_column,
    text_bytes,
    to_large_string,
)
from psoup.expressions.texts.slices import cut, one_byte_each, substring
from psoup.expressions.tree import Call, Literal
from psoup.model import BIGINT, BOOLEAN, TEXT
from psoup.values.columns import Array, Column
from psoup.values.from_arrow import column_from_arrow

SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""The characters that trim removes by default: Unicode's space separators; not tabs and line ends, as in DuckDB."""

_FAR = np.int64(2**32)
PLACES = 18
"""The bytes that substr allocates for each byte of a text that is not ASCII: the positions of its code points."""
_NAMES = 5
"""The size of texts as Python objects, as a multiple of their bytes."""
LONG_PART = 64
"""The most bytes of a separator or part that Arrow searches. Python searches longer ones.

Arrow's replace and split take time of the text's length times the part's. Python takes longer for each text, but for
long parts its time follows the text's length.
"""
_EMPTY = pa.scalar("", pa.large_string())


def _letters(change: Callable[[pa.Array], pa.Array]) -> Evaluator:
    """The evaluator of lower or upper. A letter of two bytes may become one of three: ȺȾ are ⱥⱦ."""

    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        frame.sizes.borrow(text_bytes(columns[0]) * 3 // 2)
        return finish_text(change(to_large_string(columns[0])), columns)

    return evaluator


def small_letters(column: Column, limit: int) -> Column:
    """A TEXT column in lower case: NULL for results of more than `limit` bytes. O(bytes)."""
    return held(finish_text(pc.utf8_lower(to_large_string(column)), [column]), limit)


def length(call: Call, frame: Frame) -> Column:
    """Compute length, in code points."""
    columns = frame.columns(call)
    counts = pc.utf8_length(to_large_string(columns[0])).fill_null(0)
    return finish(BIGINT, counts.to_numpy(zero_copy_only=False), columns)


def substr(call: Call, frame: Frame) -> Column:
    """Compute substr(text, start [, length]). A start or length beyond 2**32 is an error, as in DuckDB."""
    columns = frame.columns(call)
    numbers = [c.values for c in columns[1:]]
    far = np.zeros(frame.rows, np.bool_)
    for position, number in enumerate(numbers):
        far |= (number >= _FAR) | (number < -_FAR)
        numbers[position] = np.clip(number, -_FAR, _FAR)
    frame.sizes.borrow((1 if one_byte_each(columns[0]) else PLACES) * text_bytes(columns[0]))
    piece = substring(columns[0], numbers[0], numbers[1] if len(numbers) > 1 else None)
    return finish_text(piece, columns, far)


def _trim(strip: Callable[..., pa.Array]) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        characters = SPACES
        if len(call.args) == 2:
            constant = call.args[1]
            assert isinstance(constant, Literal)
            if constant.value is None:
                return null_column(TEXT, frame.rows)
            characters = str(constant.value)
        column = frame.column(call.args[0])
        frame.sizes.borrow(text_bytes(column))
        return finish_text(strip(to_large_string(column), characters=characters), [column])

    return evaluator


def concat(call: Call, frame: Frame) -> Column:
    """Concatenate all arguments, with NULLs as empty texts."""
    over = _too_long_together(call, frame)
    joined = pc.binary_join_element_wise(
        *_joinable(call, frame, over), _EMPTY, null_handling="replace", null_replacement=""
    )
    error = any_error([frame.column(arg) for arg in call.args if not isinstance(arg, Literal)])
    marks = [] if error is None else [Column(BOOLEAN, error, ~error, None, error)]
    return finish_text(joined, marks, over)


def concat_operator(call: Call, frame: Frame) -> Column:
    """Compute a || b, which is NULL if an argument is NULL."""
    if any(isinstance(arg, Literal) and arg.value is None for arg in call.args):
        columns = [frame.column(arg) for arg in call.args if not isinstance(arg, Literal)]
        return null_column(TEXT, frame.rows, any_error(columns))
    over = _too_long_together(call, frame)
    joined = pc.binary_join_element_wise(*_joinable(call, frame, over), _EMPTY)
    return finish_text(joined, [frame.column(arg) for arg in call.args if not isinstance(arg, Literal)], over)


def _too_long_together(call: Call, frame: Frame) -> Array | None:
    """Flags of rows whose arguments are too long for one text."""
    lengths = np.zeros(frame.rows, np.int64)
    for arg in call.args:
        lengths += frame.lengths(arg)
    return frame.sizes.check(lengths)


def _joinable(call: Call, frame: Frame, over: Array | None) -> list[pa.Array | pa.Scalar]:
    """The arguments for Arrow's concatenation, with empty texts in the rows that `over` flags.

    If all arguments are constants, the first is returned as an array. Then Arrow returns an array, not a scalar.
    """
    texts = [frame.text(arg) for arg in call.args]
    if over is not None:
        return [blank(text, over) for text in texts]
    if all(isinstance(text, pa.Scalar) for text in texts):
        texts[0] = to_large_string(frame.column(call.args[0]))
    return texts


def blank(text: pa.Array | pa.Scalar, over: Array) -> pa.Array:
    """The texts, with an empty text in each row that `over` flags."""
    return pc.if_else(pa.array(over), _EMPTY, text)


def starts_with(call: Call, frame: Frame) -> Column:
    """Whether the first text begins with the second."""
    subject, prefix = call.args
    if isinstance(prefix, Literal) and prefix.value is not None:
        column = frame.column(subject)
        matched = pc.starts_with(to_large_string(column), pattern=str(prefix.value))
        return finish(BOOLEAN, booleans(matched), [column])
    columns = frame.columns(call)
    whole, start = columns
    sizes = np.minimum(np.diff(whole.values), np.diff(start.values))
    frame.sizes.borrow(int(sizes.sum()))
    head = cut(whole, whole.values[:-1], whole.values[:-1] + sizes)
    return finish(BOOLEAN, booleans(pc.equal(head, to_large_string(start))), columns)


def contains(call: Call, frame: Frame) -> Column:
    """Whether the second text occurs in the first."""
    subject, part = call.args
    if isinstance(part, Literal) and part.value is not None:
        column = frame.column(subject)
        matched = pc.match_substring(to_large_string(column), pattern=str(part.value))
        return finish(BOOLEAN, booleans(matched), [column])
    columns = frame.columns(call)
    matched = by_distinct(columns, lambda text, key: pc.match_substring(text, pattern=key[0]), pa.bool_(), frame)
    return finish(BOOLEAN, booleans(matched), columns)


def replace(call: Call, frame: Frame) -> Column:
    """Replace every occurrence of the second text, from the left, by the third. An empty second text changes
    nothing.
    """
    subject, old, new = call.args
    if isinstance(old, Literal) and isinstance(new, Literal):
        column = frame.column(subject)
        if old.value is None or new.value is None:
            return null_column(TEXT, frame.rows)
        key, texts = (str(old.value), str(new.value)), to_large_string(column)
        over = _too_long_replaced(call, frame, lambda: _counted(texts, key))
        return finish_text(_replaced(texts if over is None else blank(texts, over), key), [column], over)
    columns = frame.columns(call)
    over = _too_long_replaced(call, frame, lambda: by_distinct(columns, _counted, pa.int64(), frame))
    if over is None:
        return finish_text(by_distinct(columns, _replaced, pa.large_string(), frame), columns)
    shortened = [column_from_arrow("subject", TEXT, blank(to_large_string(columns[0]), over)), *columns[1:]]
    return finish_text(by_distinct(shortened, _replaced, pa.large_string(), frame), columns, over)


def _replaced(text: pa.Array, key: tuple[str, ...]) -> pa.Array:
    old, new = (part.encode() for part in key)
    if len(old) > LONG_PART:
        replaced = [whole and whole.replace(old, new) for whole in bytes_of(text)]
        return pa.array(replaced, pa.large_binary()).cast(text.type)
    return pc.replace_substring(text, pattern=old, replacement=new) if old else text


def bytes_of(text: pa.Array) -> Iterator[bytes | None]:
    """Texts as Python objects, one at a time."""
    return (value.as_py() for value in text.cast(pa.large_binary()))


def _counted(text: pa.Array, key: tuple[str, ...]) -> pa.Array:
    """The number of occurrences of a text in other texts, as `replace` finds them."""
    return pc.count_substring(text, pattern=key[0]) if key[0] else pc.multiply(pc.binary_length(text), 0)


def _too_long_replaced(call: Call, frame: Frame, count: Callable[[], pa.Array]) -> Array | None:
    """Flags of rows with too long a result of replace. Occurrences are counted only if a result may be too long."""
    before, old, new = (frame.lengths(arg) for arg in call.args)
    grows = (new > old) & (old > 0)
    upper_bound = np.where(grows, before // np.maximum(old, 1) * new + before % np.maximum(old, 1), before)
    sizes = frame.sizes
    if upper_bound.max(initial=0) <= sizes.limits.value and sizes.kept + int(upper_bound.sum()) <= sizes.most:
        return None
    occurrences = count().fill_null(0).to_numpy(zero_copy_only=False)
    return sizes.check(before + occurrences * (new - old))


def by_distinct(
    columns: list[Column],
    apply: Callable[[pa.Array, tuple[str, ...]], pa.Array],
    result: pa.DataType,
    frame: Frame,
) -> pa.Array:
    """`apply(texts of columns[0], values of the other columns)` for each distinct tuple of those values.

    O(rows log rows) and one call of `apply` a distinct tuple. A row with a NULL argument is NULL.
    """
    frame.sizes.borrow(text_bytes(columns[0]) + _NAMES * sum(map(text_bytes, columns[1:])))
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
            parts.append(apply(table.column(0).chunk(0).take(pa.array(positions)), tuple(key.values())))
    if not parts:
        return pa.array([], result)
    inverse = np.argsort(np.concatenate(order))
    return pa.concat_arrays(parts).take(pa.array(inverse))


EVALUATORS: dict[str, Evaluator] = {
    "lower": _letters(pc.utf8_lower),
    "upper": _letters(pc.utf8_upper),
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
