"""Random clauses and tuples for the Query SteM, and the slow evaluator that it must agree with.

Values are few and small, so that equal values, ties with constants, empty and full intervals all come up.
"""

from __future__ import annotations

import random

import numpy as np

from psoup.data.data_stem import Piece
from psoup.expressions.error_guard import column_of
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TEXT, Attribute, Schema
from psoup.plan.factors import Factor, Interval, Key, Term
from psoup.values.columns import Column

SCHEMA = Schema(
    (Attribute("a", BIGINT), Attribute("b", BIGINT), Attribute("t", TEXT), Attribute("x", DOUBLE), Attribute("u", TEXT))
)
REFS: list[Expr] = [AttributeRef(a.type, i, a.name) for i, a in enumerate(SCHEMA.attributes)]
A_MINUS_B = Call(BIGINT, "sub", (REFS[0], REFS[1]))
B_HUGE = Call(BIGINT, "mul", (REFS[1], Literal(BIGINT, 2**62)))  # an error above 1 and below -2
OPAQUE = Call(BOOLEAN, "gt", (Call(BIGINT, "mul", (REFS[0], REFS[1])), Literal(BIGINT, 3)))

# What may wait until other factors have left few tuples; the last one has errors, and never does.
T_HAS_B = Call(BOOLEAN, "like", (REFS[2], Literal(TEXT, "%b_%")))
U_LENGTH = Call(BIGINT, "length", (REFS[4],))
U_UPPER = Call(TEXT, "upper", (REFS[4],))
T_NUMBER = Call(BIGINT, "cast", (REFS[2],))
DEAR: list[Expr] = [T_HAS_B, U_LENGTH, U_UPPER, T_NUMBER]
PATTERNS: list[Expr] = [
    Call(BOOLEAN, "like", (REFS[column], Literal(TEXT, pattern)))
    for column, pattern in ((2, "%b%"), (2, "%ab%"), (2, "%h"), (4, "%b"), (4, "%abc%"), (4, "%é%"), (2, "%zz"))
]
PATTERNS += [
    Call(BOOLEAN, "contains", (REFS[2], Literal(TEXT, "ab"))),
    Call(BOOLEAN, "contains", (REFS[4], Literal(TEXT, "\0"))),
]
PATTERNS += [
    Call(BOOLEAN, "like", (Call(TEXT, "lower", (REFS[column],)), Literal(TEXT, pattern)))
    for column, pattern in ((2, "%b%"), (4, "%é"), (4, "%ab%"))
]
WHOLES: list[Expr] = [
    Call(BOOLEAN, "like", (REFS[column], Literal(TEXT, pattern)))
    for column, pattern in ((2, "%ab_d%"), (4, "ab%gh%"), (2, "%b_de%h"), (4, "%cd__gh"), (2, "_b_def%"), (4, "ab%_"))
]
ATTRIBUTES: list[Expr] = [*REFS, AttributeRef(BIGINT, -1, "_id"), A_MINUS_B, B_HUGE, OPAQUE, *DEAR, *PATTERNS[:3]]
TEXTS = ["", "a", "ab", "ab\0", "abc", "abcdefgh", "abcdefgh\0", "abcdefghi", "abéd", "B", "é", "zz"]


def random_columns(rng: random.Random, rows: int) -> tuple[Column, ...]:
    """A column for each attribute of SCHEMA."""
    columns = []
    for attribute in SCHEMA.attributes:
        valid = np.array([rng.random() < 0.85 for _ in range(rows)], bool) if rng.random() < 0.7 else None
        if attribute.type == TEXT:
            texts = [rng.choice(TEXTS).encode() if valid is None or valid[i] else b"" for i in range(rows)]
            offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
            data = np.frombuffer(b"".join(texts), np.uint8)  # read-only, as Arrow's memory is
            columns.append(Column(TEXT, offsets, valid, data))
            continue
        choices = [-2, -1, 0, 1, 2, 3, 5] if attribute.type == BIGINT else [-1.5, -0.0, 0.0, 2.5, float("nan")]
        values = np.array([rng.choice(choices) for _ in range(rows)], np.int64 if attribute.type == BIGINT else float)
        if valid is not None:
            values[~valid] = 0
        columns.append(Column(attribute.type, values, valid))
    return tuple(columns)


def random_piece(rng: random.Random, rows: int, start: int) -> Piece:
    """A piece with tuple IDs that begin at its start."""
    ids = np.arange(start, start + rows, dtype=np.int64)
    return Piece(random_columns(rng, rows), ids, ids * 10, start)


