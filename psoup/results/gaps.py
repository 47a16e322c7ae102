"""Exceptions to a chunk's coverage: clauses that were evaluated over its first tuples only, or over none.

    ids    int64[k]   SQC IDs, ascending        5    9   12
    first  int32[k]   offsets in the chunk      0  512    0        clause 9 was evaluated over the first 512 tuples

Such a clause was not in the index when the other tuples came: its evaluation had failed, or an operator had taken it
out. From that offset on the results say nothing about it, and readers evaluate it. Immutable, so that chunks share one
value while the exceptions stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array

WHOLE = 2**31 - 1
"""Stands for the end of the chunk, up to which a clause without an exception was evaluated. Above every offset."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """The exceptions to the coverage of one chunk."""

    ids: Array
    first: Array

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, sqc_id: int) -> int:
        """The offset up to which a clause was evaluated, or WHOLE if it has no exception. O(log k)."""
        if not self.ids.size:  # nearly always
            return WHOLE
        at = int(self.ids.searchsorted(sqc_id))
        return int(self.first[at]) if at < len(self.ids) and self.ids[at] == sqc_id else WHOLE

    def joined(self, ids: Array, offset: int) -> Gaps:
        """The exceptions, plus those of clauses (int64[n], any order) that are not evaluated from `offset` on.

        A clause with two offsets keeps the lesser one. O(k + n).
        """
        if not len(ids):
            return self
        both = np.concatenate([self.ids, ids])
        first = np.concatenate([self.first, np.full(len(ids), offset, np.int32)])
        order = np.lexsort((first, both))
        both, first = both[order], first[order]
        new = np.ones(len(both), np.bool_)
        np.not_equal(both[1:], both[:-1], out=new[1:])
        return Gaps(both[new], first[new])

    def without(self, dead: Array) -> Gaps:
        """The exceptions without the SQC IDs `dead`. Returns the same object if it has none of them."""
        if not len(self.ids):
            return self
        keep = ~np.isin(self.ids, dead)
        return self if keep.all() else Gaps(self.ids[keep], self.first[keep])

    def below(self, sqc_id: int) -> Gaps:
        """The exceptions of clauses with smaller IDs. Returns the same object if all IDs are smaller. O(log k)."""
        end = int(self.ids.searchsorted(sqc_id))
        return self if end == len(self.ids) else Gaps(self.ids[:end], self.first[:end])

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.ids.nbytes + self.first.nbytes

    def check(self, length: int) -> None:
        """Check that IDs ascend, and that no offset lies past the chunk."""
        ids, first = self.ids, self.first
        ensure(len(ids) == len(first), self, "a clause has no offset", ids=ids, first=first)
        ensure((np.diff(ids) > 0).all(), self, "SQC IDs are not ascending", ids=ids)
        ensure(
            ((first >= 0) & (first <= length)).all(), self, "an offset lies past the chunk", first=first, length=length
        )


NO_GAPS = Gaps(np.zeros(0, np.int64), np.zeros(0, np.int32))
"""No exceptions: every clause was evaluated as far as the coverage says."""
