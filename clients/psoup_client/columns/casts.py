"""Casts of Arrow arrays to the Arrow types of a stream's columns, if they change no value.

    float  1.5  ──> DECIMAL(9,2)   1.50      exact at the column's scale: 0.1 + 0.2 is not
    int64  1.7e12  ──> TIMESTAMP   with a unit: epoch milliseconds
    text   "04.07.2013"  ──> DATE  with a format, "%d.%m.%Y"; ISO 8601 is always read
    time   ns, ms, s  ──> TIMESTAMP in microseconds, where nothing is lost

A value that cannot be converted raises an error of Arrow, or ValueError; `psoup_client.columns.convert` finds its row
and column.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from psoup_client.columns import decimals
from psoup_client.columns.zones import aware, check_zone, localized
from psoup_proto.csv_rows.failing import REFUSALS as REFUSALS
from psoup_proto.csv_rows.failing import failing as failing
from psoup_proto.csv_rows.times import INSTANT as INSTANT
from psoup_proto.csv_rows.times import instants_of_iso

TimeUnit = Literal["s", "ms", "us", "ns"]
"""The unit of numbers that are times since 1970."""

UNITS: dict[TimeUnit, float] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}
"""The number of microseconds in each unit."""

_NUMBER = r"^\s*[+-]?\d+(\.\d*)?\s*$"
_SHORT = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%D": "%m/%d/%y", "%R": "%H:%M", "%e": "%d"}
"""Directives of C's strptime, and the longer form that Python needs."""

_SCALES = {"s": 6, "ms": 3, "us": 0}


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """Formats of times and dates that are not in ISO 8601, and the zone of times without one.

    `unit`: the unit of numbers counted from 1970: "s", "ms", "us" or "ns"; None: numbers are not times. `formats`:
    formats of texts, as in Python's strptime, tried in this order before ISO 8601. `zone`: the zone of times without
    one; None: UTC. Raises ValueError for a format without a day, and for an unknown zone.
    """

    unit: TimeUnit | None = None
    formats: tuple[str, ...] = ()
    zone: str | None = None

    def __post_init__(self) -> None:
        unit_of(self.unit)
        formats = tuple(_long(given) for given in self.formats)
        for given, long in zip(self.formats, formats, strict=True):
            _check_format(given, long)
        object.__setattr__(self, "formats", formats)
        object.__setattr__(self, "zone", check_zone(self.zone))

    def within(self, zone: str | None) -> TimeOptions:
        """The same options, with `zone` unless they have a zone."""
        return self if zone is None or self.zone is not None else replace(self, zone=zone)

    def zoneless(self, source: pa.DataType) -> bool:
        """Whether times of an Arrow type are in `zone`, because they have no zone of their own."""
        t = pa.types
        return self.zone is not None and bool(t.is_date(source) or (t.is_timestamp(source) and source.tz is None))


def unit_of(text: str | None) -> TimeUnit | None:
    """Return the unit with that name; None for None. Raises ValueError for another text."""
    unit = next((unit for unit in UNITS if unit == text), None)
    if text is not None and unit is None:
        raise ValueError(f"time_unit is {text!r}: give one of {', '.join(UNITS)}")
    return unit


ISO = TimeOptions()
"""The options for times in ISO 8601 alone."""


def _long(given: str) -> str:
    for short, long in _SHORT.items():
        given = given.replace(short, long)
    return given


def _check_format(given: str, long: str) -> None:
    day = dt.datetime(2013, 7, 4, 12, 34, 56, tzinfo=dt.UTC)
    try:
        read = dt.datetime.strptime(day.strftime(long), long)
    except ValueError as problem:
        raise ValueError(f"{given!r} is not a format of dates: {problem}") from None
    if read.date() != day.date():
        raise ValueError(f"{given!r} does not say year, month and day, as %d.%m.%Y does")


