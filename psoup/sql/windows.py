"""BEGIN and END: their syntax becomes a `WindowClause`. `psoup.plan.canonical` turns it back into text.

    (START)  (NOW)  (NOW - 10)  (NOW - 15 MINUTES)  NOW - INTERVAL '1' DAY  (NOW - 100 ROWS)  TIMESTAMP '…'  1372636800

Without BEGIN a window begins at START, and without END it ends at NOW. This module refuses a window that is certainly
empty. The invocation of a query checks whether a bound lies within the retention.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from psoup.expressions.conversion import cast
from psoup.expressions.tree import Literal
from psoup.model import NOW, SECOND, START, TEXT, TIMESTAMP, Anchor, Bound, WindowClause
from psoup.plan.canonical import UNITS
from psoup.sql.source import Place, StatementText, nearest
from psoup.sql.types import unit_name

_WRITTEN = 20
"""The most digits of a duration that is shown as it is written."""

MAX_TIME = 2**62
"""The limit of durations and times in microseconds. With it, NOW - offset stays within int64."""


def window(source: StatementText, begin: exp.Expr | None, end: exp.Expr | None) -> WindowClause:
    """The window of two optional `BoundNode`s. Raises SqlError for a window that is always empty, or that mixes rows
    and time."""
    clause = WindowClause(
        START if begin is None else _bound(source, begin),
        NOW if end is None else _bound(source, end),
    )
    at: Place = begin if begin is not None else end if end is not None else 0
    _check(source, clause, at, end if end is not None else at)
    return clause


def duration(source: StatementText, node: exp.Expr, clause: str) -> int:
    """The microseconds of a `Duration`. Without a unit, it counts seconds. Never negative."""
    at = node
    unit = unit_name(node.args.get("unit") or "SECOND")
    if unit not in UNITS:
        hint = nearest(unit, UNITS) or f"the units are {', '.join(UNITS)}"
        if unit in ("MONTH", "YEAR", "QUARTER"):
            hint = "months and years have no fixed length; use DAYS or WEEKS"
        raise source.error(f"{clause}: {node.args['unit']!r} is not a unit of time", at, hint=hint)
    micros = _number(source, str(node.this), at) * UNITS[unit]
    if micros != int(micros):
        raise source.error(f"{clause}: {node.this} {unit} is not a whole number of microseconds", at)
    if not 0 <= micros < MAX_TIME:
        raise source.error(f"{clause}: {node.this} {unit} is out of range", at)
    return int(micros)


def row_count(source: StatementText, node: exp.Expr, clause: str) -> int:
    """The rows of a `Duration` with the unit ROWS, at least 1."""
    at = node
    rows = _number(source, str(node.this), at)
    if rows != int(rows) or not 0 <= rows < MAX_TIME:
        raise source.error(f"{clause}: {node.this} ROWS is not a whole number of rows", at)
    if not rows:
        raise source.error(f"{clause}: 0 ROWS is not a window", at, hint="count at least 1 ROW")
    return int(rows)


def is_rows(node: exp.Expr) -> bool:
    """Whether a `Duration` counts rows."""
    return (node.args.get("unit") or "") in ("ROW", "ROWS")


def _bound(source: StatementText, node: exp.Expr) -> Bound:
    at, kind, back = node, node.this, node.args.get("back")
    if kind == "START":
        return START
    if kind == "NOW":
        if back is None:
            return NOW
        if is_rows(back):
            return Bound(Anchor.NOW, rows=row_count(source, back, "NOW - n ROWS"))
        return Bound(Anchor.NOW, offset=duration(source, back, "NOW - n"), written=_written(back))
    if kind == "NUMBER":
        micros = _number(source, node.args["at"], at) * SECOND
        if micros != int(micros) or abs(micros) >= MAX_TIME:
            raise source.error(f"{node.args['at']} is not a time in seconds since 1970", at)
        return Bound(Anchor.ABSOLUTE, at=int(micros))
    with source.placed(at):
        literal = cast(Literal(TEXT, node.args["at"]), TIMESTAMP)
    assert isinstance(literal, Literal)
    assert isinstance(literal.value, int)
    return Bound(Anchor.ABSOLUTE, at=literal.value)


def _written(node: exp.Expr) -> str:
    """A `Duration` as the statement has it, in capital letters. Returns "" without a unit, and for many digits."""
    number, unit = str(node.this).strip(), unit_name(node.args.get("unit") or "")
    return f"{number} {unit}{'' if number == '1' else 'S'}" if unit and len(number) <= _WRITTEN else ""


def _number(source: StatementText, text: str, at: Place) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise source.error(f"{text[:40]!r} is not a number", at) from None
    if not number.is_finite() or number < 0 or number.adjusted() > 30 or number.as_tuple().exponent < -30:  # type: ignore[operator]
        raise source.error(f"{text[:40]} is out of range", at)
    return number


def _check(source: StatementText, clause: WindowClause, begin_at: Place, end_at: Place) -> None:
    begin, end = clause.begin, clause.end
    for bound, other, at in ((begin, end, begin_at), (end, begin, end_at)):
        timed = other.anchor is Anchor.ABSOLUTE or other.offset > 0
        if bound.rows is not None and timed:
            raise source.error("a window counts rows or time, not both", at, hint="give both bounds in the same way")
    if end.anchor is Anchor.START and begin.anchor is not Anchor.START:
        raise source.error("END (START) comes before BEGIN", end_at, hint="END is usually (NOW)")
    if begin.rows is not None or end.rows is not None:
        if begin.anchor is Anchor.NOW and (begin.rows or 0) <= (end.rows or 0):
            raise source.error("this window holds no rows", begin_at, hint="BEGIN must count more ROWS than END")
        return
    if begin.anchor is end.anchor is Anchor.NOW and begin.offset < end.offset:
        raise source.error("END comes before BEGIN", end_at, hint="swap the bounds")
    if begin.anchor is end.anchor is Anchor.ABSOLUTE and begin.at > end.at:
        raise source.error("END comes before BEGIN", end_at, hint="swap the bounds")
