"""The typing rules of functions of time; see `rules`.

date_trunc('Hours', ts)   ->   date_trunc('hour', ts)        extract(year FROM date)   ->   BIGINT
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from psoup.errors import InvalidInput
from psoup.expressions.civil import EXTRACT_PARTS, PART_ALIASES, TRUNC_PARTS
from psoup.expressions.conversion import NUMBERS, cast, is_null_literal, is_text_literal, mismatch, need
from psoup.expressions.times.moments import DAYS, SHORT, SPECIFIERS, UNITS, pieces
from psoup.expressions.times.strptime import READABLE, unreadable
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, DATE, DOUBLE, TEXT, TIMESTAMP

MOST_FORMAT = 1_000
"""The most characters of a format of strftime and strptime."""

DIFF_PARTS = (*DAYS, *UNITS)
_WRITTEN = re.compile(r"%-?.|%", re.DOTALL)

_MOST_MONTHS = 12 * 600_000
"""Months from the first year of a TIMESTAMP to the last; more would overflow the arithmetic of months."""


def extraction(name: str, args: Sequence[Expr]) -> Expr:
    """Type extract(part, time). The result is DOUBLE for epoch and julian, and BIGINT for all other parts."""
    part = _part(args[0], name, EXTRACT_PARTS)
    result = DOUBLE if part in ("epoch", "julian") else BIGINT
    return Call(result, name, (Literal(TEXT, part), _time(args[1], name)))


def truncation(name: str, args: Sequence[Expr]) -> Expr:
    """Type date_trunc(part, time). The result is a TIMESTAMP, also for a DATE."""
    part = _part(args[0], name, TRUNC_PARTS)
    return Call(TIMESTAMP, name, (Literal(TEXT, part), cast(_time(args[1], name), TIMESTAMP)))


def naming(name: str, args: Sequence[Expr]) -> Expr:
    """Type dayname and monthname, whose results are English names."""
    return Call(TEXT, name, (_time(args[0], name),))


def last_day(name: str, args: Sequence[Expr]) -> Expr:
    """Type last_day: the DATE of the last day of the month."""
    return Call(DATE, name, (_time(args[0], name),))


def counting(name: str, args: Sequence[Expr]) -> Expr:
    """Type epoch_ms and epoch_us. The result is a BIGINT since 1970; epoch_ms of a BIGINT is a TIMESTAMP."""
    if name == "epoch_ms" and args[0].type == BIGINT and not is_null_literal(args[0]):
        return Call(TIMESTAMP, name, tuple(args))
    return Call(BIGINT, name, (cast(_time(args[0], name), TIMESTAMP),))


def lasting(name: str, args: Sequence[Expr]) -> Expr:
    """Type span_seconds, which turns the microseconds of an INTERVAL (BIGINT) into seconds (DOUBLE)."""
    return Call(DOUBLE, name, (need(args[0], BIGINT, name),))


def differing(name: str, args: Sequence[Expr]) -> Expr:
    """Type date_diff(part, a, b). The result is BIGINT. Two DATEs are not cast to TIMESTAMP."""
    part = _part(args[0], name, tuple(DIFF_PARTS))
    times = [cast(arg, TIMESTAMP) if is_text_literal(arg) else _time(arg, name) for arg in args[1:]]
    if any(time.type == TIMESTAMP for time in times):
        times = [cast(time, TIMESTAMP) for time in times]
    return Call(BIGINT, name, (Literal(TEXT, part), *times))


def making(name: str, args: Sequence[Expr]) -> Expr:
    """Type make_date and make_timestamp of BIGINTs, and to_timestamp of a DOUBLE. Seconds are DOUBLE."""
    if name == "to_timestamp":
        return Call(TIMESTAMP, name, (_seconds(args[0], name),))
    if name == "make_timestamp" and len(args) not in (1, 6):
        raise InvalidInput("make_timestamp takes 1 or 6 arguments", reason="WRONG_ARGUMENTS", function=name)
    whole = [need(arg, BIGINT, name) for arg in (args[:5] if name == "make_timestamp" else args)]
    if name == "make_date":
        return Call(DATE, name, tuple(whole))
    return Call(TIMESTAMP, name, (*whole, *(_seconds(arg, name) for arg in args[5:])))


def _seconds(arg: Expr, name: str) -> Expr:
    if arg.type.kind in NUMBERS or is_null_literal(arg):
        return cast(arg, DOUBLE)
    raise mismatch(f"the seconds of {name} must be a number, not {arg.type}")


def bucketing(name: str, args: Sequence[Expr]) -> Expr:
    """Type time_bucket(months, microseconds, time). One of the two constants is 0, the other is greater."""
    if not all(isinstance(arg, Literal) and arg.type == BIGINT for arg in args[:2]):
        raise mismatch(f"{name} needs a constant INTERVAL, such as INTERVAL '15' MINUTE")
    months, micros = (int(arg.value or 0) for arg in args[:2] if isinstance(arg, Literal))
    if months < 0 or micros < 0 or not months + micros:
        raise InvalidInput("a bucket of time must be longer than nothing", reason="INVALID_VALUE")
    if months > _MOST_MONTHS:
        raise InvalidInput("a bucket of time is longer than a TIMESTAMP reaches", reason="INVALID_VALUE")
    time = _time(args[2], name)
    return Call(time.type, name, (*args[:2], time))


def formatting(name: str, args: Sequence[Expr]) -> Expr:
    """Type strftime(time, format), in either order of the arguments. The format must be a constant."""
    time, written = args if not is_text_literal(args[0]) else args[::-1]
    if is_null_literal(written):
        return Literal(TEXT, None)
    _format(written, name, tuple(SPECIFIERS))
    return Call(TEXT, name, (_time(time, name), written))


def reading(name: str, args: Sequence[Expr]) -> Expr:
    """Type strptime(text, format) and try_strptime. The result is a TIMESTAMP. The format must be a constant."""
    text = need(args[0], TEXT, name)
    if is_null_literal(args[1]):
        return Literal(TIMESTAMP, None)
    problem = unreadable(_format(args[1], name, READABLE))
    if problem:
        raise InvalidInput(f"{name} {problem}", reason="INVALID_VALUE")
    return Call(TIMESTAMP, name, (text, args[1]))


def _format(written: Expr, name: str, readable: Sequence[str]) -> list[str]:
    """The pieces of a format: alternating texts and specifiers. Raises InvalidInput."""
    if not is_text_literal(written):
        raise mismatch(f"the format of {name} must be a constant, such as '%Y-%m-%d'")
    assert isinstance(written, Literal)
    text = str(written.value)
    if not text or len(text) > MOST_FORMAT:
        raise InvalidInput(
            f"a format has from 1 to {MOST_FORMAT:,} characters, not {len(text):,}", reason="INVALID_VALUE"
        )
    for part in _WRITTEN.findall(text):
        if part not in readable and part not in SHORT:
            listed = " ".join([*readable, *SHORT])
            raise InvalidInput(f"{name} does not know {part!r}; it knows {listed}", reason="INVALID_VALUE")
    return pieces(text, readable)


def shifting(name: str, args: Sequence[Expr]) -> Expr:
    """Type add_interval(time, months, microseconds). The last two are BIGINT constants. A DATE becomes a TIMESTAMP."""
    if not all(isinstance(arg, Literal) and arg.type == BIGINT and arg.value is not None for arg in args[1:]):
        raise InvalidInput("an INTERVAL must be a constant")
    months, micros = (int(arg.value) for arg in args[1:] if isinstance(arg, Literal) and arg.value is not None)
    if abs(months) > _MOST_MONTHS or not -(2**63) <= micros < 2**63:
        raise InvalidInput("an INTERVAL reaches further than a TIMESTAMP can; make it shorter")
    return Call(TIMESTAMP, name, (cast(_time(args[0], "INTERVAL arithmetic"), TIMESTAMP), *args[1:]))


def _time(arg: Expr, function: str) -> Expr:
    if arg.type in (DATE, TIMESTAMP):
        return arg
    if is_null_literal(arg):
        return cast(arg, TIMESTAMP)
    raise mismatch(f"{function} needs a TIMESTAMP or DATE, not {arg.type}; use CAST(... AS TIMESTAMP)")


def _part(arg: Expr, function: str, parts: Sequence[str]) -> str:
    if not is_text_literal(arg):
        raise InvalidInput(f"the part of {function} must be a constant, one of {', '.join(parts)}")
    assert isinstance(arg, Literal)
    part = str(arg.value).lower()
    part = PART_ALIASES.get(part, part)
    if part not in parts:
        raise InvalidInput(f"{function} has no part {arg.value!r}; it has {', '.join(parts)}", reason="UNKNOWN_PART")
    return part
