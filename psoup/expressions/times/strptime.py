"""Parsing of times by a format, strptime and try_strptime; whole columns at a time.

    strptime('29.02.20 1 PM', '%d.%m.%y %I %p')   ->   2020-02-29 13:00:00
              \\s*(\\d{1,2})\\.(\\d{1,2})\\.…      a pattern with a group for each specifier, made from the format once

A number takes as many digits as it may have, so a number followed by digits must have all of them: the pattern never
backtracks, like DuckDB's reader. A space stands for one or more spaces. Parts missing in the format are those of
1900-01-01.
"""

from __future__ import annotations

import calendar
import re
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.civil import DAY_MICROS, days_from_civil, days_in_month
from psoup.expressions.frame import Evaluator, Frame, booleans, finish, text_bytes, to_large_string
from psoup.expressions.times.moments import pieces
from psoup.expressions.tree import Call, Literal
from psoup.values.columns import Array, Column

MOST_PARTS = 32
"""The most specifiers of a format; each takes a column while texts are read."""
_COPIES = 4
"""The bytes that reading allocates, as a multiple of the bytes of the texts."""
_OFFSETS = 24
"""The bytes that reading allocates for each row and each part of the format."""

_SPACE = r"[ \t\n\v\f\r]"
_SPACES = re.compile(f"{_SPACE}+")
_DIGITS = "0123456789"
_DAYS = ("%j", "%m", "%d", "%b", "%B")
_EPOCH = rf"(?i)\A{_SPACE}*epoch{_SPACE}*\z"
_NEVER = r"\z."

NUMBERS: dict[str, tuple[str, int, int, int]] = {
    "%Y": ("year", 4, 0, 9999),
    "%y": ("short", 2, 0, 99),
    "%m": ("month", 2, 1, 12),
    "%d": ("day", 2, 1, 31),
    "%j": ("of_year", 3, 1, 366),
    "%H": ("hour", 2, 0, 23),
    "%I": ("hour", 2, 1, 12),
    "%M": ("minute", 2, 0, 59),
    "%S": ("second", 2, 0, 59),
    "%f": ("fraction", 6, 0, 999_999),
    "%g": ("fraction", 3, 0, 999),
}
"""The specifiers of numbers. For each: the part of a time, the most digits, and the bounds of the number."""
_NAMES = {
    "%b": list(calendar.month_abbr)[1:],
    "%B": list(calendar.month_name)[1:],
    "%a": list(calendar.day_abbr),
    "%A": list(calendar.day_name),
    "%p": ["AM", "PM"],
}
_OFFSET = r"[+-][0-9]{2}(?::[0-9]{2}(?::[0-9]{2})?|[0-9]{2})?"
_PADDED = frozenset("dmHIMSj")
READABLE = (*NUMBERS, *(f"%-{letter}" for letter in sorted(_PADDED)), *_NAMES, "%z")
"""The specifiers that strptime can read. A number also has the form with a minus, if strftime has it."""


def unreadable(parts: list[str]) -> str:
    """The reason why strptime cannot read a format; "" if it can. `parts`: the format as `pieces` returns it."""
    specifiers = [part.replace("-", "") for part in parts[1::2]]
    if len(specifiers) > MOST_PARTS:
        return f"reads at most {MOST_PARTS} parts of a time, not {len(specifiers)}"
    if "%j" in specifiers and sum(specifier in _DAYS for specifier in specifiers) > 1:
        return "takes the day of the year once, or the month and its day"
    for place, specifier in enumerate(specifiers):
        if specifier == "%z" and (_digits_follow(parts, place) or parts[2 * place + 2][:1] == ":"):
            return "cannot tell where %z ends: digits follow it"
    return ""


def _digits_follow(parts: list[str], place: int) -> bool:
    """Whether a digit must follow directly after a specifier."""
    after = parts[2 * place + 2]
    return after[0] in _DIGITS if after else "".join(parts[2 * place + 3 : 2 * place + 4]).replace("-", "") in NUMBERS


@lru_cache(maxsize=256)
def pattern_of(written: str) -> tuple[str, tuple[str, ...]]:
    """The pattern of a format, and the specifier of each group. O(length)."""
    parts = pieces(written, READABLE)
    specifiers = [part.replace("-", "") for part in parts[1::2]]
    pieces_of_pattern = [rf"\A{_SPACE}*", _NEVER if _SPACES.match(parts[0]) else "", _literal(parts[0])]
    for place, specifier in enumerate(specifiers):
        group = _group(specifier, _digits_follow(parts, place))
        pieces_of_pattern += [f"(?P<g{place}>{group})", _literal(parts[2 * place + 2])]
    return "".join([*pieces_of_pattern, rf"{_SPACE}*\z"]), tuple(specifiers)


def _literal(text: str) -> str:
    """The pattern of a text of a format, in which spaces match one or more spaces."""
    return f"{_SPACE}+".join(re.escape(part) for part in _SPACES.split(text))


