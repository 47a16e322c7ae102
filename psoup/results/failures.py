"""Failures: for each clause, the tuples of a chunk for which an error alone prevented a match.

    clause                             tuples        a = 5    CAST(n AS BIGINT) > 3
    a = 5 AND CAST(n AS BIGINT) > 3    5, 'x'        yes      error                   a failure
                                       6, 'x'        no       error, or not asked     none: no match whatever it is

The order in which factors are evaluated changes nothing: a tuple counts once, and only if no factor is false. A clause
with a single condition on one expression is not listed here: each error of the expression counts for it (`errors` of
the results).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.invariants import ensure
from psoup.plan.factors import Factor
from psoup.results.runs import order_of
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Failures:
    """The number of failures of each clause that has some. Immutable.

    `names`: int64[k], ascending, slots or SQC IDs of the clauses. `counts`: int64[k], all above 0.
    """

    names: Array
    counts: Array

    def of(self, name: int) -> int:
        """The number of failures of a clause. O(log k)."""
        at = int(self.names.searchsorted(name))
        return int(self.counts[at]) if at < len(self.names) and self.names[at] == name else 0

    def plus(self, names: Array, counts: Array) -> Failures:
        """The counts plus further failures of clauses (int64[n], distinct). O(k + n)."""
        if not len(names):
            return self
        if np.array_equal(self.names, names):
            return Failures(self.names, self.counts + counts)
        every = np.concatenate([self.names, names])
        order = order_of(every)
        every = every[order]
        first = np.flatnonzero(np.diff(every, prepend=-1))
        return Failures(every[first], np.add.reduceat(np.concatenate([self.counts, counts])[order], first))

    def renamed(self, names_of: Array) -> Failures:
        """The counts with `names_of[slot]` for each slot. A clause with a negative name is left out. O(k)."""
        if not len(self.names):
            return NO_FAILURES
        names = names_of[self.names].astype(np.int64)
        order = order_of(names)
        named = order[names[order] >= 0]
        return Failures(names[named], self.counts[named])

    def without(self, names: Array) -> Failures:
        """The counts without the clauses `names` (integers). O(k + n)."""
        remaining = ~np.isin(self.names, names)
        return self if remaining.all() else Failures(self.names[remaining], self.counts[remaining])

    def same(self, other: Failures) -> bool:
        """Whether both objects have the same counts."""
        return np.array_equal(self.names, other.names) and np.array_equal(self.counts, other.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.names.nbytes + self.counts.nbytes

    def check(self) -> None:
        """Check that clauses are named once, in order, and that each has failures."""
        sound = bool((np.diff(self.names) > 0).all() and (self.counts > 0).all())
        ensure(sound, self, "failures are not named once, in order", names=self.names, counts=self.counts)


NO_FAILURES = Failures(np.zeros(0, np.int64), np.zeros(0, np.int64))


def is_lone(factors: Sequence[Factor]) -> bool:
    """Whether a clause is one condition on one expression or column. Then each error of the expression is a failure."""
    return len(factors) == 1 and len(factors[0].terms) == 1
