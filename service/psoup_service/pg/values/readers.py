"""Values that clients send, in text and in binary format, one at a time.

    read_text(INT8, " 42 ")  ──>  42           read_binary(BOOL, b"\\1")  ──>  True
    read_text(TIMESTAMPTZ, "2024-05-01 12:00+02")  ──>  1714557600000000      microseconds since 1970

Times are microseconds and dates are days since 1970, as in `plain`. A fault raises InvalidInput, in PostgreSQL's words.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from typing import Any

from psoup.errors import InvalidInput, OutOfRange
from psoup_service.pg.values import array_texts, types
from psoup_service.pg.values.binary import DAYS_TO_2000, MICROS_TO_2000, NAN_SIGN
from psoup_service.pg.values.zones import UTC, Zone, seconds_of

_SHOWN = 60
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL = {"nan": math.nan}
_SPECIAL |= {sign + text: float(sign + text) for sign in ("", "+", "-") for text in ("inf", "infinity")}
_TRUE, _FALSE = {"1", "on"}, {"0", "of", "off"}
_DATE = re.compile(r"(\d{4,7})-(\d{1,2})-(\d{1,2})(.*)", re.DOTALL)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d*))?)?\s*(.*)", re.DOTALL)
_BITS = {types.INT2: 16, types.INT4: 32, types.INT8: 64}
_WHOLE = {types.INT2: "!h", types.INT4: "!i", types.INT8: "!q", types.OID: "!I"}
_FLOATS = {types.FLOAT4: "!f", types.FLOAT8: "!d"}
_MOST_DIGITS = 1_000
_MOST_LETTERS = 10_000
"""The most characters of a number, a time or a truth value."""
_DAY = 86_400_000_000
_CONTEXT = Context(prec=10 * _MOST_DIGITS, Emax=10**6, Emin=-(10**6))


def misread(oid: int, text: str) -> InvalidInput:
    """The error for a text that is not a value of a type."""
    return InvalidInput(
        f'invalid input syntax for type {types.type_name(oid)}: "{shortened(text)}"', reason="INVALID_TEXT"
    )


def beyond(oid: int, text: str) -> OutOfRange:
    """The error for a value that a type cannot hold."""
    reason = "DATETIME_OVERFLOW" if oid in (types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ, types.TIME) else None
    return OutOfRange(f'value "{shortened(text)}" is out of range for type {types.type_name(oid)}', reason=reason)


def shortened(text: str) -> str:
    """A text as messages show it: at most 60 characters."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def read_text(oid: int, text: str, zone: Zone = UTC) -> Any:
    """The value that a text stands for. `zone`: of times without a zone. Raises InvalidInput or OutOfRange."""
    if oid in types.ELEMENTS:
        element = types.ELEMENTS[oid]
        return array_texts.read_array(text, lambda item: read_text(element, item, zone), lambda: misread(oid, text))
    if oid in _SHORT and len(text) > _MOST_LETTERS:
        raise beyond(oid, text)
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        return _timestamp(oid, text, zone)
    read = _READERS.get(oid)
    return text if read is None else read(oid, text)


def _bool(oid: int, text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE or (word and ("true".startswith(word) or "yes".startswith(word))):
        return True
    if word in _FALSE or (word and ("false".startswith(word) or "no".startswith(word))):
        return False
    raise misread(oid, text)


def _integer(oid: int, text: str) -> int:
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed):
        raise misread(oid, text)
    if len(trimmed) > _MOST_DIGITS:
        raise beyond(oid, text)
    value = int(trimmed)
    low, high = (0, 2**32) if oid == types.OID else (-(2 ** (_BITS[oid] - 1)), 2 ** (_BITS[oid] - 1))
    if not low <= value < high:
        raise beyond(oid, text)
    return value


