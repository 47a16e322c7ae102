"""Conversion of a CSV's texts to values of a column, and the reason for each invalid text.

distinct texts of a column ──Arrow──> values
                   └── it fails: bisected ──> values of the good texts, and a reason for each other text
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup_client.columns.casts import failing
from psoup_client.columns.decimals import is_number, of_texts


def _in_any_case(words: tuple[str, ...]) -> list[str]:
    """Return each word in every mixture of capital and small letters, because Arrow's reader compares bytes."""
    return sorted(
        {"".join(letters) for word in words for letters in itertools.product(*zip(word, word.upper(), strict=True))}
    )


TRUE = _in_any_case(("true", "t", "yes", "y", "1"))
"""The texts that mean true, as CAST reads them."""
FALSE = _in_any_case(("false", "f", "no", "n", "0"))
"""The texts that mean false, as CAST reads them."""

_TRUTHS = "true or false, t or f, yes or no, y or n, 1 or 0"

_LOOKS = {
    pa.int64(): r"^[ \t]*-?([0-9]+|0[xX][0-9a-fA-F]+)[ \t]*$",
    pa.date32(): r"^[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}[ \t]*$",
}
"""Patterns that match every text that Arrow reads as a value of the type."""

_DIGIT = "[0-9]"
"""A pattern that matches a number in digits, but not infinity in letters."""


@dataclass(frozen=True, slots=True)
class CsvField:
    """A field of a CSV: the name of its column, the type that Arrow reads, and the type's name in SQL."""

    name: str
    arrow: pa.DataType
    sql: str


def typed(texts: pa.BinaryArray, field: CsvField) -> tuple[pa.Array, dict[int, str]]:
    """Convert texts to values of a column. Invalid texts become NULL. Also returns their reasons by row."""
    different = texts.dictionary_encode()
    values = different.dictionary
    bad = _hopeless(values, field)
    hopeful = _without(values, bad)
    bad += failing(len(values), lambda low, high: _converted(hopeful.slice(low, high - low), field.arrow))
    if not bad:
        return _converted(values, field.arrow).take(different.indices), {}
    reasons = {at: _reason(values[at].as_py(), field) for at in bad}
    import pyarrow.compute as pc

    array = _converted(_without(values, bad), field.arrow).take(different.indices)
    codes = pc.fill_null(different.indices, -1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.isin(codes, bad))
    return array, {int(row): reasons[int(codes[row])] for row in rows}


def _hopeless(values: pa.Array, field: CsvField) -> list[int]:
    """Find the values that do not look like the type, by a pattern. Converting each of them would take 40 times as
    long.
    """
    import pyarrow.compute as pc

    looks = _LOOKS.get(field.arrow)
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


def _converted(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Convert texts as Arrow's CSV reader does. Raises ArrowInvalid."""
    import pyarrow.compute as pc

    text = values.cast(pa.string())
    if pa.types.is_string(arrow):
        return text
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


def _reason(value: bytes, field: CsvField) -> str:
    """Describe the fault of a value, and the way out."""
    try:
        shown = repr(value.decode()[:100])
    except UnicodeDecodeError:
        shown = repr(value[:100])[1:]  # the form of a bytes literal, without the b
    shown += "…" if len(value) > 100 else ""
    place = f"column {field.name!r}, {shown}"
    try:
        text = value.decode().strip()
    except UnicodeDecodeError as problem:
        byte = value[problem.start : problem.end].hex(" ")
        return f"{place}: byte {byte} is not utf-8; say what the file is in with --encoding, latin-1 for instance"
    if pa.types.is_decimal(field.arrow) and is_number(text):
        return f"{place}: it has more digits than {field.sql} holds; round it"
    if field.sql == "BOOLEAN":
        return f"{place}: it is not a valid BOOLEAN; write {_TRUTHS}; if that stands for NULL, name it with --null"
    if pa.types.is_floating(field.arrow) and _is_number(text):
        return f"{place}: it is too large for a DOUBLE; write inf if it stands for infinity"
    if pa.types.is_int64(field.arrow) and text.lstrip("+-").isdigit():
        hint = "leave its sign out" if text.startswith("+") else "it is out of the range of 64 bits"
        return f"{place}: it is not a valid {field.sql}; {hint}"
    if "," in text and _is_number(text.replace(",", "")) and field.sql != "DATE":
        return f"{place}: it is not a valid {field.sql}; write a point for the decimal comma, and no thousands"
    if field.sql == "DATE" and any(letter.isdigit() for letter in text):
        return f"{place}: it is not a valid DATE; name its form with --date-format, %d.%m.%Y for instance"
    return f"{place}: it is not a valid {field.sql}; if that stands for NULL, name it with --null"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
