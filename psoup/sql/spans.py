"""Spans: INTERVALs that a statement compares, counts in units, or adds to a time. They are never values of a column.

    shipped - ordered > INTERVAL '2' DAY      ->   date_diff('microsecond', ordered, shipped) > 172800000000
    epoch(shipped - ordered) / 60             ->   span_seconds(date_diff(…)) / 60
    t + (shipped - ordered)                   ->   make_timestamp(epoch_us(t) + date_diff(…))

PSoup has no data type for INTERVALs. The difference of two times becomes an exact number of microseconds. DuckDB
compares INTERVALs as if a month had 30 days, and so does PSoup. But a constant with months cannot be added to a span,
because a month has no fixed length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from psoup.expressions.conversion import TIMES, is_null_literal
from psoup.expressions.tree import Expr, Literal
from psoup.model import BIGINT, DATE, TEXT
from psoup.sql.source import StatementText
from psoup.sql.types import interval

_DAY = 86_400_000_000
_MONTH = 30 * _DAY
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "is_distinct"})
_HINT = "compare it with an INTERVAL, or take epoch(a - b), which is its seconds"

PARTS: dict[str, tuple[int, int]] = {
    "day": (0, _DAY),
    "hour": (_DAY, 3_600_000_000),
    "minute": (3_600_000_000, 60_000_000),
    "second": (60_000_000, 1_000_000),
    "millisecond": (60_000_000, 1_000),
    "microsecond": (60_000_000, 1),
}
"""The parts of a span: for each, a modulus in microseconds (0 for none) and a unit. The part is the remainder in
units."""
_COUNTS = {"epoch_us": 1, "epoch_ms": 1_000}


@dataclass(frozen=True, slots=True)
class Span:
    """An INTERVAL in a statement. `micros`: its length, a BIGINT expression.

    `exact`: it is the difference of two times. Only such a span has parts such as hours. `months`: it is a constant
    with months.
    """

    micros: Expr
    exact: bool = False
    months: bool = False


Operand = Expr | Span


class SpanBinder(Protocol):
    """The members of `psoup.sql.binder.Binder` that this module uses."""

    source: StatementText

    def call(self, name: str, node: exp.Expr, args: list[Expr]) -> Expr:
        """Bind the call of a function. Errors get the place of `node`."""


def constant(source: StatementText, node: exp.Expr) -> Span:
    """The INTERVAL constant at `node`."""
    months, micros = interval(source, node)
    return Span(Literal(BIGINT, months * _MONTH + micros), months=months != 0)


def difference(binder: SpanBinder, node: exp.Expr, left: Expr, right: Expr) -> Span | None:
    """The span between two times. None for other types, and for two DATEs, whose difference is a number of days."""
    if left.type.kind not in TIMES or right.type.kind not in TIMES or left.type == right.type == DATE:
        return None
    return Span(binder.call("date_diff", node, [Literal(TEXT, "microsecond"), right, left]), exact=True)


def negative(binder: SpanBinder, node: exp.Expr, span: Span) -> Span:
    """The span with the opposite sign."""
    return Span(binder.call("neg", node, [span.micros]), span.exact, span.months)


def combined(binder: SpanBinder, name: str, node: exp.Expr, left: Operand, right: Operand) -> Operand:
    """Bind an operator with an INTERVAL as at least one operand. Raises SqlError."""
    if name in _COMPARISONS:
        sides = [_compared(binder, node, side) for side in (left, right)]
        return binder.call(name, node, sides)
    if name not in ("add", "sub"):
        raise binder.source.error("an INTERVAL can only be compared, added and subtracted", node, hint=_HINT)
    for side in (left, right):
        if isinstance(side, Span) and side.months:
            raise binder.source.error("months have no fixed length, so nothing is added to them", node, hint=_HINT)
    if isinstance(left, Span) and isinstance(right, Span):
        return Span(binder.call(name, node, [left.micros, right.micros]))
    time, span = (right, left) if isinstance(left, Span) else (left, right)
    assert isinstance(span, Span)
    if isinstance(time, Span) or time.type.kind not in TIMES or (name == "sub" and time is right):
        raise refused(binder.source, node)
    micros = binder.call(name, node, [binder.call("epoch_us", node, [time]), span.micros])
    return binder.call("make_timestamp", node, [micros])


def _compared(binder: SpanBinder, node: exp.Expr, side: Operand) -> Expr:
    if isinstance(side, Span):
        return side.micros
    if is_null_literal(side):
        return Literal(BIGINT, None)
    raise binder.source.error(
        f"an INTERVAL is compared with an INTERVAL, not with {side.type}", node, hint="write INTERVAL '5' MINUTE"
    )


def counted(binder: SpanBinder, name: str, node: exp.Expr, span: Span) -> Expr:
    """Bind epoch, epoch_ms, epoch_us, or a part such as hour, of a span. Raises SqlError."""
    if span.months or not (span.exact or name == "epoch" or name in _COUNTS):
        raise refused(binder.source, node)
    if name == "epoch":
        return binder.call("span_seconds", node, [span.micros])
    if name in _COUNTS:
        return _whole(binder, node, span.micros, _COUNTS[name])
    if name not in PARTS:
        raise binder.source.error(
            f"what is between two times has no {name}", node, hint=f"it has {', '.join(['epoch', *PARTS])}"
        )
    rest, unit = PARTS[name]
    micros = span.micros if not rest else binder.call("mod", node, [span.micros, Literal(BIGINT, rest)])
    return _whole(binder, node, micros, unit)


def _whole(binder: SpanBinder, node: exp.Expr, micros: Expr, unit: int) -> Expr:
    return micros if unit == 1 else binder.call("intdiv", node, [micros, Literal(BIGINT, unit)])


def refused(source: StatementText, node: exp.Expr) -> Exception:
    """The error for an INTERVAL that is used as a value."""
    return source.unsupported("an INTERVAL as a value", node, hint=_HINT)
