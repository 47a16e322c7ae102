"""Conversion of a CSV's texts to values of a column, and the reason for each invalid text.

distinct texts of a column ──Arrow──> values
                   └── it fails: bisected ──> values of the good texts, and a reason for each other text
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from psoup_proto.csv_rows.failing import failing
from psoup_proto.csv_rows.field import CsvField
from psoup_proto.csv_rows.times import instants_of_iso
from psoup_proto.json_rows.decimals import of_texts

ReasonOf = Callable[[bytes, CsvField], str]
"""Describes the fault of a value of a field, and the way out."""


def _in_any_case(words: tuple[str, ...]) -> list[str]:
    """Return each word in every mixture of capital and small letters, because Arrow's reader compares bytes."""
    return sorted(
        {"".join(letters) for word in words for letters in itertools.product(*zip(word, word.upper(), strict=True))}
    )


TRUE = _in_any_case(("true", "t", "yes", "y", "1"))
"""The texts that mean true, as CAST reads them."""
FALSE = _in_any_case(("false", "f", "no", "n", "0"))
"""The texts that mean false, as CAST reads them."""

_LOOKS = {
    pa.int64(): r"^[ \t]*-?([0-9]+|0[xX][0-9a-fA-F]+)[ \t]*$",
    pa.date32(): r"^[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}[ \t]*$",
}
"""Patterns that match every text that Arrow reads as a value of the type."""

_DIGIT = "[0-9]"
"""A pattern that matches a number in digits, but not infinity in letters."""


def typed(
    texts: pa.BinaryArray, field: CsvField, reason_of: ReasonOf, most: int | None = None
) -> tuple[pa.Array, dict[int, str]]:
    """Convert texts to values of a column. Invalid texts become NULL. Also returns their reasons by row.

    `most`: the most different invalid texts. If there are so many, all values are NULL.
    """
    different = texts.dictionary_encode()
    values = different.dictionary
    bad = _hopeless(values, field)[:most]
    hopeful = _without(values, bad)
    if len(bad) != most:
        bad += failing(len(values), lambda low, high: converted(hopeful.slice(low, high - low), field), most)
    if not bad:
        return converted(values, field).take(different.indices), {}
    reasons = {at: reason_of(values[at].as_py(), field) for at in bad}
    import pyarrow.compute as pc

    if most is not None and len(bad) >= most:
        array = pa.nulls(len(texts), field.arrow)
    else:
        array = converted(_without(values, bad), field).take(different.indices)
    codes = pc.fill_null(different.indices, -1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.isin(codes, bad))
    return array, {int(row): reasons[int(codes[row])] for row in rows}


def _hopeless(values: pa.Array, field: CsvField) -> list[int]:
    """Find the values that do not look like the type, by a pattern. Converting each of them would take 40 times as
    long.
    """
    import pyarrow.compute as pc

    looks = field.form.pattern if field.form else _LOOKS.get(field.arrow)
    if looks is None:
        return []
    try:
        fits = pc.match_substring_regex(values.cast(pa.string()), looks)
    except pa.ArrowInvalid:  # some text is not UTF-8
        return []
    rows: list[int] = np.flatnonzero(~pc.fill_null(fits, True).to_numpy(zero_copy_only=False)).tolist()
    return rows


def _without(values: pa.Array, places: list[int]) -> pa.Array:
    """Replace the values at some positions by NULL."""
    import pyarrow.compute as pc

    mask = pa.array(np.isin(np.arange(len(values)), places))
    return pc.if_else(mask, pa.scalar(None, pa.binary()), values) if places else values


def converted(values: pa.Array, field: CsvField) -> pa.Array:
    """Convert texts as Arrow's CSV reader does, times from ISO 8601, and numbers in the field's form.

    Raises ArrowInvalid.
    """
    import pyarrow.compute as pc

    text, arrow = values.cast(pa.string()), field.arrow
    if field.form:
        text = field.form.plain(text)
    if pa.types.is_string(arrow):
        return text
    if pa.types.is_timestamp(arrow):
        return instants_of_iso(text)
    if pa.types.is_decimal(arrow):
        return as_decimals(text, arrow)
    text = pc.utf8_trim(text, " \t")
    if not pa.types.is_boolean(arrow):
        result = text.cast(arrow)
        if pa.types.is_floating(arrow) and _infinite(result):
            written = pc.match_substring_regex(text, _DIGIT)
            if pc.any(pc.and_(pc.is_inf(result), written)).as_py():
                raise pa.ArrowInvalid("too large for a DOUBLE")
        return result
    true, false = pc.is_in(text, pa.array(TRUE)), pc.is_in(text, pa.array(FALSE))
    if not pc.all(pc.or_(pc.or_(true, false), pc.is_null(text))).as_py():
        raise pa.ArrowInvalid("neither true nor false")
    return pc.if_else(pc.is_null(text), pa.scalar(None, pa.bool_()), true)


def as_decimals(text: pa.Array | pa.ChunkedArray, arrow: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Convert texts to decimals. Raises one of REFUSALS for a text that the type cannot hold exactly. O(bytes)."""
    import pyarrow.compute as pc

    return of_texts(pc.utf8_trim(text, " \t"), arrow)


def has_exponents(data: bytes) -> bool:
    """Whether a number in the bytes may have a negative exponent, which Arrow's reader handles wrongly. O(bytes)."""
    letters = np.frombuffer(data, np.uint8)
    return bool((((letters[:-1] | 32) == ord("e")) & (letters[1:] == ord("-"))).any())


def is_doubtful(column: pa.ChunkedArray) -> bool:
    """Whether Arrow's reader may have accepted a number that is too large. O(values).

    Such a number became infinity, or has a digit too many.
    """
    if pa.types.is_decimal(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return True
    return pa.types.is_floating(column.type) and any(map(_infinite, column.chunks))


def _infinite(column: pa.Array) -> bool:
    return bool(np.isinf(column.to_numpy(zero_copy_only=False)).any())
