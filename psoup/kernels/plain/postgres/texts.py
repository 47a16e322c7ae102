"""Twins of `psoup.kernels.postgres.texts`."""

from __future__ import annotations

import struct

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.plain.postgres import put, taken
from psoup.kernels.postgres.texts import DATES, ZONED

_DAY = 86_400_000_000


def integer_texts(values: Array, ends: Array, out: Array) -> int:
    """See the kernel."""
    return put((str(value).encode() for value in values.tolist()), ends, out)


def float_texts(offsets: Array, data: Array, limit: int, ends: Array, out: Array) -> int:
    """See the kernel."""
    return put((_float(text.decode(), limit).encode() for text in taken(offsets, data)), ends, out)


def _float(text: str, limit: int) -> str:
    """A float in the form of C's %g, with all of its digits."""
    words = {"": "", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    if text in words:
        return words[text]
    sign, number = ("-", text[1:]) if text.startswith("-") else ("", text)
    mantissa, _, power = number.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = len(whole) + int(power or 0) - len(whole + fraction) + len(digits) - 1
    digits = digits.rstrip("0") or "0"
    if digits == "0":
        return f"{sign}0"
    if not -4 <= exponent < limit:
        rest = f".{digits[1:]}" if digits[1:] else ""
        return f"{sign}{digits[0]}{rest}e{exponent:+03d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    before, after = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{before}.{after}" if after else sign + before


def decimal_texts(offsets: Array, data: Array, scale: int, ends: Array, out: Array) -> int:
    """See the kernel."""
    return put((_decimal(text.decode(), scale).encode() for text in taken(offsets, data)), ends, out)


def _decimal(text: str, scale: int) -> str:
    if not text:
        return ""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits = digits.rjust(scale + 1, "0")
    return f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else sign + digits


def numeric_values(offsets: Array, data: Array, scale: int, ends: Array, out: Array) -> int:
    """See the kernel."""
    return put((_numeric(text.decode(), scale) if text else b"" for text in taken(offsets, data)), ends, out)


def _numeric(text: str, scale: int) -> bytes:
    behind = (scale + 3) // 4
    rest, groups = abs(int(text)) * 10 ** (4 * behind - scale), list[int]()
    while rest:
        rest, group = divmod(rest, 10_000)
        groups.append(group)
    weight = max(len(groups) - behind - 1, -behind - 1) if groups else 0
    while groups and not groups[0]:
        groups.pop(0)
    sign = 0x4000 if groups and text.startswith("-") else 0
    return struct.pack(f"!HhHH{len(groups)}H", len(groups), weight, sign, scale, *reversed(groups))


def time_texts(values: Array, offsets: Array, form: int, ends: Array, out: Array) -> int:
    """See the kernel."""
    pairs = zip(values.tolist(), offsets.tolist(), strict=True)
    return put((_time(value, offset, form).encode() for value, offset in pairs), ends, out)


def _time(value: int, offset: int, form: int) -> str:
    days, micros = (value, 0) if form == DATES else divmod(value + offset * 1_000_000, _DAY)
    cycles, day = divmod(days + 719_162, 146_097)  # a cycle has 400 years; the first one begins with the year 1
    date = np.datetime64("2001-01-01") + day
    year, month_and_day = int(str(date)[:4]) - 2000 + 400 * cycles, str(date)[4:]
    text = f"{year if year > 0 else 1 - year:04d}{month_and_day}"
    if form != DATES:
        text += f" {_two(micros // 1_000_000, 2)}"
        text += f".{micros % 1_000_000:06d}".rstrip("0") if micros % 1_000_000 else ""
    if form == ZONED:
        parts = 0 if abs(offset) % 3600 == 0 else 1 if abs(offset) % 60 == 0 else 2
        text += f"{'-' if offset < 0 else '+'}{_two(abs(offset), parts)}"
    return text if year > 0 else f"{text} BC"


def _two(seconds: int, parts: int) -> str:
    """Hours, and so many of minutes and seconds."""
    numbers = (seconds // 3600, seconds // 60 % 60, seconds % 60)
    return ":".join(f"{number:02d}" for number in numbers[: parts + 1])
