"""The attributes of a stream's clauses by small numbers: its columns, and the expressions computed of them.

    price            0                    id_of: the number of an expression, a new number if it has none
    length(name)     1    barred          derived: expressions to be computed for each piece
    price * volume   2                    forget: drops numbers that no clause needs; no number is given twice

A barred attribute is not computed (`psoup.clauses.quarantine`); it keeps its number until it is unbarred.
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
        """The ID of an expression, for as long as a clause uses it."""
        number = self._ids.get(expr)
        if number is None:
            number = self._ids[expr] = self._next
            self._exprs[number] = expr
            self._next += 1
        return number

    def share(self) -> Mapping[int, Expr]:
        """The expressions for a reader: it may see more of them later, and none leaves that is there now."""
        return self._exprs

    @property
    def known(self) -> Collection[Expr]:
        """All expressions that have an ID."""
        return self._ids.keys()

    def unbar(self, attribute: int) -> None:
        """Let an attribute that no clause reads any more be computed for the next clause that does."""
        self.barred.discard(attribute)

    @property
    def derived(self) -> list[int]:
        """The IDs of the expressions that are computed, ascending."""
        return [a for a, expr in self._exprs.items() if not isinstance(expr, AttributeRef) and a not in self.barred]

    def forget(self, used: Collection[int]) -> None:
        """Forget all attributes but those in `used` and those that are barred."""
        needed = {a: expr for a, expr in self._exprs.items() if a in used or a in self.barred}
        self._exprs, self._ids = needed, {expr: a for a, expr in needed.items()}

    def check(self) -> None:
        """Check that IDs and expressions name each other, and that barred attributes have IDs."""
        ids, numbers = [*self._ids.values()], [*self._exprs]
        paired = self._ids == {expr: a for a, expr in self._exprs.items()}
        ensure(paired, self, "IDs and expressions do not name each other", ids=ids, known=numbers)
        ensure(self.barred <= set(numbers), self, "an unknown attribute is barred", barred=self.barred, known=numbers)


@dataclass(slots=True)
class Seen:
    """Counts of an attribute: tuples that came, those it was evaluated for, and pieces until it may wait again."""

    tuples: int = 0
    evaluated: int = 0
    pause: int = 0


class Waits:
    """Computed values by attribute ID, and the tuples they are computed for: some wait for other factors
    (`psoup.matching.survivors`).

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
        """Let the attribute not wait for some pieces, as most tuples needed it."""
        self.seen.setdefault(attribute, Seen()).pause = pieces

    def count(self, attribute: int, tuples: int, evaluated: int) -> None:
        """Count an evaluation for some of the tuples of a piece."""
        seen = self.seen.setdefault(attribute, Seen())
        seen.tuples += tuples
        seen.evaluated += evaluated

    def forget(self, known: Collection[int]) -> None:
        """Forget all attributes but those in `known`."""
        for attribute in [a for a in self.seen if a not in known]:
            del self.seen[attribute]
