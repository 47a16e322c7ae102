"""The texts of expressions and conditions for people: canonical texts, with the operators that users write.

    add_interval(at, 0, 28800000000)                  ->   (at + INTERVAL 8 HOURS)
    difference(shipped, ordered) >= 6                 ->   shipped >= ordered + 6
    not(case(p, q, r))                                ->   (NOT CASE WHEN p THEN q ELSE r END)
    time_bucket(0, 900000000, at)                     ->   time_bucket(INTERVAL 15 MINUTES, at)

EXPLAIN, `why` and the facts about a query show these texts. The canonical texts identify clauses, and stay as they are:
data directories hold their hashes. Two different clauses may have one text here, because it leaves out conditions that
only exclude an overflow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeGuard, cast

from psoup.expressions.times.interval_text import interval_text, summands
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, DataType, Kind
from psoup.plan.canonical import Forms, edge_text, expr_text, key_text, term_text
from psoup.plan.factors import Factor, Interval, Key, Term


def _shifted(call: Call, texts: list[str]) -> str:
    months, micros = (int(arg.value or 0) for arg in call.args[1:] if isinstance(arg, Literal))
    return f"({texts[0]}{summands(months, micros)})"


def _bucket(call: Call, texts: list[str]) -> str:
    months, micros = (int(arg.value or 0) for arg in call.args[:2] if isinstance(arg, Literal))
    return f"time_bucket({interval_text(months, micros)}, {texts[2]})"


def _hop(call: Call, texts: list[str]) -> str:
    lengths = [interval_text(0, int(arg.value or 0)) for arg in call.args[1:] if isinstance(arg, Literal)]
    return f"hop({', '.join([texts[0], *lengths])})"


def _case(call: Call, texts: list[str]) -> str:
    branches = [f"WHEN {when} THEN {then}" for when, then in zip(texts[:-1:2], texts[1::2], strict=True)]
    return f"CASE {' '.join(branches)} ELSE {texts[-1]} END"


def _narrow(call: Call, texts: list[str]) -> str:
    width = {"8": "TINYINT", "16": "SMALLINT"}.get(texts[1], "INTEGER")
    return f"{'CAST' if call.name == 'narrow' else 'TRY_CAST'}({texts[0]} AS {width})"


def _part(call: Call, texts: list[str]) -> str:
    part = call.args[0]
    return f"extract({part.value} FROM {texts[1]})" if isinstance(part, Literal) else f"extract({', '.join(texts)})"


WRITTEN: Forms = {
    "add_interval": _shifted,
    "bits_not": lambda _, texts: f"(~{texts[0]})",
    "case": _case,
    "difference": lambda _, texts: f"({texts[0]} - {texts[1]})",
    "extract": _part,
    "hop": _hop,
    "narrow": _narrow,
    "neg": lambda _, texts: f"(-{texts[0]})",
    "not": lambda _, texts: f"(NOT {texts[0]})",
    "span_seconds": lambda _, texts: f"({texts[0]} / 1000000)",
    "time_bucket": _bucket,
    "try_narrow": _narrow,
}
"""The forms of functions that SQL writes in another way than `name(argument, ...)`."""

_FORMED = re.compile(rf"\b(?:{'|'.join(WRITTEN)})\(|[0-9]{{15}}e|\.[0-9]{{6}}'")
"""The parts of a canonical text that may have another form here: calls, and constants with many digits."""


def written_expr(expr: Expr, names: Sequence[str] = ()) -> str:
    """The text of a bound expression. Different trees have different texts. `names`: as for `expr_text`. O(nodes)."""
    return expr_text(expr, names, WRITTEN)


def written_clause(clause: str, stream: str, factors: Sequence[Factor]) -> str:
    """The text of FROM and WHERE for people. `clause`: the canonical text of the same factors."""
    if _FORMED.search(clause) is None:
        return clause
    silent = guards(factors)
    texts = [written_factor(factor) for factor in factors if factor not in silent]
    return f"FROM {stream} WHERE {' AND '.join(dict.fromkeys(texts))}" if texts else f"FROM {stream}"


def written_factor(factor: Factor) -> str:
    """The text of a factor for people."""
    texts = [_term(term) for term in factor.terms] or ["FALSE"]
    return texts[0] if len(texts) == 1 else f"({' OR '.join(texts)})"


def guards(factors: Sequence[Factor]) -> set[Factor]:
    """The factors that only exclude an overflow of a sum that other factors compare."""
    bases = {base for factor in factors for term in factor.terms for base in _compared(term)}
    return {factor for factor in factors if any(_is_guard(term, bases) for term in factor.terms)} if bases else set()


def is_difference(expr: Expr) -> TypeGuard[Call]:
    """Whether an expression is the difference of two order keys, which users cannot write."""
    return isinstance(expr, Call) and expr.name == "difference"


def _compared(term: Term) -> Sequence[Expr]:
    """The two operands of a term on their difference. () for other terms."""
    return term.attribute.args if is_difference(term.attribute) else ()


def _is_guard(term: Term, bases: set[Expr]) -> bool:
    """Whether a term only excludes the values of an operand of a difference for which a sum would overflow."""
    if term.attribute not in bases or term.nulls or len(term.intervals) != 1:
        return False
    (interval,), half = term.intervals, _half(term.attribute.type)
    low, high = interval.low, interval.high
    if interval == Interval(None, None) or isinstance(low, bytes) or isinstance(high, bytes):
        return False
    return (low is None or low <= -half) and (high is None or high >= half)


def _half(kind: DataType) -> int:
    """About half of the greatest order key of a type."""
    if kind.kind is Kind.DECIMAL:
        return int(10**kind.precision // 2)
    return 2**30 if kind.kind is Kind.DATE else 2**62


def _term(term: Term) -> str:
    operands = _compared(term)
    if not operands or term.nulls:
        return term_text(term, written_expr(term.attribute), _edge)
    left, right = (written_expr(operand) for operand in operands)
    kind, intervals = operands[0].type, term.intervals
    edge = intervals[0].high
    if isinstance(edge, int) and intervals == (Interval(None, edge), Interval(edge + 1, None)):
        return f"{left} <> {right}{_plus(kind, edge)}"
    texts = [_range(kind, interval, left, right) for interval in intervals]
    return texts[0] if len(texts) == 1 else f"({' OR '.join(texts)})"


def _edge(kind: DataType, key: Key, at: str, past: str) -> str:
    """The text of an end of an interval: `<= 2` instead of `< 2.0000000000000004`."""
    if isinstance(key, int) and kind.kind in (Kind.DOUBLE, Kind.TIMESTAMP):
        text, before = key_text(kind, key), key_text(kind, key - 1)
        if len(before) < len(text) and " KEY " not in before:
            return f"{past} {before}"
    return edge_text(kind, key, at, past)


def _range(kind: DataType, interval: Interval, left: str, right: str) -> str:
    """The comparisons of two operands whose difference lies in an interval."""
    low, high = (cast("int | None", key) for key in (interval.low, interval.high))
    if low is None and high is None:
        return f"({left} - {right}) IS NOT NULL"
    if low is not None and high == low + 1:
        return f"{left} = {right}{_plus(kind, low)}"
    parts = []
    if low is not None:
        past = _is_rounder(kind, low - 1, low)
        parts.append(f"{left} > {right}{_plus(kind, low - 1)}" if past else f"{left} >= {right}{_plus(kind, low)}")
    if high is not None:
        past = _is_rounder(kind, high - 1, high)
        parts.append(f"{left} <= {right}{_plus(kind, high - 1)}" if past else f"{left} < {right}{_plus(kind, high)}")
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"


def _is_rounder(kind: DataType, value: int, other: int) -> bool:
    """Whether `value` has a shorter text than `other` as a summand."""
    return len(_plus(kind, value)) < len(_plus(kind, other))


def _plus(kind: DataType, keys: int) -> str:
    """The text that adds a number of order keys: ` + 5`, or ` - INTERVAL 8 HOURS`. "" for 0."""
    if not keys:
        return ""
    if kind.kind is Kind.TIMESTAMP:
        return summands(0, keys)
    number = BIGINT if kind.kind is Kind.DATE else kind
    return f" {'-' if keys < 0 else '+'} {key_text(number, abs(keys))}"
