"""Tables of keys that folds of equal groups share: of all chunks, and of all queries that group alike.

    chunk 16   IBM SUN ─┐
    chunk 17   IBM SUN ─┼─ one table: the keys in their order, and where their places are looked up
    window     IBM SUN ─┘
    chunk 18   IBM ORCL      keys of its own

A table is never changed: a reader that meets another key forks it (`Keys.fork`), and the fold of the next window has a
new one. It goes with the last fold that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import ref

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.recipes import Fold
from psoup.columns import Array, Column
from psoup.expressions.tree import Expr

_MANY = 256
"""GROUP BY clauses from which on those whose table is gone are forgotten."""


class KeyTables:
    """The latest table for each list of keys. Any thread: a table comes in a single step."""

    def __init__(self) -> None:
        self._latest: dict[tuple[Expr, ...], ref[Keys]] = {}

    def shared(self, keys: tuple[Expr, ...], fold: Fold) -> Fold:
        """The fold, with the keys of the latest table if they are equal. O(groups)."""
        table = self._table(keys)
        return replace(fold, keys=table.given) if table is not None and _equal(table.given, fold.keys) else fold

    def numbered(self, keys: tuple[Expr, ...], fold: Fold) -> Fold:
        """The fold with a table, which is the latest then. O(groups) if they are others than before."""
        table = self._table(keys)
        if table is None or not _equal(table.given, fold.keys):
            if len(self._latest) >= _MANY:
                self._latest = {name: latest for name, latest in self._latest.copy().items() if latest() is not None}
            table = Keys.of(fold.keys)
            self._latest[keys] = ref(table)
        return replace(fold, keys=table.given, numbers=table)

    def _table(self, keys: tuple[Expr, ...]) -> Keys | None:
        latest = self._latest.get(keys)
        return None if latest is None else latest()


def _equal(some: Sequence[Column], others: Sequence[Column]) -> bool:
    """Whether columns are the same, bit for bit."""
    return some is others or all(map(_same, some, others))


def _same(one: Column, other: Column) -> bool:
    parts = zip((one.values, one.valid, one.data), (other.values, other.valid, other.data), strict=True)
    return all(_bits(left, right) for left, right in parts)


def _bits(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(np.array_equal(one.view(np.uint8), other.view(np.uint8)))
