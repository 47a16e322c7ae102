"""A piece of new tuples on its way into the join, and what the join writes to.

    chunk   |...........................................|
    pieces  |---------|-----|--                             start: where in the chunk the piece begins

A piece has up to `EngineConfig.piece_rows` consecutive tuples of one chunk; it never crosses a chunk's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from psoup.columns import Array, Column
from psoup.runs import Run

Task = Callable[[], None]
Runner = Callable[[Sequence[Task]], None]
"""Runs all tasks and returns when all are done, in any order, on any threads; the tasks write disjoint ranges.

A runner may have an attribute `threads`: into how many tasks a probe may be cut (default 1), and another, `handover`:
nanoseconds of work that a task should have at least, so that it is worth another thread (default 150,000)."""

_HANDOVER_NS = 150_000
"""Sharing 0.2 ms of work between two threads was found to save nothing: waking the other one takes half of it."""


def serial(tasks: Sequence[Task]) -> None:
    """The runner that needs no threads: one task after the other."""
    for task in tasks:
        task()


def threads_of(run: Runner) -> int:
    """How many tasks `run` can use at once."""
    return max(1, int(getattr(run, "threads", 1)))


def handover_of(run: Runner) -> int:
    """The least work of a task, in nanoseconds."""
    return int(getattr(run, "handover", _HANDOVER_NS))


@dataclass(frozen=True, slots=True)
class Piece:
    """`n` consecutive tuples of a chunk.

    `columns`: in schema order. `ids`: tuple IDs, int64[n]. `times`: physical IDs, int64[n]. `start`: the offset of
    the first tuple in its chunk.
    """

    columns: tuple[Column, ...]
    ids: Array
    times: Array
    start: int

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, stop: int) -> Piece:
        """Some of the tuples; memory is shared."""
        columns = tuple(column.slice(start, stop) for column in self.columns)
        return Piece(columns, self.ids[start:stop], self.times[start:stop], self.start + start)


class OpenResults(Protocol):
    """Where the matches of the open chunk go: rows of bits for some slots, runs of pairs for the others.

    A slot's matches are the union of its row and its pairs. `row_of_slot`: int32[capacity], -1 = no row, capacity
    above every slot. `rows`: uint64[B, R, W], 64 * W * B = tuples in a chunk; see `psoup.kernels.rows`.
    """

    row_of_slot: Array
    rows: Array

    def ensure_rows(self, slots: Array) -> None:
        """Give each of `slots` (int64[k], distinct) a row of zeros if it has none; `rows` may become another array."""

    def append_run(self, run: Run) -> None:
        """Keep pairs, later than all others of their slots.

        May give a slot a row when its pairs have become many: later matches of it then go to the row.
        """

    def add_errors(self, attribute: int, count: int) -> None:
        """`count` tuples of the piece for which the derived attribute could not be computed."""
