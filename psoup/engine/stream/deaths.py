"""The clauses that have died, so that each chunk's packs can forget them: `psoup.engine.maintenance.compact`.

chunk    3  4  5            deaths  7 | 2  9 | 4
mark     1  1  3            chunks 3 and 4 still have columns of 2, 9, 4; chunk 5 of 4 alone; 7 is forgotten
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array
from psoup.invariants import ensure


class Deaths:
    """SQC IDs of unregistered clauses, in that order. A mark: how many had died, since the stream began."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._before = 0

    def __len__(self) -> int:
        """The number of deaths that are remembered."""
        return len(self._ids)

    @property
    def mark(self) -> int:
        """The number of clauses that have died since the stream began."""
        return self._before + len(self._ids)

    def bury(self, sqc_ids: Array) -> None:
        """Add clauses (int64[k]) that are gone."""
        self._ids += sqc_ids.tolist()

    def since(self, mark: int) -> Array:
        """The clauses that died after `mark`, int64, ascending."""
        return np.array(sorted(self._ids[mark - self._before :]), np.int64)

    def forget(self, mark: int) -> None:
        """Forget the deaths before `mark`: every chunk has forgotten those clauses."""
        del self._ids[: mark - self._before]
        self._before = mark

    def check(self, marks: list[int]) -> None:
        """Check that all deaths since each of `marks`, those of the chunks, are remembered."""
        lost = [mark for mark in marks if not self._before <= mark <= self.mark]
        ensure(
            not lost, self, "a chunk's mark is not among those known", marks=lost, first=self._before, last=self.mark
        )
