"""The list of removed clauses whose columns may still be in a chunk's packs, until a compaction drops them.

chunk    3  4  5            deaths  7 | 2  9 | 4
mark     1  1  3            chunks 3 and 4 still have columns of 2, 9, 4. Chunk 5 has one of 4 only.
                                7 has left the list
"""

from __future__ import annotations

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array


class Deaths:
    """SQC IDs of removed clauses, in the order of removal.

    A *mark* is a number of removals since the stream began. A chunk's mark says how many its packs have lost already.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._before = 0

    def __len__(self) -> int:
        """The number of removed clauses that are listed."""
        return len(self._ids)

    @property
    def mark(self) -> int:
        """The number of clauses removed since the stream began."""
        return self._before + len(self._ids)

    def bury(self, sqc_ids: Array) -> None:
        """Add removed clauses (int64[k])."""
        self._ids += sqc_ids.tolist()

    def since(self, mark: int) -> Array:
        """The clauses removed after `mark`, int64, ascending."""
        return np.array(sorted(self._ids[mark - self._before :]), np.int64)

    def forget(self, mark: int) -> None:
        """Drop the removals before `mark` from the list, as no chunk has columns of these clauses any more."""
        del self._ids[: mark - self._before]
        self._before = mark

    def check(self, marks: list[int]) -> None:
        """Check that all removals since each of the chunks' `marks` are listed."""
        lost = [mark for mark in marks if not self._before <= mark <= self.mark]
        ensure(
            not lost, self, "a chunk's mark is not among those known", marks=lost, first=self._before, last=self.mark
        )
