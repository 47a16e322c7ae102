"""The attributes of a stream's clauses by small numbers: its columns, and what is computed of them.

    price            0                    id_of: the number of an expression, a new one if it has none
    length(name)     1    barred          derived: what has to be computed for each piece
    price * volume   2                    forget: numbers that no clause needs; none is ever given twice

One that is barred is computed no more (`psoup.clauses.quarantine`); it keeps its number until that is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from psoup.expressions.tree import AttributeRef, Expr
from psoup.invariants import ensure


class Attributes(Mapping[int, Expr]):
    """Expressions by their IDs. The methods that change it are the writer's."""

    def __init__(self) -> None:
        self._ids: dict[Expr, int] = {}
        self._exprs: dict[int, Expr] = {}
        self._next = 0
        self.barred: set[int] = set()

    def __getitem__(self, attribute: int) -> Expr:
        return self._exprs[attribute]

    def __iter__(self) -> Iterator[int]:
        return iter(self._exprs)

    def __len__(self) -> int:
        return len(self._exprs)

    def id_of(self, expr: Expr) -> int:
        """The ID of an expression, for as long as somebody uses it."""
        known = self._ids.get(expr)
        if known is None:
            known = self._ids[expr] = self._next
            self._exprs[known] = expr
            self._next += 1
        return known

    def unbar(self, attribute: int) -> None:
        """No clause reads it any more: it may be computed for the next one that does."""
        self.barred.discard(attribute)

    @property
    def derived(self) -> list[int]:
        """The IDs of the expressions that are computed, ascending."""
        return [a for a, expr in self._exprs.items() if not isinstance(expr, AttributeRef) and a not in self.barred]

    def forget(self, used: Collection[int]) -> None:
        """Only those in `used` are still needed, and those that are barred."""
        for attribute in [a for a in self._exprs if a not in used and a not in self.barred]:
            del self._ids[self._exprs.pop(attribute)]

    def check(self) -> None:
        """IDs and expressions name each other, and what is barred is there."""
        ids, known = [*self._ids.values()], [*self._exprs]
        paired = self._ids == {expr: a for a, expr in self._exprs.items()}
        ensure(paired, self, "IDs and expressions do not name each other", ids=ids, known=known)
        ensure(self.barred <= set(known), self, "an unknown attribute is barred", barred=self.barred, known=known)


@dataclass(slots=True)
class Seen:
    """Of one attribute: tuples that came while it could wait, those that it was evaluated for, and the pieces until it
    may wait again."""

    tuples: int = 0
    evaluated: int = 0
    pause: int = 0


class Waits:
    """Attributes that are evaluated only for tuples that pass other factors (`psoup.matching.survivors`), by ID.

    Counts are of this life of the process, and the writer's.
    """

    def __init__(self) -> None:
        self.seen: dict[int, Seen] = {}

    def due(self, attribute: int) -> bool:
        """Whether it may wait in this piece: not for a while after most tuples needed it."""
        seen = self.seen.get(attribute)
        if seen is None or not seen.pause:
            return True
        seen.pause -= 1
        return False

    def pause(self, attribute: int, pieces: int) -> None:
        """Most tuples needed it."""
        self.seen.setdefault(attribute, Seen()).pause = pieces

    def count(self, attribute: int, tuples: int, evaluated: int) -> None:
        """It was evaluated for some of the tuples of a piece."""
        seen = self.seen.setdefault(attribute, Seen())
        seen.tuples += tuples
        seen.evaluated += evaluated

    def forget(self, known: Collection[int]) -> None:
        """Only those in `known` are there any more."""
        for attribute in [a for a in self.seen if a not in known]:
            del self.seen[attribute]
