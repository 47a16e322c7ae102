"""A side of a join: the rows of a selection, in the form that joins need.

rows 5     columns([a + 1])  all five values        take([a], [3, 3, 0])  the values of these rows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from psoup.expressions.tree import Expr
from psoup.values.columns import Array, Column


class JoinSide(Protocol):
    """The rows of one source, numbered from 0 in the order of their tuple IDs. Expressions name it as source 0."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    def columns(self, exprs: Sequence[Expr]) -> list[Column]:
        """The values of expressions in all rows."""
        ...

    def take(self, exprs: Sequence[Expr], positions: Array) -> list[Column]:
        """The values of expressions in the rows `positions`: int64[n], in any order, with repetitions."""
        ...
