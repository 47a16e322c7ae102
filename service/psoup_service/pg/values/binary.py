"""Values in binary format, as PostgreSQL's functions typsend write them, one at a time.

`Plain` values come from `plain.plain_values`: times are microseconds since 1970, dates are days. Here they count from
2000.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from psoup.errors import OutOfRange
from psoup_service.pg.values import types

Binary = Callable[[Any], bytes]

DAYS_TO_2000 = 10_957
MICROS_TO_2000 = DAYS_TO_2000 * 86_400_000_000
NULL_SIZE = b"\xff\xff\xff\xff"
NAN_SIGN = 0xC000

_INT16, _INT32, _INT64, _UINT32 = (struct.Struct(form) for form in ("!h", "!i", "!q", "!I"))
_FLOAT4, _FLOAT8 = struct.Struct("!f"), struct.Struct("!d")
_LEAST = {8: -(2**63), 4: -(2**31)}


def _bool(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def _str(value: object) -> bytes:
    return str(value).encode("utf-8", "replace")


def before(column: str, oid: int) -> OutOfRange:
    """The error for a time that lies before the first one of PostgreSQL's binary format."""
    return OutOfRange(
        f"{column} has a {types.type_name(oid)} before the first that the binary format holds; select it as TEXT",
        reason="DATETIME_OVERFLOW",
    )


def _date(value: int) -> bytes:
    if value - DAYS_TO_2000 < _LEAST[4]:
        raise before("the answer", types.DATE)
    return _INT32.pack(value - DAYS_TO_2000)


def _timestamp(value: int) -> bytes:
    if value - MICROS_TO_2000 < _LEAST[8]:
        raise before("the answer", types.TIMESTAMPTZ)
    return _INT64.pack(value - MICROS_TO_2000)


def numeric_binary(value: Decimal) -> bytes:
    """A number as groups of four decimal digits. The scale stays."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return struct.pack("!hhHh", 0, 0, NAN_SIGN, 0)
    scale = max(-exponent, 0)
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    whole, fraction = divmod(number, 10**scale)
    groups = list[int]()
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.append(group)
    groups.reverse()
    weight = len(groups) - 1
    text = f"{fraction:0{scale}d}" if scale else ""
    groups += [int(text[at : at + 4].ljust(4, "0")) for at in range(0, scale, 4)]
    while groups and not groups[-1]:
        groups.pop()
    while groups and not groups[0]:
        groups.pop(0)
        weight -= 1
    weight = weight if groups else 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, 0x4000 if sign and groups else 0, scale, *groups)


_BINARY: dict[int, Binary] = {
    types.BOOL: _bool,
    types.BYTEA: bytes,
    types.INT2: _INT16.pack,
    types.INT4: _INT32.pack,
    types.INT8: _INT64.pack,
    types.OID: _UINT32.pack,
    types.XID: _UINT32.pack,
    types.CID: _UINT32.pack,
    types.INT2VECTOR: lambda values: _array(values, types.INT2, first=0),
    types.OIDVECTOR: lambda values: _array(values, types.OID, first=0),
    types.FLOAT4: _FLOAT4.pack,
    types.FLOAT8: _FLOAT8.pack,
    types.NUMERIC: numeric_binary,
    types.DATE: _date,
    types.TIME: _INT64.pack,
    types.TIMESTAMP: _timestamp,
    types.TIMESTAMPTZ: lambda value: _timestamp(value[0]),
}


def binary_of(oid: int) -> Binary:
    """The function that writes the values of a type. A TIMESTAMPTZ is a pair: microseconds, and its zone's offset."""
    if oid in types.ELEMENTS:
        return lambda values: _array(values, types.ELEMENTS[oid])
    return _BINARY.get(oid, _str)


def _array(values: list[Any], oid: int, first: int = 1) -> bytes:
    """`first`: the subscript of the first element; it is 0 in a vector of the catalogue."""
    shape = list[int]()
    level: Any = values
    while isinstance(level, list) and level:
        shape.append(len(level))
        level = level[0]
    element = binary_of(oid)
    flat = _flat(values)
    head = struct.pack("!iiI", len(shape), any(value is None for value in flat), oid)
    items = [NULL_SIZE if value is None else _sized(element(value)) for value in flat]
    return head + b"".join(struct.pack("!ii", size, first) for size in shape) + b"".join(items)


def _flat(values: list[Any]) -> list[Any]:
    return [item for value in values for item in (_flat(value) if isinstance(value, list) else [value])]


def _sized(raw: bytes) -> bytes:
    return _INT32.pack(len(raw)) + raw
