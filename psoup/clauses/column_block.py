"""Many clauses of one template as one new part of the index, without a loop over clauses.

    columns     low  10  20  10      each attribute: all ends ─ sort, unique ─> boundaries, and the rows of each end
                top  19  34  50
    fixed       b NULL               its rows are the same for all clauses
    the part    | 1 3 b | 2 4 b | 1 5 b |

The module `block` makes the same part from clauses that are objects. Only the order of a clause's factors may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.clauses.index.bounds import Bounds, distinct, edge_bounds, int_bounds
from psoup.clauses.index.clause_rows import ClauseRows
from psoup.clauses.index.combine import assemble
from psoup.clauses.index.posting_lists import Layout
from psoup.clauses.index.predicate_index import Part, bases
from psoup.expressions.tree import Expr
from psoup.model import Kind
from psoup.plan.factors import Key, Term
from psoup.plan.standing_query import ClauseColumns, Edges, TermColumn
from psoup.values.columns import Array

_START = 0
"""The code below all values. D boundaries follow (1 to D), then the code above all values (NULL), and the code past
NULL."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """An attribute with the codes of its intervals. `low`, `high`: the ends of each clause, int64[n], or one for all.

    `code`: the code of each end of a fixed term, which all clauses share.
    """

    bounds: Bounds
    low: Array | int
    high: Array | int
    code: dict[Key, int]

    def spans(self, term: Term) -> list[tuple[int, int]]:
        """The codes of the ends of a fixed term's intervals."""
        above, past_null = len(self.bounds) + 1, len(self.bounds) + 2
        spans = [
            (_START if i.low is None else self.code[i.low], above if i.high is None else self.code[i.high])
            for i in term.intervals
        ]
        if term.nulls and spans and spans[-1][1] == above:
            spans[-1] = (spans[-1][0], past_null)
        elif term.nulls:
            spans.append((above, past_null))
        return spans


def column_part(
    slots: Array, columns: ClauseColumns, attribute_id: Callable[[Expr], int], layout: Layout
) -> tuple[Part, tuple[int, ...]]:
    """Make the part of the clauses of a template. Returns it and the attribute IDs that each clause uses, ascending.

    `slots`: int64[n]. Each clause must be able to match some tuple. O(n log n).
    """
    terms = {attribute_id(term.attribute): term for term in columns.terms}
    fixed = [(attribute_id(term.attribute), term) for factor in columns.fixed for term in factor.terms]
    ids = sorted({*terms, *(attribute for attribute, _ in fixed)})
    placed = {a: _place(terms.get(a), [term for attribute, term in fixed if attribute == a]) for a in ids}
    bounds = tuple(attribute.bounds for attribute in placed.values())
    base = dict(zip(ids, bases(bounds)[:-1].tolist(), strict=True))
    spans: list[tuple[int, Array | int, Array | int]] = []
    ends: list[int] = []
    """The end of each factor among the spans of a clause."""
    for attribute in terms:
        spans.append((attribute, placed[attribute].low, placed[attribute].high))
        ends.append(len(spans))
    waiting = iter(fixed)
    for factor in columns.fixed:
        for attribute, term in islice(waiting, len(factor.terms)):
            spans += [(attribute, low, high) for low, high in placed[attribute].spans(term)]
        ends.append(len(spans))
    count, width = len(slots), len(spans)
    low, high = np.empty((count, width), np.int32), np.empty((count, width), np.int32)
    for place, (attribute, first, last) in enumerate(spans):
        low[:, place] = base[attribute] + first
        high[:, place] = base[attribute] + last
    factor_ptr = np.concatenate([[0], (np.arange(count)[:, None] * width + np.array(ends, np.int64)).ravel()])
    rows = ClauseRows(
        slots.astype(np.uint32),
        (np.arange(count + 1) * len(ends)).astype(np.int32),
        factor_ptr.astype(np.int32),
        np.tile(np.array([attribute for attribute, _, _ in spans], np.int64), count),
        low.ravel(),
        high.ravel(),
    )
    index = assemble(rows, np.array(ids, np.int64), bounds, bases(bounds), layout)
    return Part.of(index), tuple(ids)


def _place(column: TermColumn | None, fixed: list[Term]) -> _Placed:
    """The boundaries of one attribute, and the codes of its ends."""
    low, high = (None, None) if column is None else (column.low, column.high)
    kind = fixed[0].attribute.type.kind if column is None else column.attribute.type.kind
    keys = [key for term in fixed for i in term.intervals for key in (i.low, i.high) if key is not None]
    texts = [key for key in keys if isinstance(key, bytes)]
    if kind is Kind.TEXT:
        return _place_texts(low, high, texts)
    return _place_ints(low, high, [key for key in keys if isinstance(key, int)])


def _place_ints(low: Edges | None, high: Edges | None, fixed: list[int]) -> _Placed:
    used = [edges.keys[~edges.open] + int(edges.past) for edges in (low, high) if edges is not None]
    keys = distinct(np.concatenate([*used, np.array(fixed, np.int64)]))

    def codes(edges: Edges | None, otherwise: int) -> Array | int:
        if edges is None:
            return otherwise
        closed = np.where(edges.open, 0, edges.keys) + int(edges.past)  # the greatest key has no end past it
        return np.where(edges.open, otherwise, 1 + np.searchsorted(keys, closed))

    places = (1 + np.searchsorted(keys, np.array(fixed, np.int64))).tolist()
    code: dict[Key, int] = dict(zip(fixed, places, strict=True))
    return _Placed(int_bounds(keys), codes(low, _START), codes(high, len(keys) + 1), code)


def _place_texts(low: Edges | None, high: Edges | None, fixed: list[bytes]) -> _Placed:
    """The boundaries of a text attribute. An end is one number: 2 * rank at a text, 2 * rank + 1 just past it."""
    fixed_ends = [(key[:-1], 1) if key.endswith(b"\0") else (key, 0) for key in fixed]
    columns = {id(edges.keys): edges.keys for edges in (low, high) if edges is not None}
    parts = [*columns.values(), pa.array([text for text, _ in fixed_ends], pa.large_binary())]
    encoded = pa.chunked_array(parts).combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ranks = dict(zip([*columns, 0], np.split(rank[encoded.indices.to_numpy()], _cuts(parts)), strict=True))
    edges = {id(side): 2 * ranks[id(side.keys)] + int(side.past) for side in (low, high) if side is not None}
    ends = 2 * ranks[0] + np.array([past for _, past in fixed_ends], np.int64)
    used = distinct(np.concatenate([ends, *(edges[id(side)][~side.open] for side in (low, high) if side is not None)]))

    def codes(side: Edges | None, otherwise: int) -> Array | int:
        if side is None:
            return otherwise
        return np.where(side.open, otherwise, 1 + np.searchsorted(used, edges[id(side)]))

    bounds = edge_bounds(encoded.dictionary.take(pa.array(order[used >> 1])), used & 1)
    code: dict[Key, int] = dict(zip(fixed, (1 + np.searchsorted(used, ends)).tolist(), strict=True))
    return _Placed(bounds, codes(low, _START), codes(high, len(used) + 1), code)


def _cuts(parts: list[pa.Array]) -> list[int]:
    """The positions at which concatenated parts are cut apart again."""
    return np.cumsum([len(part) for part in parts])[:-1].tolist()
