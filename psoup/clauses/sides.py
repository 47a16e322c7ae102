"""Clauses as a side of the join: the part of them that a probe reads.

    Query SteM ──side────> Side         the writer's, until the clauses change
               ──subset──> Subset       some clauses, to be joined with old tuples on any thread
               ──view────> IndexView    all clauses as they are now, for readers: parts and how many have left each

Nothing here changes a clause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from psoup.clauses.attributes import Attributes, Waits
from psoup.clauses.costs import ClauseCosts
from psoup.clauses.delta import RecentView
from psoup.clauses.predicate_index import Part, PartView, PredicateIndex
from psoup.clauses.scratch import Scratch
from psoup.columns import Array
from psoup.config import EngineConfig
from psoup.expressions.tree import Expr
from psoup.plan.factors import Factor, Term


@dataclass(frozen=True, slots=True)
class Side:
    """Clauses as a side of the join: what a probe reads of them, until they change. One user at a time."""

    parts: Sequence[Part]
    attributes: Mapping[int, Expr]
    """The columns and expressions behind the attribute IDs."""
    scratch: Scratch
    config: EngineConfig
    costs: ClauseCosts | None = None
    """The counters of the work, if it is counted."""
    barred: Collection[int] = ()
    """Attributes that must not be computed."""
    waits: Waits = field(default_factory=Waits)
    """The attributes that were evaluated for few of the tuples."""


class Subset:
    """Some clauses as they were when it was made: the same join, for covering old chunks. One user at a time."""

    def __init__(
        self,
        parts: Sequence[Part],
        attributes: Mapping[int, Expr],
        config: EngineConfig,
        scratch: Scratch | None = None,
        barred: Collection[int] = (),
    ) -> None:
        self._parts = parts
        self.attributes = attributes
        """The columns and expressions behind the attribute IDs."""
        self._config, self._barred = config, barred
        self._scratch = scratch or Scratch()

    @property
    def slots(self) -> Array:
        """The slots, uint32, ascending."""
        return self._parts[0].index.slots

    @property
    def codes(self) -> int:
        """How many codes the values of all attributes may have."""
        return self._parts[0].index.rows

    def clauses(self) -> Iterator[tuple[int, tuple[Factor, ...]]]:
        """(slot, factors) of each clause; the factors in the order of the index."""
        index = self._parts[0].index
        for position, slot in enumerate(index.slots.tolist()):
            yield slot, factors_at(index, position, self.attributes)

    def readers(self, attributes: Collection[int]) -> Array:
        """The slots of the clauses that read one of `attributes`, int64, ascending."""
        return self._parts[0].readers(attributes)

    @property
    def unlisted(self) -> int:
        """How many of them are looked at for every piece of tuples."""
        return sum(len(part.index.rest) for part in self._parts)

    def twin(self) -> Subset:
        """The same clauses for another user; nothing is copied."""
        return Subset(self._parts, self.attributes, self._config, None, self._barred)

    def side(self, tuples: int) -> Side:
        """The clauses as a side of the join with some tuples. O(1)."""
        return Side(self._parts, self.attributes, self._scratch, self._config, barred=self._barred)


class IndexView:
    """All clauses as they were when it was made, for readers: the same join, while the writer goes on."""

    def __init__(self, parts: Sequence[PartView | RecentView], attributes: Attributes, config: EngineConfig) -> None:
        self._parts, self._config = parts, config
        self._attributes, self._barred = attributes.share(), frozenset(attributes.barred)

    def subset(self, scratch: Scratch) -> Subset:
        """The clauses for one user, which lends the scratch. A byte is copied for each."""
        parts = [part.part() for part in self._parts]
        return Subset(parts, self._attributes, self._config, scratch, self._barred)


def factors_at(index: PredicateIndex, position: int, attributes: Mapping[int, Expr]) -> tuple[Factor, ...]:
    """The factors of a clause, made from the arrays of the index."""
    return tuple(
        Factor(tuple(Term(attributes[a], tuple(own), nulls) for a, (own, nulls) in terms.items()))
        for terms in index.factors(position)
    )
