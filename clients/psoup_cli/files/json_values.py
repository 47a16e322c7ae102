"""JSON values of files: the contract's reading of JSON (`psoup_proto.json_rows`), with advice for files."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from psoup_client import InvalidData
from psoup_proto.csv_rows.faults import encoding_of
from psoup_proto.json_rows import numbers, text
from psoup_proto.json_rows.text import json_kind

__all__ = ["double", "json_kind", "json_value"]


def json_value(line: bytes | str, *, shortest: bool = False) -> Any:
    """Parse the JSON value on a line of a file. Raises InvalidData that names the column of the fault.

    Numbers with a point or an exponent are Decimals. With `shortest`, such a number is a float if the float has the
    same text.
    """
    decode = _FLOATS if shortest else _DECIMALS
    try:
        return decode(line if isinstance(line, str) else line.decode())
    except text.FAULTS as problem:
        raise _with_advice(text.fault(problem)) from None


def _with_advice(fault: text.JsonFault) -> InvalidData:
    if isinstance(fault, text.NotUtf8):
        return InvalidData(f"{fault}; say what the file is in, for instance --encoding {encoding_of(fault.byte)}")
    return InvalidData(
        f"{fault}{'; write one object on each line' if str(fault).startswith('it is not valid') else ''}"
    )


def double(value: Decimal) -> float:
    """Return the nearest float. Raises InvalidData if that is infinite."""
    try:
        return numbers.double(value)
    except ValueError as problem:
        raise InvalidData(str(problem)) from None


_DECIMALS, _FLOATS = text.decoder(), text.decoder(shortest=True)
