"""The clauses as a side of the join: the data that a probe reads.

    Query SteM ──side────> Side         for the writer, valid until the clauses change
               ──subset──> Subset       some clauses, to be joined with old tuples on any thread
               ──view────> IndexView    all clauses at a moment, for readers: parts, with numbers of removals

This module changes no clause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.clauses.attributes import Attributes, Waits
from psoup.clauses.costs import ClauseCosts
from psoup.clauses.index.delta import RecentView
from psoup.clauses.index.predicate_index import Part, PartView, PredicateIndex
from psoup.clauses.scratch import Scratch
from psoup.clauses.text_search import Searched
from psoup.config import EngineConfig
from psoup.expressions.tree import AttributeRef, Expr
from psoup.plan.factors import Factor, Term
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Side:
    """The clauses as a side of the join, valid until they change. Only one thread may use it at a time."""

    parts: Sequence[Part]
    attributes: Mapping[int, Expr]
    """The column or expression of each attribute ID."""
    scratch: Scratch
    config: EngineConfig
    costs: ClauseCosts | None = None
    """The counters of the work. None if it is not counted."""
    barred: Collection[int] = ()
    """Attributes that must not be computed."""
    waits: Waits = field(default_factory=Waits)
    """Statistics of delayed evaluation."""
    searched: Sequence[tuple[Part, Searched]] = ()
    """Parts of clauses that search for texts, with their search structures."""

    def computed(self, attributes: Array) -> Array:
        """For each of `attributes` (IDs), whether it is a computed expression: bool[A]."""
        return np.array([not isinstance(self.attributes[a], AttributeRef) for a in attributes.tolist()], np.bool_)


class Subset:
    """Some clauses at a moment, to be joined with the tuples of old chunks. Only one thread may use it at a time."""

    def __init__(
        self,
        parts: Sequence[Part],
        attributes: Mapping[int, Expr],
        config: EngineConfig,
        scratch: Scratch | None = None,
        barred: Collection[int] = (),
        searched: Sequence[Part] = (),
    ) -> None:
        self._parts = parts
        self._searched = searched
        self.attributes = attributes
        """The column or expression of each attribute ID."""
        self._config = config
        self._barred = barred
        self._scratch = scratch or Scratch()

    @property
    def slots(self) -> Array:
        """The slots, uint32, ascending."""
        slots = [part.index.slots for part in (self._parts[0], *self._searched)]
        return slots[0] if len(slots) == 1 else np.sort(np.concatenate(slots))

    @property
    def codes(self) -> int:
        """The number of different codes of all attributes."""
        return self._parts[0].index.rows

    def clauses(self) -> Iterator[tuple[int, tuple[Factor, ...]]]:
        """Yield the slot and the factors of each clause. The factors have the order of the index."""
        for part in (self._parts[0], *self._searched):
            for position, slot in enumerate(part.index.slots.tolist()):
                yield slot, factors_at(part.index, position, self.attributes)

    def readers(self, attributes: Collection[int]) -> Array:
        """The slots of the clauses that read one of `attributes`, int64, ascending."""
        slots = [part.readers(attributes) for part in (self._parts[0], *self._searched)]
        return slots[0] if len(slots) == 1 else np.sort(np.concatenate(slots))

    @property
    def unlisted(self) -> int:
        """The number of clauses that are in no posting list, and are tested for every piece."""
        return sum(len(part.index.rest) for part in self._parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the clauses, without the scratch memory."""
        return sum(part.index.nbytes for part in (*self._parts, *self._searched))

    def twin(self) -> Subset:
        """The same clauses for another thread. Copies nothing."""
        return Subset(self._parts, self.attributes, self._config, None, self._barred, self._searched)

    def side(self, tuples: int) -> Side:
        """The clauses as a side of the join with some tuples. O(1)."""
        texts = with_plans(self._searched, self.attributes)
        return Side(self._parts, self.attributes, self._scratch, self._config, barred=self._barred, searched=texts)


class IndexView:
    """The clauses at a moment, for readers. The writer may change the clauses meanwhile."""

    def __init__(
        self,
        parts: Sequence[PartView],
        recent: PartView | RecentView | None,
        attributes: Attributes,
        config: EngineConfig,
        texts: IndexView | None = None,
    ) -> None:
        self._views = parts
        self._recent = recent
        self._config = config
        self._texts = texts
        self._attributes = attributes.share()
        self._barred = frozenset(attributes.barred)

    def subset(self, scratch: Scratch) -> Subset:
        """The clauses for one thread, with the thread's scratch. Copies one byte for each clause."""
        searched = [] if self._texts is None else self._texts._parts()
        return Subset(self._parts(), self._attributes, self._config, scratch, self._barred, searched)

    def readers(self, expr: Expr) -> Array:
        """The slots of the clauses that read an expression, int64. O(intervals). Copies a byte for each clause."""
        ids = [attribute for attribute, reader_expr in [*self._attributes.items()] if reader_expr == expr]
        parts = [*self._parts(), *([] if self._texts is None else self._texts._parts())]
        return np.concatenate([np.zeros(0, np.int64), *(part.readers(ids) for part in parts)])

    def _parts(self) -> list[Part]:
        parts = [view.part() for view in self._views]
        return parts if self._recent is None else [*parts, self._recent.part()]


def with_plans(
    parts: Sequence[Part], attributes: Mapping[int, Expr], merged: Sequence[Part] = ()
) -> list[tuple[Part, Searched]]:
    """Pair each part of clauses that search for texts with its search structure. Makes a structure that is missing.

    `merged`: the parts from which these parts were merged. A new structure takes over their counts.
    """
    pairs = []
    for part in parts:
        plan = part.extra(Searched)
        if plan is None:
            plan = part.keep(Searched.of(part, attributes))
            plan.inherit([earlier for source in merged if (earlier := source.extra(Searched)) is not None])
        pairs.append((part, plan))
    return pairs


def factors_at(index: PredicateIndex, position: int, attributes: Mapping[int, Expr]) -> tuple[Factor, ...]:
    """The factors of a clause, restored from the arrays of the index."""
    return tuple(
        Factor(tuple(Term(attributes[a], tuple(intervals), nulls) for a, (intervals, nulls) in terms.items()))
        for terms in index.factors(position)
    )
