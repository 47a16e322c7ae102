"""The state of an evaluation of a tree of joins and filters: its open leaves, its bytes, and its errors.

leaf       opened once for each use, closed at the end: columns of rows are gathered from it
part       pairs, conditions: closed as soon as their rows have been read; their errors are counted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from psoup.execution.join.join_case import JoinCase, Pieces
from psoup.execution.partners.join_inputs import InputSide
from psoup.execution.rows.leaf_rows import LeafSide
from psoup.execution.rows.source_rows import Reading
from psoup.joins.budget import JoinBudget
from psoup.plan.nodes import Leaf
from psoup.plan.way import Ways


class Part(Protocol):
    """A part of an evaluation that counts errors and may hold bytes."""

    @property
    def errors(self) -> int:
        """The number of values so far that could not be computed."""
        ...

    def close(self) -> None:
        """Return the bytes that the part holds. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Openers:
    """The ways of joining two sides, and the function that opens a leaf."""

    ways: Ways[JoinCase, Pieces]
    leaf: Callable[[Leaf, Reading], InputSide]


class Evaluation:
    """The state of an evaluation. `room`: the account of bytes that all its joins hold beside their pairs."""

    def __init__(self, reading: Reading, openers: Openers) -> None:
        self.reading = reading
        self.openers = openers
        self.room = JoinBudget(reading.joins, reading.budget)
        self.opened = list[LeafSide]()
        """The leaves that `close` closes."""
        self._parts = list[Part]()

    @property
    def errors(self) -> int:
        """The number of values so far that could not be computed."""
        return sum([part.errors for part in self._parts])

    def add(self, part: Part) -> None:
        """Count the errors of a part, and close it with the rows."""
        self._parts.append(part)

    def leaf(self, node: Leaf) -> InputSide:
        """Open a leaf."""
        side = self.openers.leaf(node, self.reading)
        self.opened.append(side)
        return side

    @contextmanager
    def closing_parts(self) -> Iterator[None]:
        """Close the parts that are added inside the context at its end, as their rows have been read."""
        first = len(self._parts)
        yield
        for part in self._parts[first:]:
            part.close()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Drop the parts that are added inside the context, and their bytes, if it raises."""
        first, before = len(self._parts), self.room.held
        try:
            yield
        except BaseException:
            for part in self._parts[first:]:
                part.close()
            del self._parts[first:]
            self.room.give_back(self.room.held - before)
            raise

    def close_rows(self) -> None:
        """Return the bytes of pairs and of held rows. The leaves stay open. Idempotent."""
        for part in self._parts:
            part.close()
        self.room.close()

    def close(self) -> None:
        """Close the rows and all leaves. Idempotent."""
        self.close_rows()
        for side in self.opened:
            side.close()
