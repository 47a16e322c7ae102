"""The kinds of value in one table: their forms in memory, in Arrow and in files, and their order.

    kind       values                     order key (int64 unless said)
    BOOLEAN    bool[n]                    0, 1
    BIGINT     int64[n]                   itself
    DOUBLE     float64[n]                 bits made monotone; -0.0 = 0.0; one NaN, greatest
    DECIMAL    int64[n], scaled           itself
    TEXT       int64 offsets[n+1] + data  the UTF-8 bytes
    TIMESTAMP  int64[n] microseconds      itself
    DATE       int32[n] days              itself
    WIDE       LIMBS[n], scaled           none in int64; sorts use the rank of each value

To add a kind, first add a row to `TYPES`. Then `psoup.expressions` needs its names, conversions, arithmetic and text.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.kernels.rows.batch_body import BITS, DECIMAL, NARROW, TEXT, WIDE
from psoup.model import DataType, Kind
from psoup.values.limbs import LIMBS

LEAST = -(2**63)
"""The least int64."""
BEYOND = 2**63
"""The first integer above int64."""

_t = pa.types


class Family(enum.Enum):
    """A group of kinds whose values can be converted into one another. TEXT can be converted to and from all kinds."""

    BOOLEAN = "BOOLEAN"
    NUMBER = "NUMBER"
    TEXT = "TEXT"
    TIME = "TIME"


@dataclass(frozen=True, slots=True)
class KindFacts:
    """The facts about one kind: a row of `TYPES`."""

    family: Family
    dtype: np.dtype[Any]
    """The dtype of `Column.values`. For TEXT it is the dtype of the offsets."""
    arrow: pa.DataType | None
    """The Arrow type of values outside of the engine. Times are in UTC. None for kinds whose type depends on the
    precision."""
    memory: pa.DataType | None
    """The Arrow type that has the memory layout of the engine's values."""
    accepted: tuple[Callable[[pa.DataType], bool], ...]
    """Arrow types that may be pushed for this kind."""
    layout: int
    """The layout of values in a message, for `psoup.kernels.rows.batch_body`."""
    sample: object
    """A constant of the kind that any statement accepts."""
    encoding: str | None
    """The Parquet encoding in chunks on disk. With None, the library chooses.

    Eight columns of random integers, encoded as differences, take half the bytes of dictionary encoding. Writing takes
    a fifth of the time, and reading a third.
    """
    first: int | bytes = LEAST
    """The least order key."""
    beyond: int | bytes | None = BEYOND
    """The first key above the greatest key. None if the kind has no greatest key."""
    infinite: int | None = None
    """The value that other systems use for infinity. Its negative stands for minus infinity. A push with either
    value is refused, because here both would be ordinary values. None: the kind has no such value."""


def _float_key(value: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF)


_BOOL, _INT64, _INT32, _DOUBLE = map(np.dtype, (np.bool_, np.int64, np.int32, np.float64))
_MICROS = pa.timestamp("us")
_DELTA = "DELTA_BINARY_PACKED"
_TEXTS = (_t.is_string, _t.is_large_string, _t.is_string_view)
_ENDS = (_float_key(-np.inf), _float_key(np.nan) + 1)
_DAYS = 2**31 - 1

TYPES: dict[Kind, KindFacts] = {
    Kind.BOOLEAN: KindFacts(
        Family.BOOLEAN, _BOOL, pa.bool_(), pa.bool_(), (_t.is_boolean,), BITS, True, None, first=0, beyond=2
    ),
    Kind.BIGINT: KindFacts(Family.NUMBER, _INT64, pa.int64(), pa.int64(), (_t.is_integer,), WIDE, 1, _DELTA),
    Kind.DOUBLE: KindFacts(
        Family.NUMBER,
        _DOUBLE,
        pa.float64(),
        pa.float64(),
        (_t.is_floating, _t.is_integer),
        WIDE,
        1.0,
        "BYTE_STREAM_SPLIT",
        *_ENDS,
    ),
    Kind.DECIMAL: KindFacts(Family.NUMBER, _INT64, None, None, (_t.is_decimal, _t.is_integer), DECIMAL, 1, _DELTA),
    Kind.TEXT: KindFacts(
        Family.TEXT, _INT64, pa.string(), pa.large_string(), _TEXTS, TEXT, "!", None, first=b"", beyond=None
    ),
    Kind.TIMESTAMP: KindFacts(
        Family.TIME,
        _INT64,
        pa.timestamp("us", tz="UTC"),
        _MICROS,
        (_t.is_timestamp,),
        WIDE,
        0,
        _DELTA,
        infinite=BEYOND - 1,
    ),
    Kind.DATE: KindFacts(
        Family.TIME, _INT32, pa.date32(), pa.date32(), (_t.is_date,), NARROW, 0, _DELTA, infinite=_DAYS
    ),
    Kind.WIDE: KindFacts(Family.NUMBER, LIMBS, None, None, (), DECIMAL, 1, None),
}


def kinds_of(*families: Family) -> frozenset[Kind]:
    """The kinds of some families."""
    return frozenset(kind for kind, facts in TYPES.items() if facts.family in families)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of `data_type` outside of the engine."""
    return TYPES[data_type.kind].arrow or pa.decimal128(data_type.precision, data_type.scale)


def memory_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that has the memory layout of the engine's values."""
    if data_type.kind is Kind.WIDE:
        return arrow_type(data_type)
    return TYPES[data_type.kind].memory or pa.decimal64(data_type.precision, data_type.scale)


def accepts(data_type: DataType, source: pa.DataType) -> bool:
    """Whether values of an Arrow type may be pushed for `data_type`."""
    return bool(_t.is_null(source) or any(fits(source) for fits in TYPES[data_type.kind].accepted))


def ends(data_type: DataType) -> tuple[int | bytes, int | bytes | None]:
    """The least order key of a type, and the first key above its greatest."""
    facts = TYPES[data_type.kind]
    return facts.first, facts.beyond
