"""Tables of keys that folds with equal groups share, over all chunks and all queries with the same GROUP BY.

    chunk 16   IBM SUN ─┐
    chunk 17   IBM SUN ─┼─ one table: the keys in their order, and a hash table from a key to its place
    window     IBM SUN ─┘
    chunk 18   IBM ORCL      a separate table

A table never changes. A reader that meets another key copies the table (`Keys.fork`). The fold of the next window gets
a new table. A table is freed with the last fold that refers to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import ref

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.recipes import Fold
from psoup.expressions.tree import Expr
from psoup.values.columns import Array, Column

_MANY = 256
"""The number of different GROUP BY clauses from which entries without a live table are removed."""


class KeyTables:
    """The latest table for each GROUP BY. Any thread may use it, as a table is replaced in one atomic step."""

    def __init__(self) -> None:
        self._latest: dict[tuple[Expr, ...], ref[Keys]] = {}

    def shared(self, keys: tuple[Expr, ...], fold: Fold) -> Fold:
        """The fold, with the key arrays of the latest table if its keys are equal. O(groups)."""
        table = self._table(keys)
        return replace(fold, keys=table.given) if table is not None and _equal(table.given, fold.keys) else fold

    def numbered(self, keys: tuple[Expr, ...], fold: Fold) -> Fold:
        """A copy of the fold with a table of its keys, which becomes the latest one. O(groups)."""
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


def _equal(left: Sequence[Column], right: Sequence[Column]) -> bool:
    """Whether two lists of columns are equal, bit for bit."""
    return left is right or all(map(_same, left, right))


def _same(column: Column, other: Column) -> bool:
    parts = zip((column.values, column.valid, column.data), (other.values, other.valid, other.data), strict=True)
    return all(_bits(a, b) for a, b in parts)


def _bits(left: Array | None, right: Array | None) -> bool:
    if left is None or right is None:
        return left is right
    return left.shape == right.shape and bool(np.array_equal(left.view(np.uint8), right.view(np.uint8)))