def _float(oid: int, text: str) -> float:
    trimmed = text.strip()
    if trimmed.lower() in _SPECIAL:
        return _SPECIAL[trimmed.lower()]
    match = _NUMBER.fullmatch(trimmed)
    if not match:
        raise misread(oid, text)
    value = float(trimmed)
    if math.isinf(value) or (value == 0 and re.search("[1-9]", match[1])):
        raise beyond(oid, text)
    return value


def _numeric(oid: int, text: str) -> Decimal:
    trimmed = text.strip()
    if trimmed.lower() in _SPECIAL:
        return Decimal(trimmed)
    match = _NUMBER.fullmatch(trimmed)
    if not match:
        raise misread(oid, text)
    if len(trimmed) > _MOST_DIGITS or len((match[2] or "").lstrip("eE+-")) > 4:
        raise beyond(oid, text)
    return Decimal(trimmed)


def _bytea(oid: int, text: str) -> bytes:
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise misread(oid, text) from None
    raw = re.sub(rb"\\(\\|[0-3][0-7]{2})", _escaped, text.encode("utf-8", "replace"))
    return raw


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)])


def _date(oid: int, text: str) -> int:
    days, rest = _day(oid, text, text.strip())
    if rest and not _CLOCK.fullmatch(rest.lstrip("T").strip()):
        _zone_of_day(oid, text, rest)
    if not -(2**31) < days < 2**31:
        raise beyond(oid, text)
    return days


def _time(oid: int, text: str) -> int:
    match = _CLOCK.fullmatch(text.strip())
    if not match or match[5]:
        raise misread(oid, text)
    return _micros(oid, text, match)


def _timestamp(oid: int, text: str, zone: Zone) -> int:
    if text.strip().lower() == "epoch":
        return 0
    days, rest = _day(oid, text, text.strip())
    clock = rest[1:] if rest[:1] in ("T", "t") else rest
    micros, offset = 0, None
    if clock.strip():
        match = _CLOCK.fullmatch(clock.strip())
        micros = _micros(oid, text, match) if match else 0
        offset = _offset(oid, text, match[5].strip()) if match else _zone_of_day(oid, text, rest)
    instant = days * _DAY + micros
    if oid == types.TIMESTAMPTZ and offset is not None:
        instant -= offset * 1_000_000
    elif oid == types.TIMESTAMPTZ and -(2**63) + _DAY <= instant < 2**63 - _DAY:
        instant = zone.instant(instant)
    if not -(2**63) <= instant < 2**63:
        raise beyond(oid, text)
    return instant


def _zone_of_day(oid: int, text: str, rest: str) -> int | None:
    """The seconds of a zone behind a date: `2024-05-01 +02`, as JDBC writes dates. Raises InvalidInput."""
    if rest[0] not in " +Zz" or not rest.strip():
        raise misread(oid, text)
    return _offset(oid, text, rest.strip())


def _offset(oid: int, text: str, written: str) -> int | None:
    """The seconds of a zone behind a time; None without one."""
    if not written:
        return None
    if written.upper() in ("Z", "UTC", "GMT"):
        return 0
    seconds = seconds_of(written) if written[0] in "+-" else None
    if seconds is None:
        raise misread(oid, text)
    return seconds


def _day(oid: int, text: str, trimmed: str) -> tuple[int, str]:
    """The days of a date at the beginning of a text, and the rest of the text."""
    ancient = trimmed.upper().endswith(" BC")
    match = _DATE.fullmatch(trimmed[:-3] if ancient else trimmed)
    if not match:
        raise misread(oid, text)
    year, month, day = (int(part) for part in match.groups()[:3])
    if ancient:
        year = 1 - year
    cycles, cycle_year = divmod(year - 1, 400)
    try:
        # A cycle of 400 years has 146,097 days. 719,163 days lie between the years 1 and 1970.
        days = date(cycle_year + 1, month, day).toordinal() - 719_163 + 146_097 * cycles
    except ValueError:
        raise OutOfRange(
            f'date/time field value out of range: "{shortened(text)}"', reason="DATETIME_OVERFLOW"
        ) from None
    if not match[1].strip("0"):
        raise misread(oid, text)
    return days, match[4]


