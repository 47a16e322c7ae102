"""A block of clauses as a part of the index, at the cost of a look-up for each factor.

    clauses         slot 7: f, g     slot 8: f, h        queries of one template share their factors: the same objects
    each factor     0: f   1: g   2: h                   made into rows once, as by the delta
    the part        the rows of 0 1 | 0 2                gathered without a loop

It is what adding the clauses one by one and freezing the delta leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from psoup.expressions.tree import Expr
from psoup.query import Factor
from psoup.stems.clause_rows import Rows, gather
from psoup.stems.combine import assemble
from psoup.stems.delta import Delta
from psoup.stems.posting_lists import Layout
from psoup.stems.predicate_index import Part

Clauses = Sequence[tuple[int, tuple[Factor, ...]]]
"""(slot, factors); no slot comes twice."""


def block_part(
    clauses: Clauses, attribute_id: Callable[[Expr], int], layout: Layout
) -> tuple[Part, list[tuple[int, ...]]]:
    """The part, and the attribute IDs of each clause, ascending. O(n log n)."""
    numbers: dict[int, int] = {}
    """Of each factor, by its identity: to hash factors is dear."""
    factors: list[Factor] = []
    members: list[int] = []
    counts: list[int] = []
    for _, own in clauses:
        for factor in own:
            number = numbers.get(id(factor))
            if number is None:
                number = numbers[id(factor)] = len(factors)
                factors.append(factor)
            members.append(number)
        counts.append(len(own))
    attributes = [[attribute_id(term.attribute) for term in factor.terms] for factor in factors]
    delta = Delta(layout)
    delta.load((k, [(factor, own)]) for k, (factor, own) in enumerate(zip(factors, attributes, strict=True)))
    rows, ids, bounds, base = delta.rows()
    factor_ptr, intervals = gather(rows.factor_ptr, np.array(members, np.int64))
    clause_ptr = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=clause_ptr[1:])
    slots = np.array([slot for slot, _ in clauses], np.uint32)
    owner, low, high = rows.attributes[intervals], rows.low[intervals], rows.high[intervals]
    index = assemble(Rows(slots, clause_ptr, factor_ptr, owner, low, high), ids, bounds, base, layout)
    return Part.of(index), _used(members, counts, attributes)


def _used(members: Sequence[int], counts: Sequence[int], attributes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The attribute IDs of each clause; clauses with the same have the same tuple."""
    firsts: dict[tuple[int, ...], int] = {}
    kinds = [firsts.setdefault(tuple(own), len(firsts)) for own in attributes]
    listed = list(firsts)
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    used, at = [], 0
    for count in counts:
        kind = tuple([kinds[member] for member in members[at : at + count]])
        at += count
        found = known.get(kind)
        if found is None:
            found = known[kind] = tuple(sorted({attribute for one in kind for attribute in listed[one]}))
        used.append(found)
    return used
