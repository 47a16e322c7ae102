"""The canonical text of clauses: equal clauses have equal texts, whatever their case, order, aliases and spelling.

    NOT (Price <= 3) AND sym IN ('b', 'a')   ->   price >= 4 AND sym IN ('a', 'b')
    begin (now - 900 seconds)                ->   BEGIN (NOW - 15 MINUTES) END (NOW)

This module writes the text from the bound factors. So clauses that select by the same keys share a text even if their
SQL differs. Two different factors never have the same text. People read the text, and the engine identifies clauses by
it. Only the texts of windows and durations can be parsed.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import numpy as np

from psoup.expressions.tree import AttributeRef, Call, Expr, Literal, LongNumber, Now
from psoup.model import EPOCH, SECOND, Anchor, Bound, DataType, Kind, WindowClause
from psoup.phrases import quoted, quoted_text
from psoup.plan.factors import Factor, Interval, Key, Term

UNITS: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND,
    "MINUTE": 60 * SECOND,
    "HOUR": 3_600 * SECOND,
    "DAY": 86_400 * SECOND,
    "WEEK": 7 * 86_400 * SECOND,
}
"""The microseconds of each unit of fixed length. The names are singular."""


def describe_window(clause: WindowClause) -> str:
    """The canonical text of a window."""
    return f"BEGIN {_describe(clause.begin)} END {_describe(clause.end)}"


def written_window(clause: WindowClause) -> str:
    """The text of a window for people. Durations are as the statement has them, such as 7 DAYS instead of 1 WEEK."""
    return f"BEGIN {_describe(clause.begin, written=True)} END {_describe(clause.end, written=True)}"


def describe_duration(micros: int) -> str:
    """The duration in the largest unit that divides it, like `90 SECONDS`."""
    for unit, size in reversed(UNITS.items()):
        if micros % size == 0 and micros >= size:
            return f"{micros // size} {unit}{'' if micros == size else 'S'}"
    return "0 SECONDS"


def _describe(bound: Bound, *, written: bool = False) -> str:
    if bound.anchor is Anchor.START:
        return "(START)"
    if bound.anchor is Anchor.NOW:
        if bound.rows is not None:
            return f"(NOW - {bound.rows} ROWS)"
        duration = (written and bound.written) or describe_duration(bound.offset)
        return f"(NOW - {duration})" if bound.offset else "(NOW)"
    try:
        return f"(TIMESTAMP '{(EPOCH + datetime.timedelta(microseconds=bound.at)).isoformat(sep=' ')}')"
    except OverflowError:
        return f"({Decimal(bound.at) / SECOND:f})"


SYMBOLS: dict[str, str] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "intdiv": "//",
    "mod": "%",
    "concat_op": "||",
    "bits_and": "&",
    "bits_or": "|",
    "shift_left": "<<",
    "shift_right": ">>",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "is_distinct": "IS DISTINCT FROM",
}
"""The signs of operators in SQL, by the operators' names in bound expressions."""


Forms = Mapping[str, Callable[[Call, list[str]], str]]
"""The text of a call from the texts of its arguments, by the name of its function."""

CANONICAL: Forms = {}
"""The forms of canonical texts, in which functions without a sign look like `name(argument, ...)`."""


def expr_text(expr: Expr, names: Sequence[str] = (), forms: Forms = CANONICAL) -> str:
    """The text of a bound expression, similar to SQL, with every conversion. Exactly equal trees have equal texts.

    `names`: the name of each source, written before its columns. Without names, a column of the first source has no
    prefix. A column of another source then has the place of its source as its prefix. `forms`: other texts of some
    functions.
    """
    if isinstance(expr, Literal):
        return literal_text(expr)
    if isinstance(expr, AttributeRef):
        if expr.source < 0:  # a column that a plan computes
            return expr.name
        name = exact_name(expr.name.lower())
        if names:
            return f"{names[expr.source]}.{name}"
        return f"{expr.source}.{name}" if expr.source else name  # no name begins with a digit
    if isinstance(expr, Now):
        return "NOW"
    texts = [expr_text(arg, names, forms) for arg in expr.args]
    if (form := forms.get(expr.name)) is not None:
        return form(expr, texts)
    symbol = SYMBOLS.get(expr.name)
    if symbol is not None and (len(texts) == 2 or expr.name in ("and", "or")):
        return f"({f' {symbol} '.join(texts)})"
    if expr.name in ("cast", "try_cast"):
        return f"{expr.name.upper()}({texts[0]} AS {expr.type})"
    if expr.name == "in":
        return f"({texts[0]} IN ({', '.join(texts[1:])}))"
    if expr.name in ("is_null", "is_not_null"):
        return f"({texts[0]} {expr.name.upper().replace('_', ' ')})"
    return f"{expr.name}({', '.join(texts)})"


def literal_text(literal: Literal) -> str:
    """The text of a constant. It shows the type: 2, 2.50, 2.5e0, 'x', TIMESTAMP '…', CAST(NULL AS TEXT)."""
    value, kind = literal.value, literal.type.kind
    if value is None:
        return f"CAST(NULL AS {literal.type})"
    if kind is Kind.TEXT:
        return quoted_text(str(value))
    if isinstance(literal, LongNumber):
        return literal.text
    if kind is Kind.DOUBLE:
        return _double(float(value))
    if kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    text = _whole(literal.type, int(value))
    if kind in (Kind.DECIMAL, Kind.WIDE) and len(text.lstrip("-").replace(".", "")) != literal.type.precision:
        return f"CAST({text} AS {literal.type})"
    return text


