"""A run of the benchmarks: the rows it measures, their size, and the treatment of a row that fails.

    run = Run(Size.QUICK, only=("arrival.q1m.eq",))
    run.of(1_000_000, 1_000_000, 200)            the number for this size
    yield from run.part(rows, "invoke.grpc", "invoke.grpc.many")     what is measured together, if one was asked for

When a part fails, each of its missing rows becomes a row with the reason, and the next part goes on. A wrong answer is
a failure like any other.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from benchmarks.tool.measure import Row

T = TypeVar("T")


class Size(Enum):
    """The size of a run: all of it, the headline rows, or every row so small that its figure means nothing."""

    WHOLE = "whole"
    QUICK = "quick"
    TINY = "tiny"


@dataclass(frozen=True, slots=True)
class Run:
    """A run. `only`: how the names of the rows begin that are wanted; empty: all."""

    size: Size = Size.WHOLE
    only: tuple[str, ...] = ()

    @property
    def quick(self) -> bool:
        """Whether rows that take long are left out."""
        return self.size is Size.QUICK

    @property
    def tiny(self) -> bool:
        """Whether figures mean nothing, and peers that take seconds to start are left out."""
        return self.size is Size.TINY

    def of(self, whole: T, quick: T, tiny: T) -> T:
        """The value of three that belongs to this size."""
        return {Size.WHOLE: whole, Size.QUICK: quick, Size.TINY: tiny}[self.size]

    def wants(self, name: str) -> bool:
        """Whether a row of this name was asked for."""
        return not self.only or name.startswith(self.only)

    def part(self, rows: Callable[[], Iterable[Row]], *names: str) -> Iterator[Row]:
        """Rows that are measured together, and what their names are, or begin with.

        Nothing if none of them was asked for. If measuring them fails, a row that says why for each name that has none.
        """
        wanted = [
            name for name in names if self.wants(name) or any(beginning.startswith(name) for beginning in self.only)
        ]
        if not wanted:
            return
        given: set[str] = set()
        try:
            for row in rows():
                given.add(row.name)
                yield row
        except Exception as error:
            trace = traceback.format_exc()
            yield from (Row.failed(name, error, trace) for name in wanted if name not in given)
