"""Text as DATE and TIMESTAMP, for CAST; whole columns at a time.

    2020-1-31    2020/01/31    0044-03-15 (BC)    epoch       2020-01-31T10:00[:00[.123456]][Z | +02[:30] | UTC]

An offset is applied (the result is UTC); digits of a second beyond the sixth are cut. A DATE may have a time, an offset
or the name of a zone. They must be well formed and are ignored: the day is as written.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.civil import DAY_MICROS, FIRST_MICRO, LAST_DAY, LAST_MICRO, days_from_civil, days_in_month
from psoup.expressions.frame import booleans, to_large_string
from psoup.expressions.numbers.numeric import add_int64, mul_int64, sub_int64
from psoup.model import DataType
from psoup.values.columns import Array, Column

_SPACE = r"[ \t\n\v\f\r]*"
_DATE = (
    r"(?P<minus>-?)(?P<year>[0-9]{1,7})(?P<first>[ /\\-])(?P<month>[0-9]{1,2})(?P<second>[ /\\-])"
    r"(?P<day>[0-9]{1,2})(?P<bc>(?: \([bB][cC]\))?)"
)
_CLOCK = r"(?P<h>[0-9]{1,2}):(?:(?P<m>[0-9]{1,2})(?::(?:(?P<s>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?)?)?)?"
_OFFSET = r"(?P<zone>[+-])(?P<zh>[0-9]{2})(?::?(?P<zm>[0-9]{2})(?::?(?P<zs>[0-9]{2}))?)?"


def _pattern(zone: str, alone: str) -> str:
    """A pattern for a date with a time, or for a date followed by `alone`.

    After the time may be an offset, or a space and a `zone`.
    """
    time = rf"{_CLOCK}(?:(?:Z|{_OFFSET}| {zone}){_SPACE})?"
    return rf"\A{_SPACE}{_DATE}(?:{alone}|(?:T|[ \t\n\v\f\r]+){time})\z"


_FOR_DATE = _pattern(r"[A-Za-z0-9_/+-]*", _SPACE)
_FOR_TIMESTAMP = _pattern(r"(?:[uU][tT][cC]|Z)?", "")
_EPOCH = rf"(?i)\A{_SPACE}epoch{_SPACE}\z"


class _PatternGroups:
    """The groups of a pattern, as text and as int64."""

    def __init__(self, text: pa.Array, pattern: str) -> None:
        self._struct = pc.extract_regex(text, pattern=pattern)
        self.matched = booleans(self._struct.is_valid())

    def text(self, name: str) -> pa.Array:
        return pc.fill_null(pc.struct_field(self._struct, name), "")

    def same(self, name: str, text: str) -> Array:
        return booleans(pc.equal(self.text(name), text))

    def number(self, name: str) -> Array:
        """The digits of a group; 0 if it is empty."""
        text = self.text(name)
        filled = pc.if_else(pc.equal(text, ""), "0", text)
        values: Array = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return values


def to_date(column: Column, target: DataType) -> tuple[Array, Array]:
    """Days since 1970, int64[n], and flags of texts that are not a date."""
    text = to_large_string(column)
    fields = _PatternGroups(text, _FOR_DATE)
    days, failed = _days(fields)
    _, bad_time = _time_of_day(fields)
    failed |= bad_time | (np.abs(days) > LAST_DAY)
    epoch = booleans(pc.match_substring_regex(text, pattern=_EPOCH))
    return np.where(failed, 0, days), failed & ~epoch


def _days(fields: _PatternGroups) -> tuple[Array, Array]:
    year, month, day = (fields.number(name) for name in ("year", "month", "day"))
    minus, before_christ = fields.same("minus", "-"), ~fields.same("bc", "")
    separators = booleans(pc.equal(fields.text("first"), fields.text("second")))
    good = fields.matched & separators & ~(before_christ & (minus | (year == 0)))
    year = np.where(before_christ, 1 - year, np.where(minus, -year, year))
    good &= (month >= 1) & (month <= 12)
    month = np.where(good, month, 1)
    good &= (day >= 1) & (day <= days_in_month(year, month))
    return np.where(good, days_from_civil(year, month, day), 0), ~good


def _time_of_day(fields: _PatternGroups) -> tuple[Array, Array]:
    """Microseconds since midnight, int64[n], up to 24:00 (0 without a time), and flags of invalid times."""
    hour, minute, second = (fields.number(name) for name in ("h", "m", "s"))
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(fields.text("fraction"), width=6, padding="0"), 0, 6)
    micros = digits.cast(pa.int64()).to_numpy(zero_copy_only=False)
    failed = (hour > 24) | (minute > 59) | (second > 59) | ((hour == 24) & (minute + second + micros > 0))
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros, failed


def to_timestamp(column: Column, target: DataType) -> tuple[Array, Array]:
    """Microseconds since 1970 UTC, int64[n], and flags of texts that are not a time."""
    text = to_large_string(column)
    fields = _PatternGroups(text, _FOR_TIMESTAMP)
    days, failed = _days(fields)
    of_day, bad_time = _time_of_day(fields)
    offset = (fields.number("zh") * 60 + fields.number("zm")) * 60 + fields.number("zs")
    offset = np.where(fields.same("zone", "-"), -offset, offset) * 1_000_000
    midnight, too_far = mul_int64(days, np.full(len(days), DAY_MICROS))
    local, over = add_int64(midnight, of_day)
    values, beyond = sub_int64(local, offset)
    failed |= bad_time | too_far | over | beyond | (values > LAST_MICRO) | (values < FIRST_MICRO)
    epoch = booleans(pc.match_substring_regex(text, pattern=_EPOCH))
    return np.where(failed, 0, values), failed & ~epoch
