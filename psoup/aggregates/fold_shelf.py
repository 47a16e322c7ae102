"""The port to the folds on disk, of chunks that have left memory. `psoup.aggregates.stored_folds` implements it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from psoup.work.read_budget import NOT_HELD, HeldBytes

if TYPE_CHECKING:
    from psoup.aggregates.folds import Folds


class FoldShelf(Protocol):
    """A port to the folds on disk, of chunks that have left memory (`psoup.aggregates.stored_folds`)."""

    def fetch(self, folds: Folds, first: int, stop: int, fan: int, budget: HeldBytes = NOT_HELD) -> int:
        """Read the folds of chunks [first, stop) that memory lacks into `folds`. Returns their bytes.

        Charges the bytes to `budget` before it reads them.
        """
        ...

    def shelve(self, all_folds: Iterable[Folds], fan: int) -> None:
        """Write the folds that are not on disk yet."""
        ...
