"""The interface of rows. Each node of a plan gives rows, as references until their columns are gathered.

SourceRows     matches of a stream in stream order      references: tuple IDs
LeafRows       rows of joins                            references: positions in leaves
GroupRows      a row for each group                     references: places in a table
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from psoup.execution.rows.source_rows import Reading
from psoup.expressions.tree import Expr
from psoup.values.columns import Array, Column


class PlanRows(Protocol):
    """Rows whose references stay valid until `close`. One of `columns` and `keyed` is called, once."""

    @property
    def reading(self) -> Reading:
        """The matches and limits of the answer."""
        ...

    @property
    def count(self) -> int | None:
        """The number of rows, without regard to `cut`. None if it is not known yet."""
        ...

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        ...

    def columns(self, outputs: list[Expr], at_once: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most `at_once` rows at a time. Then close the rows."""
        ...

    def keyed(self, keys: list[Expr], at_once: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield references to rows, at most `at_once` at once, and the values of `keys` in parts."""
        ...

    def arranged(self, outputs: list[Expr], places: Array, at_once: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows at some references, in that order, at most `at_once` rows at a time."""
        ...

    def close(self) -> None:
        """Return all bytes. After that no row can be shown. Idempotent."""
        ...


class FoldableRows(PlanRows, Protocol):
    """Rows that an Aggregate may fold into groups."""

    def counts(self, at_once: int) -> Iterator[int]:
        """Yield counts that sum to the number of rows. `at_once`: the most rows of a piece."""
        ...
