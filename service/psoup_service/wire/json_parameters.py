"""Parameters of a statement in JSON: they become columns, as parameters in Arrow IPC do.

    ["IBM", 7]  or  {"symbol": "IBM", "least": 7}         a row: in the order of the parameters, or by their names
    [["IBM", 7], ["SAP", 9]]                              a row for each query

Numbers keep their digits: those that a double does not hold are DECIMALs.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from psoup.errors import InvalidInput
from psoup.model import MAX_WIDE_PRECISION
from psoup_proto.json_rows.columns import checked_text, shown
from psoup_proto.json_rows.text import json_kind
from psoup_service.wire.json_rows import REASON, parsed


def read_parameters(raw: bytes, *, many: bool) -> tuple[pa.Table, bool]:
    """The table of a row of parameters, or of many rows, and whether its columns have names of parameters.

    Raises InvalidInput that names the place of the fault.
    """
    given = parsed(raw, "parameters", InvalidInput, shortest=True)
    if not many:
        _check_row(given, "parameters")
        return _table([given])
    if not isinstance(given, list) or not given:
        raise _wrong(f"parameters is {json_kind(given)}; write an array with a row for each query: [[…], […]]")
    for number, row in enumerate(given):
        _check_row(row, f"row {number} of parameters")
        if (
            type(row) is not type(given[0])
            or len(row) != len(given[0])
            or (type(row) is dict and set(row) != set(given[0]))
        ):
            raise _wrong(f"row {number} of parameters has other places or names than row 0; write all rows alike")
    return _table(given)


def _check_row(row: Any, subject: str) -> None:
    if not isinstance(row, list | dict):
        raise _wrong(f"{subject} is {json_kind(row)}; write an array in order, or an object by name")


def _table(rows: list[Any]) -> tuple[pa.Table, bool]:
    by_name = isinstance(rows[0], dict)
    titles: list[str] = list(rows[0]) if by_name else [str(place + 1) for place in range(len(rows[0]))]
    for title in titles:
        _check_characters(title, f"a name in parameters, {shown(title)},")
    places: list[Any] = titles if by_name else list(range(len(titles)))
    arrays = [
        _column(f"parameter {title}", [row[at] for row in rows]) for title, at in zip(titles, places, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=titles), by_name


def _column(place: str, values: list[Any]) -> pa.Array:
    """The values of a parameter, of one type; numbers without loss of a digit."""
    for value in values:
        if isinstance(value, list | dict):
            raise _wrong(f"{place} is {json_kind(value)}; write a number, a text, true, false or null")
        if isinstance(value, str):
            _check_characters(value, place)
        elif isinstance(value, int | Decimal) and not isinstance(value, bool):
            _check_digits(value, place)
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) > 1:
        if not kinds <= {int, float, Decimal}:
            raise _wrong(f"{place} has values of several kinds; give numbers, texts, or true and false")
        values = [
            None if value is None else Decimal(repr(value) if type(value) is float else value) for value in values
        ]
    elif kinds == {int} and not all(value is None or -(2**63) <= value < 2**63 for value in values):
        values = [None if value is None else Decimal(value) for value in values]
    try:
        return pa.array(values)
    except pa.ArrowException:
        raise _wrong(f"{place} has numbers that no one type holds; give them fewer digits") from None


def _check_digits(value: int | Decimal, place: str) -> None:
    number = Decimal(value)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "JSON has no infinity and no NaN here"
    before, after = max(len(digits) + exponent, 1), max(-exponent, 0)
    if before + after > MAX_WIDE_PRECISION:
        raise _wrong(
            f"{place} is {shown(value)}, with more than {MAX_WIDE_PRECISION} digits around the point; write fewer"
        )


def _check_characters(text: str, place: str) -> None:
    try:
        checked_text(text)
    except ValueError:
        raise _wrong(f"{place} has half of a character; write both halves of a surrogate pair") from None


def _wrong(why: str) -> InvalidInput:
    return InvalidInput(why, reason=REASON, field="parameters")
