"""Many clauses as one new part of the index, at the cost of one look-up for each factor.

    clauses         slot 7: f, g     slot 8: f, h        queries of one template share their factors: the same objects
    each factor     0: f   1: g   2: h                   is converted to rows once (`psoup.clauses.factor_table`)
    the part        the rows of 0 1 | 0 2                gathered without a loop

The writer could add the clauses to the delta one by one, and freeze the delta. The part would be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from psoup.clauses.factor_table import FactorTable
from psoup.clauses.index.clause_rows import gather
from psoup.clauses.index.combine import combine
from psoup.clauses.index.posting_lists import Layout, unlisted
from psoup.clauses.index.predicate_index import Part, PredicateIndex, bases
from psoup.expressions.tree import Expr
from psoup.plan.factors import Factor

Clauses = Sequence[tuple[int, tuple[Factor, ...]]]
"""Clauses as pairs of a slot and its factors. Each slot occurs once."""


def block_part(
    clauses: Clauses, table: FactorTable, attribute_id: Callable[[Expr], int], layout: Layout
) -> tuple[Part, list[tuple[int, ...]]]:
    """Make the part. Returns it and each clause's attribute IDs, ascending. `table`: has all factors. O(n log n)."""
    members = [table.number(factor) for _, factors in clauses for factor in factors]
    counts = [len(factors) for _, factors in clauses]
    ids = np.full(len(table.exprs), -1, np.int64)
    for place in dict.fromkeys(place for member in dict.fromkeys(members) for place in table.used[member]):
        ids[place] = attribute_id(table.exprs[place])
    assert table.rows is not None, "the table is done"
    factor_ptr, intervals = gather(table.rows.factor_ptr, np.array(members, np.int64))
    clause_ptr = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=clause_ptr[1:])
    lists, rest = unlisted(len(clauses))
    whole = PredicateIndex(
        ids,
        table.bounds,
        bases(table.bounds),
        np.array([slot for slot, _ in clauses], np.uint32),
        clause_ptr,
        factor_ptr,
        table.rows.attributes[intervals],
        table.rows.low[intervals],
        table.rows.high[intervals],
        rest,
        lists,
    )
    listed = ids.tolist()
    attributes = [[listed[place] for place in places] for places in table.used]
    return Part.of(combine([(whole, np.arange(len(clauses)))], layout)), _used(members, counts, attributes)


def _used(members: Sequence[int], counts: Sequence[int], attributes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The attribute IDs of each clause. Clauses with equal IDs share one tuple object."""
    firsts: dict[tuple[int, ...], int] = {}
    kinds = [firsts.setdefault(tuple(ids), len(firsts)) for ids in attributes]
    listed = list(firsts)
    by_kind: dict[tuple[int, ...], tuple[int, ...]] = {}
    used, at = [], 0
    for count in counts:
        kind = tuple([kinds[member] for member in members[at : at + count]])
        at += count
        attribute_ids = by_kind.get(kind)
        if attribute_ids is None:
            attribute_ids = by_kind[kind] = tuple(
                sorted({attribute for number in kind for attribute in listed[number]})
            )
        used.append(attribute_ids)
    return used
