"""The typing rules of functions of time; see `rules`.

date_trunc('Hours', ts)   ->   date_trunc('hour', ts)        extract(year FROM date)   ->   BIGINT
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.errors import InvalidInput
from psoup.expressions.civil import EXTRACT_PARTS, PART_ALIASES, TRUNC_PARTS
from psoup.expressions.conversion import cast, is_null_literal, is_text_literal, mismatch
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, DATE, DOUBLE, TEXT, TIMESTAMP

_MOST_MONTHS = 12 * 600_000
"""From the first year of a TIMESTAMP to the last; with more, the arithmetic of months would overflow."""


def extraction(name: str, args: Sequence[Expr]) -> Expr:
    """extract(part, time): BIGINT, but DOUBLE for epoch and julian."""
    part = _part(args[0], name, EXTRACT_PARTS)
    result = DOUBLE if part in ("epoch", "julian") else BIGINT
    return Call(result, name, (Literal(TEXT, part), _time(args[1], name)))


def truncation(name: str, args: Sequence[Expr]) -> Expr:
    """date_trunc(part, time): TIMESTAMP, of a DATE as well."""
    part = _part(args[0], name, TRUNC_PARTS)
    return Call(TIMESTAMP, name, (Literal(TEXT, part), cast(_time(args[1], name), TIMESTAMP)))


def naming(name: str, args: Sequence[Expr]) -> Expr:
    """dayname, monthname: English names."""
    return Call(TEXT, name, (_time(args[0], name),))


def last_day(name: str, args: Sequence[Expr]) -> Expr:
    """last_day: of the month."""
    return Call(DATE, name, (_time(args[0], name),))


def counting(name: str, args: Sequence[Expr]) -> Expr:
    """epoch_ms, epoch_us: BIGINT since 1970; epoch_ms of a BIGINT is the TIMESTAMP."""
    if name == "epoch_ms" and args[0].type == BIGINT and not is_null_literal(args[0]):
        return Call(TIMESTAMP, name, tuple(args))
    return Call(BIGINT, name, (cast(_time(args[0], name), TIMESTAMP),))


def shifting(name: str, args: Sequence[Expr]) -> Expr:
    """add_interval(time, months, microseconds): the last two are BIGINT constants; a DATE becomes a TIMESTAMP."""
    if not all(isinstance(arg, Literal) and arg.type == BIGINT and arg.value is not None for arg in args[1:]):
        raise InvalidInput("an INTERVAL must be a constant")
    months, micros = (int(arg.value) for arg in args[1:] if isinstance(arg, Literal) and arg.value is not None)
    if abs(months) > _MOST_MONTHS or not -(2**63) <= micros < 2**63:
        raise InvalidInput("an INTERVAL reaches further than a TIMESTAMP can; make it shorter")
    return Call(TIMESTAMP, name, (cast(_time(args[0], "INTERVAL arithmetic"), TIMESTAMP), *args[1:]))


def _time(arg: Expr, what: str) -> Expr:
    if arg.type in (DATE, TIMESTAMP):
        return arg
    if is_null_literal(arg):
        return cast(arg, TIMESTAMP)
    raise mismatch(f"{what} needs a TIMESTAMP or DATE, not {arg.type}; use CAST(... AS TIMESTAMP)")


def _part(arg: Expr, what: str, parts: Sequence[str]) -> str:
    if not is_text_literal(arg):
        raise InvalidInput(f"the part of {what} must be a constant, one of {', '.join(parts)}")
    assert isinstance(arg, Literal)
    part = str(arg.value).lower()
    part = PART_ALIASES.get(part, part)
    if part not in parts:
        raise InvalidInput(f"{what} has no part {arg.value!r}; it has {', '.join(parts)}", reason="UNKNOWN_PART")
    return part
