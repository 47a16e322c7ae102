"""Small numbers (IDs) for the attributes of a stream's clauses: its columns, and expressions over them.

    price            0                    id_of: the number of an expression; a new one at the first call
    length(name)     1    barred          derived: expressions to be computed for each piece
    price * volume   2                    forget: drops numbers that no clause needs; no number is reused

A barred attribute is not computed (`psoup.clauses.quarantine`). It keeps its ID until `unbar`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from psoup.expressions.tree import AttributeRef, Expr
from psoup.invariants import ensure


class Attributes(Mapping[int, Expr]):
    """A map from IDs to expressions. Only the writer changes it."""

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
        """The ID of an expression. A new expression gets the next ID, and keeps it while a clause uses it."""
        number = self._ids.get(expr)
        if number is None:
            number = self._ids[expr] = self._next
            self._exprs[number] = expr
            self._next += 1
        return number

    def share(self) -> Mapping[int, Expr]:
        """The expressions for a reader. The writer may add expressions to this mapping, but never removes any."""
        return self._exprs

    @property
    def known(self) -> Collection[Expr]:
        """All expressions with an ID."""
        return self._ids.keys()

    def unbar(self, attribute: int) -> None:
        """Remove the bar of an attribute, so that later clauses can use it. No clause may read the attribute now."""
        self.barred.discard(attribute)

    @property
    def derived(self) -> list[int]:
        """The IDs of computed expressions that are not barred, ascending."""
        return [a for a, expr in self._exprs.items() if not isinstance(expr, AttributeRef) and a not in self.barred]

    def forget(self, used: Collection[int]) -> None:
        """Remove all attributes except for barred ones and those in `used`."""
        needed = {a: expr for a, expr in self._exprs.items() if a in used or a in self.barred}
        self._exprs, self._ids = needed, {expr: a for a, expr in needed.items()}

    def check(self) -> None:
        """Check that the maps from IDs and from expressions are inverse, and that barred attributes have IDs."""
        ids, numbers = [*self._ids.values()], [*self._exprs]
        paired = self._ids == {expr: a for a, expr in self._exprs.items()}
        ensure(paired, self, "IDs and expressions do not name each other", ids=ids, known=numbers)
        ensure(self.barred <= set(numbers), self, "an unknown attribute is barred", barred=self.barred, known=numbers)


@dataclass(slots=True)
class Seen:
    """Counts of one attribute: `tuples` that arrived, and tuples for which it was `evaluated`.

    `pause`: the number of pieces until its evaluation may be delayed again.
    """

    tuples: int = 0
    evaluated: int = 0
    pause: int = 0


class Waits:
    """Statistics of delayed evaluation by attribute ID. The evaluation waits until other factors have excluded tuples.

    See `psoup.matching.survivors`. The counts begin with the process. Only the writer changes them.
    """

    def __init__(self) -> None:
        self.seen: dict[int, Seen] = {}

    def due(self, attribute: int) -> bool:
        """Whether the attribute may be delayed in this piece. Counts down its pause."""
        seen = self.seen.get(attribute)
        if seen is None or not seen.pause:
            return True
        seen.pause -= 1
        return False

    def pause(self, attribute: int, pieces: int) -> None:
        """Forbid the delay of the attribute for the next pieces, as most tuples needed its value."""
        self.seen.setdefault(attribute, Seen()).pause = pieces

    def count(self, attribute: int, tuples: int, evaluated: int) -> None:
        """Count an evaluation of the attribute: for `evaluated` of the `tuples` of a piece."""
        seen = self.seen.setdefault(attribute, Seen())
        seen.tuples += tuples
        seen.evaluated += evaluated

    def forget(self, used: Collection[int]) -> None:
        """Remove all attributes except for those in `used`."""
        for attribute in [a for a in self.seen if a not in used]:
            del self.seen[attribute]
