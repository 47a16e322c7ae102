"""The tuples for which clauses with text patterns need delayed expressions: those that contain the patterns.

    a = 5 AND n LIKE '%foo%' AND length(m) > 9      a = 5 ──> tuples 3 17 90, 'foo' in 17 ──> length(m) of tuple 17
    n LIKE '%bar%' AND upper(m) = 'X'               'bar' in 4 and 8 ──────────────────────> upper(m) of tuples 4 and 8

The clauses are joined as in the final join, without their delayed factors. A factor with an error is true here, as in
`psoup.matching.survivors`. Clauses without delayed factors take no part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from psoup.clauses.cheap_clauses import listed, strip, waits_of
from psoup.clauses.error_clauses import with_errors
from psoup.clauses.index.clause_rows import gather
from psoup.clauses.index.predicate_index import Part
from psoup.clauses.sides import Side
from psoup.clauses.text_search import Early, Searched
from psoup.data.data_stem import Piece
from psoup.data.values import Values
from psoup.matching.texts import TextJoin
from psoup.results.open import OpenResults
from psoup.values.columns import Array


def needed_by_texts(side: Side, waits: Collection[int], values: Mapping[int, Values], piece: Piece) -> Array:
    """Flags of the values that clauses with text patterns need: uint8[waits, n], by ascending attribute ID.

    `waits`: the delayed attributes. `values`: the values of all other attributes.
    """
    ids: Array = np.array(sorted(waits), np.int64)
    needed: Array = np.zeros((len(ids), len(piece)), np.uint8)
    for number, (part, plan) in enumerate(side.searched):
        flags = np.isin(part.index.attributes, ids) & ~np.isin(part.index.attributes, plan.attributes)
        if part.live and flags.any():
            _MarkJoin(side, number, _early(side, part, plan, flags), values, piece, ids, needed).run()
    return needed


def _early(side: Side, part: Part, plan: Searched, flags: Array) -> Early:
    """The clauses of a part that read delayed attributes, without the factors on these.

    `flags`: bool[A], the delayed attributes. Computed once while the flags stay the same.
    """
    early = plan.early
    if early is None or not np.array_equal(early.flags, flags):
        pointers, attributes = waits_of(part.index, flags)
        patterns = np.isin(part.index.attributes, plan.attributes)
        stripped = strip(part, flags | patterns, np.diff(pointers) > 0)
        left = stripped.part.index
        computed = side.computed(left.attributes)
        if computed.any():
            stripped = replace(stripped, part=Part.of(with_errors(left, computed, listed(len(left)))))
        early = plan.early = Early(flags, plan.stripped_as(stripped), pointers, attributes)
    return early


class _MarkJoin(TextJoin):
    """The join of the clauses that `_early` returns. It sets the flags of the pairs that it finds in `needed`."""

    def __init__(
        self,
        side: Side,
        number: int,
        early: Early,
        values: Mapping[int, Values],
        piece: Piece,
        ids: Array,
        needed: Array,
    ) -> None:
        super().__init__(replace(side, costs=None), number, early.plan, values, piece, OpenResults(side.config, 0))
        self._early = early
        self._ids = ids
        self._needed = needed

    def _found(self, clauses: Array, tuples: Array) -> None:
        pointers, at = gather(self._early.pointers, clauses)
        places = np.searchsorted(self._ids, self._early.attributes[at])
        self._needed[places, np.repeat(tuples, np.diff(pointers))] = 1