def _constants(expr: Expr) -> list[Key]:
    if expr.type == TEXT:
        return sorted({t.encode() for t in TEXTS} | {t.encode() + b"\0" for t in TEXTS})
    if expr.type == DOUBLE:
        return sorted(set(Column(DOUBLE, np.array([-1.5, 0.0, 1.0, 2.5])).order_keys().tolist()))
    return [0, 1, 2] if expr.type == BOOLEAN else [-(2**63), -2, -1, 0, 1, 2, 3, 4, 10]


def random_term(rng: random.Random, expr: Expr) -> Term:
    """Some disjoint intervals, or only NULL."""
    constants = _constants(expr)
    edges: list[Key | None] = sorted(rng.sample(constants, min(len(constants), 2 * rng.choice([1, 1, 1, 2, 3]))))  # type: ignore[type-var]
    intervals = [Interval(edges[k], edges[k + 1]) for k in range(0, len(edges) - 1, 2)]
    if rng.random() < 0.3:
        intervals[0] = Interval(None, intervals[0].high)
    if rng.random() < 0.3:
        intervals[-1] = Interval(intervals[-1].low, None)
    nulls = rng.random() < 0.25
    if nulls and rng.random() < 0.4:
        intervals = []
    return Term(expr, tuple(intervals), nulls)


def random_factors(rng: random.Random) -> tuple[Factor, ...]:
    """The factors of a clause: usually one to three, sometimes none, or one that is never true."""
    if rng.random() < 0.05:
        return ()
    factors = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        terms = rng.choice([1, 1, 1, 1, 2, 3]) if rng.random() > 0.03 else 0
        factors.append(Factor(tuple(random_term(rng, expr) for expr in rng.sample(ATTRIBUTES, terms))))
    return tuple(factors)


def is_true(expr: Expr) -> Factor:
    """A condition that must be true."""
    return Factor((Term(expr, (Interval(1, 2),)),))


def row_keys(expr: Expr, columns: tuple[Column, ...], ids: np.ndarray, times: np.ndarray) -> list[Key | str | None]:
    """The order key of each row; None for NULL, "error" for an error."""
    column = column_of(expr, columns, ids, times)
    numbers = column.order_keys().tolist() if column.data is None else []
    keys: list[Key | str | None] = []
    for i in range(len(ids)):
        if column.error is not None and column.error[i]:
            keys.append("error")
        elif column.valid is not None and not column.valid[i]:
            keys.append(None)
        elif column.data is not None:
            keys.append(column.data[column.values[i] : column.values[i + 1]].tobytes())
        else:
            keys.append(numbers[i])
    return keys


def _passes(term: Term, key: Key | str | None) -> bool:
    if key is None or isinstance(key, str):
        return key is None and term.nulls
    return any(
        (i.low is None or i.low <= key) and (i.high is None or key < i.high)  # type: ignore[operator]
        for i in term.intervals
    )


def naive_matches(factors: tuple[Factor, ...], piece: Piece) -> list[int]:
    """The rows of the piece that pass every factor, one row and one term at a time."""
    return [row for row, outcome in enumerate(_outcomes(factors, piece)) if outcome == "match"]


def naive_failures(factors: tuple[Factor, ...], piece: Piece) -> int:
    """The rows that an error alone keeps from a match: no factor is false, and one is not known."""
    return _outcomes(factors, piece).count("failure")


_LAST: list[tuple[Piece, dict[Expr, list[Key | str | None]]]] = []
"""The piece that was asked for last, which many clauses ask for, and the keys of its rows."""


def _keys_of(piece: Piece) -> dict[Expr, list[Key | str | None]]:
    if not _LAST or _LAST[0][0] is not piece:
        _LAST[:] = [(piece, {})]
    return _LAST[0][1]


_FOUND: list[tuple[Piece, tuple[Factor, ...], list[str]]] = []
"""The result of the last question: matches and failures are asked for one after the other."""


def _outcomes(factors: tuple[Factor, ...], piece: Piece) -> list[str]:
    if not _FOUND or _FOUND[0][0] is not piece or _FOUND[0][1] is not factors:
        _FOUND[:] = [(piece, factors, _looked_at(factors, piece))]
    return _FOUND[0][2]


def _looked_at(factors: tuple[Factor, ...], piece: Piece) -> list[str]:
    keys = _keys_of(piece)
    for factor in factors:
        for term in factor.terms:
            if term.attribute not in keys:
                keys[term.attribute] = row_keys(term.attribute, piece.columns, piece.ids, piece.times)
    rows = []
    for row in range(len(piece)):
        outcomes = {_outcome(factor, {t.attribute: keys[t.attribute][row] for t in factor.terms}) for factor in factors}
        rows.append("no" if "no" in outcomes else "failure" if "failure" in outcomes else "match")
    return rows


def _outcome(factor: Factor, keys: dict[Expr, Key | str | None]) -> str:
    if any(_passes(term, keys[term.attribute]) for term in factor.terms):
        return "match"
    return "failure" if "error" in keys.values() else "no"