def _group(specifier: str, digits_follow: bool) -> str:
    if specifier in NUMBERS:
        width = NUMBERS[specifier][1]
        return f"[0-9]{{{width}}}" if digits_follow else f"[0-9]{{1,{width}}}"
    return _OFFSET if specifier == "%z" else f"(?i:{'|'.join(_NAMES[specifier])})"


def read(call: Call, frame: Frame) -> Column:
    """Compute strptime(text, format), or try_strptime, which is NULL for an unreadable text."""
    value, written = call.args
    assert isinstance(written, Literal)
    column = frame.column(value)
    pattern, specifiers = pattern_of(str(written.value))
    frame.sizes.borrow(_COPIES * text_bytes(column) + _OFFSETS * frame.rows * len(specifiers))
    text = to_large_string(column)
    values, failed = _TimeParts(text, pattern, specifiers).time()
    result = finish(call.type, values, [column], _unless_epoch(text, failed))
    if call.name == "strptime":
        return result
    return Column(result.type, result.values, result.valid, None, column.error)


def _unless_epoch(text: pa.Array, failed: Array) -> Array:
    """The flags of failures, without rows whose text is the word epoch. It means 1970-01-01 in every format."""
    return failed & ~booleans(pc.match_substring_regex(text, pattern=_EPOCH)) if failed.any() else failed


class _TimeParts:
    """The parts of times that were read from texts. If a format has several parts of one kind, the last one counts."""

    def __init__(self, text: pa.Array, pattern: str, specifiers: tuple[str, ...]) -> None:
        groups = pc.extract_regex(text, pattern=pattern) if specifiers else None
        matched = pc.match_substring_regex(text, pattern=pattern) if groups is None else groups.is_valid()
        self.failed = ~booleans(matched)
        self._rows = len(text)
        self._parts: dict[str, Array] = {}
        for place, specifier in enumerate(specifiers):
            group = pc.struct_field(groups, f"g{place}")
            self._take(specifier, group)

    def _take(self, specifier: str, group: pa.Array) -> None:
        if specifier in NUMBERS:
            name, _, lowest, highest = NUMBERS[specifier]
            values = _whole(group)
            self.failed |= (values < lowest) | (values > highest)
            if name == "fraction":
                values = values * 10 ** (6 - pc.binary_length(group).fill_null(6).to_numpy().astype(np.int64))
            if name == "short":
                name, values = "year", np.where(values < 69, 2000, 1900) + values
            self._parts[name] = values
        elif specifier in ("%b", "%B"):
            self._parts["month"] = _place(group, _NAMES[specifier]) + 1
        elif specifier == "%p":
            self._parts["afternoon"] = _place(group, _NAMES[specifier])
        elif specifier == "%z":
            self._parts["offset"] = _seconds(group)

    def _part(self, name: str, otherwise: int) -> Array:
        values = self._parts.get(name)
        return np.full(self._rows, otherwise, np.int64) if values is None else values

    def time(self) -> tuple[Array, Array]:
        """Microseconds since 1970, int64[n], and flags of texts that are not a time."""
        hour = self._part("hour", 0)
        if "afternoon" in self._parts:
            self.failed |= hour > 12
            hour = hour % 12 + 12 * self._parts["afternoon"]
        seconds = (hour * 60 + self._part("minute", 0)) * 60 + self._part("second", 0) - self._part("offset", 0)
        micros = seconds * 1_000_000 + self._part("fraction", 0)
        values = self._days() * DAY_MICROS + micros
        return np.where(self.failed, 0, values), self.failed

    def _days(self) -> Array:
        year, month, day = (self._part(name, start) for name, start in (("year", 1900), ("month", 1), ("day", 1)))
        month = np.where(self.failed, 1, month)
        self.failed |= day > days_in_month(year, month)
        days: Array = days_from_civil(year, month, np.where(self.failed, 1, day))
        return days + self._part("of_year", 1) - 1


def _whole(digits: pa.Array) -> Array:
    """The digits as int64[n]. Without digits, 0."""
    values: Array = pc.fill_null(digits, "0").cast(pa.int64()).to_numpy(zero_copy_only=False)
    return values


def _place(names: pa.Array, listed: list[str]) -> Array:
    """The place of each name in a list, in upper or lower case. A name that is not in the list has 0."""
    folded = pc.index_in(pc.ascii_lower(names), pa.array([name.lower() for name in listed], names.type))
    places: Array = folded.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _seconds(offsets: pa.Array) -> Array:
    """The offsets from UTC in seconds, positive in the east."""
    digits = pc.ascii_rpad(pc.replace_substring(pc.utf8_slice_codeunits(offsets, 1), ":", ""), 6, "0")
    number = _whole(digits)
    seconds = (number // 10_000 * 60 + number // 100 % 100) * 60 + number % 100
    behind = booleans(pc.starts_with(offsets, "-"))
    signed: Array = np.where(behind, -seconds, seconds)
    return signed


EVALUATORS: dict[str, Evaluator] = {"strptime": read, "try_strptime": read}
