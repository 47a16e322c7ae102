"""Functions on parts of texts: position, left and right, split, padding, repetition; characters and bytes.

    instr 'stream', 're' -> 3        split_part 'a,b,c', ',', -1 -> 'c'        lpad '7', 3, '0' -> '007'

The length of a result is computed before it is made (`sizes`): repeat('x', 10^9) is an error of its row.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise

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
    null_column,
    room,
    text_bytes,
    to_large_string,
)
from psoup.expressions.texts.slices import code_points, cut, one_byte_each, substring
from psoup.expressions.texts.text import LONG_PART, PLACES, blank, by_distinct, bytes_of
from psoup.expressions.tree import Call, Expr, Literal
from psoup.kernels.texts.pieces import find_pieces, first_letters, pad_texts, padded_sizes, reverse_texts
from psoup.model import BIGINT, BOOLEAN, TEXT
from psoup.values.columns import Array, Column

_FAR = np.int64(2**32)
_INT32 = np.int64(2**31)
_EMPTY = pa.scalar("", pa.large_string())
_LISTED = 10
"""The most bytes that a list of pieces takes for each byte of text."""
_DIGEST = 32


def _sizes(column: Column) -> Array:
    """The number of code points of each text, int64[n]; 0 for NULL."""
    counts: Array = pc.utf8_length(to_large_string(column)).fill_null(0).to_numpy(zero_copy_only=False)
    return counts.astype(np.int64, copy=False)


def _charge_places(frame: Frame, column: Column) -> None:
    frame.sizes.borrow((1 if one_byte_each(column) else PLACES) * text_bytes(column))


def position(call: Call, frame: Frame) -> Column:
    """Compute instr(text, part): the position of the part's first code point, counted from 1. It is 0 if the part is
    missing.
    """
    columns = frame.columns(call)
    text, part = columns[0], call.args[1]
    if isinstance(part, Literal):
        if part.value is None:
            return null_column(BIGINT, frame.rows)
        places = pc.find_substring(to_large_string(text), pattern=str(part.value))
    else:
        places = by_distinct(columns, lambda some, key: pc.find_substring(some, pattern=key[0]), pa.int64(), frame)
    offsets: Array = places.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    if not one_byte_each(text):
        _charge_places(frame, text)
        first, starts = code_points(text)
        number = np.searchsorted(starts, text.values[:-1] + np.maximum(offsets, 0)) - first[:-1]
        offsets = np.where(offsets < 0, -1, number)
    return finish(BIGINT, offsets + 1, columns)


def ends_with(call: Call, frame: Frame) -> Column:
    """Whether the first text ends with the second."""
    text, end = call.args
    if isinstance(end, Literal):
        if end.value is None:
            return null_column(BOOLEAN, frame.rows)
        column = frame.column(text)
        return finish(BOOLEAN, booleans(pc.ends_with(to_large_string(column), pattern=str(end.value))), [column])
    columns = frame.columns(call)
    matched = by_distinct(columns, lambda some, key: pc.ends_with(some, pattern=key[0]), pa.bool_(), frame)
    return finish(BOOLEAN, booleans(matched), columns)


def _part(*, right: bool) -> Evaluator:
    """The evaluator of left(text, n) or right(text, n). A negative n leaves out characters of the other side."""

    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        text, count = columns[0], columns[1].values
        far = None if right else count >= _FAR  # DuckDB takes left for a substr
        count = np.clip(count, -_FAR, _FAR)
        _charge_places(frame, text)
        if right:
            start = np.where(count < 0, 1 - count, np.where(count == 0, _FAR, -count))
            return finish_text(substring(text, start, None), columns)
        if (count < 0).any():
            count = np.where(count < 0, np.maximum(_sizes(text) + count, 0), count)
        return finish_text(substring(text, np.ones_like(count), count), columns, far)

    return evaluator


def reverse(call: Call, frame: Frame) -> Column:
    """The code points from the last to the first."""
    columns = frame.columns(call)
    ends, data = columns[0].values, columns[0].data
    assert data is not None
    frame.sizes.borrow(text_bytes(columns[0]))
    turned = np.empty(text_bytes(columns[0]), np.uint8)
    reverse_texts(ends, data, turned)
    return Column(TEXT, ends - ends[0], columns[0].valid, turned, columns[0].error)


def repeat(call: Call, frame: Frame) -> Column:
    """Compute repeat(text, n), which is '' unless n is positive."""
    columns = frame.columns(call)
    lengths = np.diff(columns[0].values)
    times = np.clip(columns[1].values, 0, frame.sizes.limits.value + 1)
    over = frame.sizes.check(lengths * times)
    if over is not None:
        times = np.where(over, 0, times)
    times = np.where(lengths == 0, 0, times)
    return finish_text(pc.binary_repeat(to_large_string(columns[0]), pa.array(times)), columns, over)


def _pad(*, left: bool) -> Evaluator:
    """The evaluator of lpad or rpad(text, n, padding): n code points. A row without anything to pad with is an
    error.
    """

    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        text, count, padding = columns
        wanted = np.clip(count.values, 0, _INT32)
        failed = (count.values >= _INT32) | (count.values < -_INT32)
        kept_bytes, sizes = np.empty((2, frame.rows), np.int64)
        padded_sizes(text.values, text.data, padding.values, padding.data, wanted, kept_bytes, sizes)
        failed |= sizes < 0
        over = frame.sizes.check(np.where(failed, 0, sizes))
        padded = room(sizes, columns, failed if over is None else failed | over)
        pad_texts(text.values, text.data, padding.values, padding.data, kept_bytes, left, padded.values, padded.data)
        return padded

    return evaluator


def concat_with(call: Call, frame: Frame) -> Column:
    """Compute concat_ws(separator, ...): join the arguments that are not NULL. The result is NULL if the separator is
    NULL.
    """
    separator, *args = call.args
    lengths, count = np.zeros(frame.rows, np.int64), np.zeros(frame.rows, np.int64)
    for arg in args:
        lengths += frame.lengths(arg)
        count += _given(frame, arg)
    over = frame.sizes.check(lengths + np.maximum(count - 1, 0) * frame.lengths(separator))
    texts = [frame.text(arg) for arg in (*args, separator)]
    if over is not None:
        texts = [blank(text, over) for text in texts]
    elif all(isinstance(text, pa.Scalar) for text in texts):
        texts[0] = to_large_string(frame.column(args[0]))
    nothing = count == 0
    if nothing.any():  # Arrow (26.0) leaves rows of nothing but NULL out, where the separator is a scalar
        texts[0] = blank(texts[0], nothing)
    joined = pc.binary_join_element_wise(*texts, null_handling="skip")
    error = any_error([frame.column(arg) for arg in args if not isinstance(arg, Literal)])
    marks = [] if error is None else [Column(BOOLEAN, error, ~error, None, error)]
    return finish_text(joined, [frame.column(separator), *marks], over)


def _given(frame: Frame, arg: Expr) -> Array | bool:
    """Flags of rows in which an argument is not NULL."""
    if isinstance(arg, Literal):
        return arg.value is not None
    valid = frame.column(arg).valid
    return True if valid is None else valid


def split_part(call: Call, frame: Frame) -> Column:
    """Compute split_part(text, separator, n): the n-th part, counted from the end if n is negative.

    The result is '' if there is no such part.
    """
    columns = frame.columns(call)
    text, number = columns[0], columns[2].values
    assert text.data is not None
    assert columns[1].data is not None
    frame.sizes.borrow(_LISTED * text_bytes(text))
    number = np.clip(number, -_FAR, _FAR)
    if np.diff(columns[1].values).max(initial=0) > LONG_PART:
        piece = _long_pieces(columns, number)
    else:
        begin, stop = np.empty((2, frame.rows), np.int64)
        find_pieces(text.values, text.data, columns[1].values, columns[1].data, number, begin, stop)
        piece = cut(text, begin, stop)
    characters = _empty(columns[1])
    if characters.any():  # every character is a part
        _charge_places(frame, text)
        single = substring(text, number, np.where(number == 0, 0, 1))
        piece = pc.if_else(pa.array(characters), single, piece)
    return finish_text(piece, columns)


def _long_pieces(columns: list[Column], numbers: Array) -> pa.Array:
    """Compute split_part for long separators, with a step of Python for each row; its time follows the text's
    length."""
    parts = []
    texts, separators = (bytes_of(to_large_string(column)) for column in columns[:2])
    for text, separator, number in zip(texts, separators, numbers.tolist(), strict=True):
        pieces = text.split(separator) if text and separator else []
        place = number - 1 if number > 0 else number + len(pieces)
        parts.append(pieces[place] if number and 0 <= place < len(pieces) else b"")
    return pa.array(parts, pa.large_binary()).cast(pa.large_string())


def _empty(column: Column) -> Array:
    empty: Array = np.diff(column.values) == 0
    return empty if column.valid is None else empty & column.valid


def byte_length(factor: int) -> Evaluator:
    """The evaluator of strlen, in bytes, or of bit_length. `factor`: 1 or 8."""

    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        return finish(BIGINT, np.diff(columns[0].values) * factor, columns)

    return evaluator


def _first_code_point(nothing: int) -> Evaluator:
    """The evaluator of ascii or unicode. `nothing`: the value for ''."""

    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        text = columns[0]
        assert text.data is not None
        values = np.empty(frame.rows, np.int64)
        first_letters(text.values, text.data, nothing, values)
        return finish(BIGINT, values, columns)

    return evaluator


def character(call: Call, frame: Frame) -> Column:
    """Compute chr(n): the text of one code point. A number that is no code point is an error."""
    columns = frame.columns(call)
    points = columns[0].values
    failed = (points < 0) | (points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))
    points = np.where(failed, 0, points)
    frame.sizes.borrow(8 * frame.rows)
    data = points.astype("<u4").tobytes().decode("utf-32-le").encode()
    widths = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return finish_text(pa.Array.from_buffers(pa.large_string(), frame.rows, buffers), columns, failed)


def md5(call: Call, frame: Frame) -> Column:
    """Compute md5: a text of 32 letters. Python takes a step for each row, but the digest takes longer."""
    columns = frame.columns(call)
    text = columns[0]
    assert text.data is not None
    frame.sizes.borrow(text_bytes(text) + 4 * _DIGEST * frame.rows)
    data = text.data.tobytes()
    digests = [
        hashlib.md5(data[start:stop], usedforsecurity=False).hexdigest()
        for start, stop in pairwise(text.values.tolist())
    ]
    return finish_text(pa.array(digests, pa.large_string()), columns)


EVALUATORS: dict[str, Evaluator] = {
    "instr": position,
    "ends_with": ends_with,
    "left": _part(right=False),
    "right": _part(right=True),
    "reverse": reverse,
    "repeat": repeat,
    "lpad": _pad(left=True),
    "rpad": _pad(left=False),
    "concat_ws": concat_with,
    "split_part": split_part,
    "strlen": byte_length(1),
    "bit_length": byte_length(8),
    "ascii": _first_code_point(0),
    "unicode": _first_code_point(-1),
    "chr": character,
    "md5": md5,
}