def goes_as_it_is(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the service itself takes `source` for `target`, and the cast of no value can fail."""
    t = pa.types
    if t.is_integer(target):
        return bool(t.is_integer(source) and not t.is_uint64(source))
    if t.is_floating(target):
        return bool(t.is_floating(source) or (t.is_integer(source) and source.bit_width <= 32))
    if t.is_string(target):
        return bool(t.is_large_string(source) or t.is_string_view(source))
    return bool(t.is_timestamp(target) and t.is_timestamp(source) and source.unit == "us")


def may_convert(source: pa.DataType, target: pa.DataType, times: TimeOptions) -> bool:
    """Whether a cast can convert at least one value of the type `source` to `target`."""
    t = pa.types
    text, number = _is_text(source), t.is_integer(source) or t.is_floating(source)
    if t.is_integer(target):
        return bool(number)
    if t.is_floating(target):
        return bool(t.is_integer(source))
    if t.is_decimal(target):
        return bool((t.is_decimal(source) and source.scale >= decimals.PLACES.start) or number or text)
    if t.is_timestamp(target):
        return bool(t.is_timestamp(source) or t.is_date(source) or text or (number and times.unit))
    return bool(t.is_date(target) and (t.is_date(source) or t.is_timestamp(source) or text))


def _is_text(source: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(source) or t.is_large_string(source) or t.is_string_view(source))


def cast(array: pa.Array | pa.ChunkedArray, target: pa.DataType, times: TimeOptions) -> pa.Array | pa.ChunkedArray:
    """Convert every value to `target`. Raises one of REFUSALS if a value cannot be converted."""
    t = pa.types
    if _is_text(array.type):
        if t.is_timestamp(target):
            return _parse_times(array.cast(pa.string()), times)
        if t.is_date(target) and times.formats:
            return cast(_parse_times(array.cast(pa.string()), replace(times, zone=None)), target, times)
    if t.is_timestamp(target) and times.zone is not None and times.zoneless(array.type):
        return localized(array, times.zone)
    if t.is_timestamp(target) and (t.is_integer(array.type) or t.is_floating(array.type)):
        return _from_epoch(array, times.unit)
    if t.is_decimal(target):
        return _decimals(array, target)
    if t.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    result = array.cast(target)
    if t.is_date(target) and t.is_timestamp(array.type) and not result.cast(array.type).equals(array):
        raise ValueError("a DATE has no time of day")  # Arrow would cut it off
    return result


def _decimals(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if _is_text(array.type):
        return decimals.of_texts(array.cast(pa.string()), target)
    if pa.types.is_floating(array.type):
        return _exact_decimals(array, target)
    if pa.types.is_decimal(array.type):
        return decimals.of_decimals(array, target)
    return array.cast(pa.decimal128(20, 0)).cast(target)


def _exact_decimals(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array:
    """Convert floats to decimals with the scale of `target`.

    Raises ValueError for a float that is not nearest to one.
    """
    unscaled, valid = _scaled(array, target.scale)
    if (np.abs(unscaled) >= 10**target.precision).any():
        raise ValueError(f"it is too large for {target}")
    parts = np.empty((len(unscaled), 2), np.int64)  # 128 bits: the number, and its sign extension
    parts[:, 0], parts[:, 1] = unscaled, unscaled >> 63
    decimals = pa.Array.from_buffers(target, len(parts), [None, pa.py_buffer(parts)])
    return _where(valid, decimals)


def _scaled(array: pa.Array | pa.ChunkedArray, scale: int) -> tuple[Any, Any]:
    """Return value * 10^scale of floats as int64 (0 for NULL), and a mask of the values that are not NULL.

    Below 2^53 no two decimal numbers of that scale have the same nearest double, and a division by a power of ten
    rounds to the nearest. So equality shows that the float stands for exactly this number. For a 32-bit float the bound
    is 2^24.
    """
    import pyarrow.compute as pc  # imported here: it takes 40 ms, and most clients do not need it

    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    valid = np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), bool)
    given = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        values = np.rint(given.astype(np.float64) * 10.0**scale)
        same = ((values / 10.0**scale).astype(given.dtype) == given) & (
            np.abs(values) <= 2.0 ** (np.finfo(given.dtype).nmant + 1)
        )
    if not same.all():
        raise ValueError(f"it is not exact at {scale} digits")
    return values.astype(np.int64), valid


def _where(valid: Any, values: pa.Array) -> pa.Array:
    """Replace the values that `valid` does not mark by NULL."""
    import pyarrow.compute as pc

    return values if valid.all() else pc.if_else(pa.array(valid), values, pa.scalar(None, values.type))


def _from_epoch(array: pa.Array | pa.ChunkedArray, unit: TimeUnit | None) -> pa.Array | pa.ChunkedArray:
    """Convert numbers to times since 1970. Raises an error if a part of a microsecond would be lost."""
    if unit is None:
        raise ValueError("a number is a time only with a unit")
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64()).cast(pa.timestamp(unit, "UTC")).cast(INSTANT)
    if unit == "ns":
        return _from_epoch(array.cast(pa.int64()), unit)
    micros, valid = _scaled(array, _SCALES[unit])
    return _where(valid, pa.array(micros).cast(INSTANT))


def _parse_times(text: pa.Array | pa.ChunkedArray, times: TimeOptions) -> pa.Array | pa.ChunkedArray:
    """Convert texts to instants.

    It tries numbers of the unit, then the formats, then ISO 8601, with or without a zone.
    """
    if times.unit is None and not times.formats:
        return _parse_iso(text, times.zone)
    import pyarrow.compute as pc

    text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    parsed, nothing = pa.nulls(len(text), INSTANT), pa.scalar(None, pa.string())
    if times.unit is not None:
        numbers = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, nothing)
        parsed, text = _epoch_of_text(numbers, times.unit), pc.if_else(pc.is_valid(numbers), nothing, text)
    for given in times.formats:
        if text.null_count == len(text):
            break
        instants = _parse_format(text, given, times.zone)
        parsed, text = pc.coalesce(parsed, instants), pc.if_else(pc.is_valid(instants), nothing, text)
    return parsed if text.null_count == len(text) else pc.coalesce(parsed, _parse_iso(text, times.zone))


def _epoch_of_text(text: pa.Array, unit: TimeUnit) -> pa.Array:
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(text)
    if unit == "ns":
        return text.cast(pa.int64()).cast(pa.timestamp("ns", "UTC")).cast(INSTANT)
    numbers = decimals.of_texts(text, pa.decimal128(18, _SCALES[unit]))
    unscaled = pa.Array.from_buffers(pa.decimal128(18, 0), len(text), numbers.buffers(), offset=numbers.offset)
    return unscaled.cast(pa.int64()).cast(INSTANT)


def _parse_format(text: pa.Array, given: str, zone: str | None) -> pa.Array:
    """Parse texts in one format. A text in another format becomes NULL."""
    import pyarrow.compute as pc

    different = pc.utf8_trim_whitespace(text).dictionary_encode()
    values = different.dictionary
    if "%f" in given:
        return pa.array([_read(value, given, zone) for value in values.to_pylist()], INSTANT).take(different.indices)
    parsed = pc.strptime(values, given, "us", error_is_null=True)
    instants = parsed.cast(INSTANT)
    # C takes the 30th of February for the 1st of March: Python says which of the first days of months are meant.
    doubtful = np.flatnonzero(pc.less_equal(pc.day(instants), 3).fill_null(False).to_numpy(zero_copy_only=False))
    wrong = [int(at) for at in doubtful if _read(values[int(at)].as_py(), given, None) is None]
    if wrong:
        instants = pc.if_else(pa.array(np.isin(np.arange(len(values)), wrong)), pa.scalar(None, INSTANT), instants)
    if zone is not None and "%z" not in given.lower():
        instants = localized(instants.cast(pa.timestamp("us")), zone)
    return instants.take(different.indices)


def _read(value: str | None, given: str, zone: str | None) -> dt.datetime | None:
    try:
        read = None if value is None else dt.datetime.strptime(value, given)
    except ValueError:
        return None
    return None if read is None else aware(read, zone)


def _parse_iso(text: pa.Array | pa.ChunkedArray, zone: str | None = None) -> pa.Array | pa.ChunkedArray:
    """Parse ISO 8601 texts, with a zone or in `zone`. Digits below a microsecond have to be 0."""
    return instants_of_iso(text, None if zone is None else lambda local: localized(local, zone))
