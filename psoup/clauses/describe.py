"""Descriptions of the predicate index: a clause in words, all clauses as an Arrow table.

Descriptions contain order keys and the text of attributes, never the index's internal codes and rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.clauses.attributes import Waits
from psoup.clauses.index.predicate_index import PredicateIndex
from psoup.clauses.text_search import Searched
from psoup.expressions.supplied_functions import shown_name
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.invariants import ensure
from psoup.plan.factors import Interval
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class TermDescription:
    """A term of a factor: the attribute's text and ID, the intervals of its order keys, and whether NULL passes."""

    attribute: str
    attribute_id: int
    intervals: tuple[Interval, ...]
    nulls: bool


@dataclass(frozen=True, slots=True)
class FactorDescription:
    """A factor of a clause, and the index that holds it: `main` or `delta`."""

    terms: tuple[TermDescription, ...]
    index: str


def expr_text(expr: Expr) -> str:
    """An expression as function calls: `gt(mul(price, 2), volume)`."""
    if isinstance(expr, AttributeRef):
        return expr.name
    if isinstance(expr, Call):
        return f"{shown_name(expr.name)}({', '.join(expr_text(arg) for arg in expr.args)})"
    if isinstance(expr, Literal):
        return "NULL" if expr.value is None else repr(expr.value)
    return "NOW"


def describe_clause(
    index: PredicateIndex, position: int, where: str, attributes: Mapping[int, Expr]
) -> list[FactorDescription]:
    """The factors of the clause at `position`. `where`: the name of its index, `main` or `delta`. O(its size)."""
    return [
        FactorDescription(
            tuple(
                TermDescription(expr_text(attributes[attribute]), attribute, tuple(intervals), nulls)
                for attribute, (intervals, nulls) in factor.items()
            ),
            where,
        )
        for factor in index.factors(position)
    ]


def clauses_to_arrow(index: PredicateIndex, attributes: Mapping[int, Expr]) -> pa.Table:
    """The clauses as a table with a row for each interval. A factor or clause without an interval has one row.
    O(size)."""
    spread = np.maximum(np.diff(index.clause_ptr), 1)
    factor_clause = np.repeat(np.arange(len(index)), np.diff(index.clause_ptr))
    bare = np.flatnonzero(np.diff(index.clause_ptr) == 0)
    empty = np.flatnonzero(np.diff(index.factor_ptr) == 0)
    owner = np.repeat(np.arange(len(factor_clause)), np.diff(index.factor_ptr))
    factor = np.concatenate([owner, empty, np.full(len(bare), -1)])
    clause = np.concatenate([factor_clause[owner], factor_clause[empty], bare])
    number = np.where(factor < 0, -1, factor - index.clause_ptr[clause])
    columns = _interval_columns(index, attributes, len(empty) + len(bare))
    order = np.lexsort((np.arange(len(clause)), number, index.slots[clause]))
    whole = len(order) >= len(spread) or not len(index)
    ensure(whole, index, "a factor has no row", rows=len(order), factors=len(spread))
    table = pa.table(
        {
            "slot": pa.array(index.slots[clause]),
            "factor": pa.array(number.astype(np.int32), mask=number < 0),
            **columns,
        }
    )
    return table.take(pa.array(order))


def _interval_columns(index: PredicateIndex, attributes: Mapping[int, Expr], more: int) -> dict[str, pa.Array]:
    """The columns of the intervals, followed by `more` rows of NULL."""
    names = [expr_text(attributes[int(a)]) for a in index.attributes]
    size = len(index.iv_lo)
    local = pa.array(index.iv_attr, mask=np.zeros(size, bool))
    text = pa.DictionaryArray.from_arrays(local, pa.array(names, pa.string())).cast(pa.string()) if names else None
    columns: dict[str, pa.Array] = {"attribute": text if text is not None else pa.nulls(size, pa.string())}
    for name, rows in (("low", index.iv_lo), ("high", index.iv_hi)):
        keys = np.zeros(size, np.int64)
        texts: list[bytes | None] = [None] * size
        has_key = np.zeros(size, bool)
        for attr, bounds in enumerate(index.bounds):
            code = rows - index.base[attr]
            of_attribute = np.flatnonzero((index.iv_attr == attr) & (code >= 1) & (code <= len(bounds)))
            if bounds.text:
                for i in of_attribute:
                    key = bounds.key(int(code[i]) - 1)
                    texts[i] = key if isinstance(key, bytes) else None
            else:
                keys[of_attribute] = bounds.keys[code[of_attribute] - 1]
                has_key[of_attribute] = True
        columns[name] = pa.array(keys, mask=~has_key)
        columns[f"{name}_text"] = pa.array(texts, pa.binary())
    columns["nulls"] = pa.array(_reaches_null(index))
    if not more:
        return columns
    return {n: pa.concat_arrays([c, pa.nulls(more, c.type)]) for n, c in columns.items()}


def _reaches_null(index: PredicateIndex) -> Array:
    sizes = np.array([len(bounds) for bounds in index.bounds], np.int64)
    return index.iv_hi - index.base[index.iv_attr] == sizes[index.iv_attr] + 2


def evaluations(
    attributes: Mapping[int, Expr], wanted: Iterable[int], waits: Waits, plans: Sequence[Searched]
) -> dict[Expr, tuple[int, int]]:
    """Two counts for each computed attribute: new tuples since its first evaluation, and tuples that needed its value.

    For a text pattern, the counts begin when its part of the Query SteM was made. Any thread may call this.
    """
    counts = dict[Expr, tuple[int, int]]()
    for attribute in wanted:
        pairs = [plan.evaluations(attribute) for plan in plans]
        if (seen := waits.seen.get(attribute)) is not None:
            pairs.append((seen.tuples, seen.evaluated))
        expr, tuples = attributes.get(attribute), max((tuples_of_pair for tuples_of_pair, _ in pairs), default=0)
        if expr is not None and tuples:
            counts[expr] = tuples, min(tuples, sum(evaluated for _, evaluated in pairs))
    return counts
