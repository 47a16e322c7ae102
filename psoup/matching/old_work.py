"""The estimated work of new clauses over an open chunk. It is computed from counts, so a replay gets the same value.

    rows x   a plain attribute          20       each attribute once, of few clauses for each of them
             a call                     50       of texts 100 more, and 1 for each byte that it reads or makes
             a supplied function    10,000
             an interval of a clause     1

The unit is about a nanosecond; a busy machine takes several times as long. The estimate decides only whether the writer
may do the work while all tenants wait (`psoup.engine.stream.state`). Work that turns out to be cheap counts in full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from psoup.clauses.block import Clauses
from psoup.expressions.supplied_functions import is_supplied
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.matching.old_tuples import COVER_TOGETHER
from psoup.model import TEXT
from psoup.plan.factors import Factor
from psoup.plan.standing_query import ClauseColumns

_PLAIN = 20
"""Work for a value of a column."""
_CALL = 50
"""Work for a call, without its texts."""
_TEXT = 100
"""Work for a call with texts, in addition to 1 for each of their bytes."""
_SUPPLIED = 10_000
"""Work for a call of an operator's function."""
_LONGEST = 1 << 20
"""The most bytes assumed for a text."""
_TIMES = 64
"""The assumed count of `repeat` if the count is no constant."""
_WIDTH = 1_024
"""The assumed width of `lpad` and `rpad` if the width is no constant."""


class OldTuples(NamedTuple):
    """The number of tuples of an open chunk, and the bytes of their texts."""

    rows: int
    text_bytes: int


def work_of(clauses: Clauses, tuples: OldTuples) -> int:
    """The estimated work of some clauses, each a slot and its factors. O(size of the clauses)."""
    if not tuples.rows:
        return 0
    if len(clauses) < COVER_TOGETHER:
        return sum(_work(*_terms(factors), tuples) for _, factors in clauses)
    return _work(*_terms(factor for _, factors in clauses for factor in factors), tuples)


def work_of_columns(columns: ClauseColumns, tuples: OldTuples) -> int:
    """The estimated work of clauses of one form. O(size of one clause)."""
    if not tuples.rows:
        return 0
    attributes, intervals = _terms(columns.fixed)
    attributes |= {term.attribute for term in columns.terms}
    alone = columns.count if columns.count < COVER_TOGETHER else 1
    return alone * _work(attributes, columns.count * (len(columns.terms) + intervals), tuples)


def _terms(factors: Iterable[Factor]) -> tuple[set[Expr], int]:
    attributes, intervals = set[Expr](), 0
    for factor in factors:
        for term in factor.terms:
            attributes.add(term.attribute)
            intervals += len(term.intervals)
    return attributes, intervals


def _work(attributes: Iterable[Expr], intervals: int, tuples: OldTuples) -> int:
    width = tuples.text_bytes // tuples.rows
    return tuples.rows * (intervals + sum(_of(attribute, width)[0] for attribute in attributes))


def _of(expr: Expr, width: int) -> tuple[int, int]:
    """The estimated work for one value of an expression, and the bytes of the value if it is a text."""
    if isinstance(expr, AttributeRef):
        return _PLAIN, width if expr.type == TEXT else 0
    if not isinstance(expr, Call):
        return 0, len(expr.value) if isinstance(expr, Literal) and isinstance(expr.value, str) else 0
    parts = [_of(arg, width) for arg in expr.args]
    read = sum(length for _, length in parts)
    made = min(_made(expr, [length for _, length in parts]), _LONGEST) if expr.type == TEXT else 0
    work = _CALL + sum(part for part, _ in parts) + (_SUPPLIED if is_supplied(expr.name) else 0)
    return work + (_TEXT + read + made if read or made else 0), made


def _made(call: Call, lengths: list[int]) -> int:
    """The estimated bytes of the text that a call returns. `lengths`: the estimated bytes of its arguments."""
    match call.name:
        case "repeat":
            return lengths[0] * _number(call.args[1], _TIMES)
        case "lpad" | "rpad":
            return _number(call.args[1], _WIDTH)
        case "replace" | "regexp_replace":
            return lengths[0] * max(1, lengths[2])
        case _:
            return sum(lengths) or _PLAIN


def _number(expr: Expr, computed: int) -> int:
    is_constant = isinstance(expr, Literal) and isinstance(expr.value, int)
    return max(int(expr.value), 0) if is_constant else computed  # type: ignore[union-attr,arg-type]