def _micros(oid: int, text: str, match: re.Match[str]) -> int:
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
    if hours > 24 or minutes > 59 or seconds > 60 or (hours == 24 and (minutes or seconds)):
        raise OutOfRange(f'date/time field value out of range: "{shortened(text)}"', reason="DATETIME_OVERFLOW")
    fraction = round(float(f"0.{match[4] or 0}") * 1_000_000)
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction


_READERS: dict[int, Callable[[int, str], Any]] = {
    types.BOOL: _bool,
    types.BYTEA: _bytea,
    types.INT2: _integer,
    types.INT4: _integer,
    types.INT8: _integer,
    types.OID: _integer,
    types.FLOAT4: _float,
    types.FLOAT8: _float,
    types.NUMERIC: _numeric,
    types.DATE: _date,
    types.TIME: _time,
}
_SHORT = (_READERS.keys() | {types.TIMESTAMP, types.TIMESTAMPTZ}) - {types.BYTEA}
"""The types of numbers, times and truth values."""


def read_binary(oid: int, raw: bytes) -> Any:
    """The value that bytes of the binary format stand for. Raises InvalidInput."""
    try:
        if oid in types.ELEMENTS:
            return array_texts.read_binary_array(raw, lambda item: read_binary(types.ELEMENTS[oid], item))
        if oid in _WHOLE:
            return struct.unpack(_WHOLE[oid], raw)[0]
        if oid in _FLOATS:
            return struct.unpack(_FLOATS[oid], raw)[0]
        if oid == types.BOOL:
            return struct.unpack("!?", raw)[0]
        if oid == types.NUMERIC:
            return read_numeric(raw)
        if oid == types.BYTEA:
            return raw
        if oid in (types.DATE, types.TIME, types.TIMESTAMP, types.TIMESTAMPTZ):
            return _binary_time(oid, raw)
        return raw.decode()
    except (struct.error, UnicodeDecodeError, IndexError):
        raise InvalidInput(
            f"incorrect binary data format for type {types.type_name(oid)} ({len(raw)} bytes)", reason="INVALID_BINARY"
        ) from None


def _binary_time(oid: int, raw: bytes) -> int:
    if oid == types.DATE:
        value, bits, shift = struct.unpack("!i", raw)[0], 31, DAYS_TO_2000
    else:
        value, bits, shift = struct.unpack("!q", raw)[0], 63, 0 if oid == types.TIME else MICROS_TO_2000
    if value in (-(2**bits), 2**bits - 1) or not value + shift < 2**bits:
        raise beyond(oid, "infinity" if value > 0 else "-infinity")
    return int(value) + shift


def read_numeric(raw: bytes) -> Decimal:
    """A number in binary format. Raises struct.error for bytes that are not one."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    if sign & 0xC000 == NAN_SIGN:
        return {0xC000: Decimal("NaN"), 0xD000: Decimal("Infinity"), 0xF000: Decimal("-Infinity")}.get(
            sign, Decimal("NaN")
        )
    groups = struct.unpack(f"!{count}H", raw[8:])
    if any(group > 9_999 for group in groups) or not 0 <= scale < 1 << 14:
        raise struct.error
    number = 0
    for group in groups:
        number = number * 10_000 + group
    exponent = 4 * (weight - count + 1)
    # The text of a number shows as many digits as its scale says, so zeros are added or cut behind the point.
    if abs(exponent) > 4 * _MOST_DIGITS:
        raise struct.error
    digits = number * 10 ** (exponent + scale) if exponent + scale >= 0 else number // 10 ** -(exponent + scale)
    value = Decimal(digits).scaleb(-scale, _CONTEXT)
    return value.copy_negate() if sign and digits else value