Edge = Callable[[DataType, Key, str, str], str]
"""The text of one end of an interval, from the type, the key, and the operators for `at the key` and `past a key`."""


def term_text(term: Term, name: str = "", edge: Edge | None = None) -> str:
    """The text of a term, as a condition on its attribute. `name`: the text of the attribute, "" if not known yet.

    `edge`: another text of the ends of intervals. The default is the canonical one.
    """
    name, kind = name or expr_text(term.attribute), term.attribute.type
    parts = _points(kind, term.intervals, name, edge or edge_text)
    if term.nulls:
        parts.append(f"{name} IS NULL")
    if not parts:
        return "FALSE"
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def factor_text(factor: Factor) -> str:
    """The canonical text of a factor. Equal factors have equal texts, and different factors have different texts."""
    if not factor.terms:
        return "FALSE"
    texts = [term_text(term) for term in factor.terms]
    return texts[0] if len(texts) == 1 else f"({' OR '.join(texts)})"


def _points(kind: DataType, intervals: tuple[Interval, ...], name: str, edge: Edge) -> list[str]:
    """The conditions for some intervals: one = or IN for all single keys, and one condition for each other interval.

    A BOOLEAN that must be TRUE or FALSE is written as itself or with NOT.
    """
    if kind.kind is Kind.BOOLEAN and len(intervals) == 1 and intervals[0].low is not None:
        return [name if intervals[0].low else f"NOT {name}"]
    single = [i for i in intervals if _is_point(kind, i)]
    parts = [_range(kind, i, name, edge) for i in intervals if not _is_point(kind, i)]
    if len(single) == 1:
        parts.append(f"{name} = {_point_text(kind, single[0])}")
    elif single:
        parts.append(f"{name} IN ({', '.join(_point_text(kind, i) for i in single)})")
    return parts


def _is_point(kind: DataType, interval: Interval) -> bool:
    low, high = interval.low, interval.high
    if isinstance(high, bytes):  # no text is below ''
        return high == (low or b"") + b"\0" and _decodes(high[:-1])  # type: ignore[operator]
    return isinstance(low, int) and high == low + 1


def _range(kind: DataType, interval: Interval, name: str, edge: Edge) -> str:
    low, high = interval.low, interval.high
    if low is None and high is None:
        return f"{name} IS NOT NULL"
    if isinstance(low, bytes) and isinstance(high, bytes) and high == low[:-1] + bytes([low[-1] + 1]) and _decodes(low):
        return f"starts_with({name}, {quoted_text(low.decode())})"
    parts = [] if low is None else [f"{name} {edge(kind, low, '>=', '>')}"]
    if high is not None:
        parts.append(f"{name} {edge(kind, high, '<', '<=')}")
    return " AND ".join(parts) if len(parts) == 1 else f"({' AND '.join(parts)})"


def _point_text(kind: DataType, interval: Interval) -> str:
    return key_text(kind, b"" if interval.low is None else interval.low)


def edge_text(kind: DataType, key: Key, at: str, past: str) -> str:
    """The text of one end of an interval. It is `>= key`, or `> text` if the key is the first key after a text."""
    if isinstance(key, bytes) and key.endswith(b"\0") and _decodes(key[:-1]):
        return f"{past} {key_text(kind, key[:-1])}"
    return f"{at} {key_text(kind, key)}"


def key_text(kind: DataType, key: Key) -> str:
    """The text of an order key, as a constant of SQL."""
    if isinstance(key, bytes):
        return quoted_text(key.decode()) if _decodes(key) else f"x'{key.hex()}'"
    if kind.kind is Kind.DOUBLE:
        bits = key if key >= 0 else key ^ 0x7FFF_FFFF_FFFF_FFFF
        value = float(np.array([bits], np.int64).view(np.float64)[0])
        return f"DOUBLE KEY {key}" if math.isnan(value) and key != _NAN_KEY else _double(value)
    if kind.kind is Kind.BOOLEAN:
        return "TRUE" if key else "FALSE"
    return _whole(kind, key)


_NAN_KEY = int(np.array([np.nan]).view(np.int64)[0])


def _whole(kind: DataType, value: int) -> str:
    """The text of an integer key of a BIGINT, DECIMAL, TIMESTAMP or DATE."""
    if kind.scale:
        digits = str(abs(value)).rjust(kind.scale + 1, "0")
        return f"{'-' if value < 0 else ''}{digits[: -kind.scale]}.{digits[-kind.scale :]}"
    if kind.kind in (Kind.DECIMAL, Kind.WIDE):
        return f"{value}."
    try:
        if kind.kind is Kind.TIMESTAMP:
            return f"TIMESTAMP '{(EPOCH + datetime.timedelta(microseconds=value)).isoformat(sep=' ')}'"
        if kind.kind is Kind.DATE:
            return f"DATE '{(EPOCH + datetime.timedelta(days=value)).date().isoformat()}'"
    except OverflowError:
        return f"{kind} KEY {value}"
    return str(value)


def _double(value: float) -> str:
    text = repr(value)
    if not math.isfinite(value):
        return f"CAST('{text}' AS DOUBLE)"
    return text if "e" in text else f"{text}e0"


def _decodes(key: bytes) -> bool:
    try:
        return "\0" not in key.decode()
    except UnicodeDecodeError:
        return False


def exact_name(name: str) -> str:
    """A name, with its case unchanged, in quotes if it needs them."""
    return name if name.isidentifier() and name.isascii() else quoted(name)
