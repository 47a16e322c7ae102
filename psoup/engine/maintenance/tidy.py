"""Tidying as maintenance: the open results lose removed clauses, and their slots become free.

The writer changes the open results all the time, so the work is done at installation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class Tidy:
    """The open results of a stream, to be tidied."""

    stream_id: int
    name: str = "tidy"

    def compute(self, run: Runner = serial) -> Tidy:
        """Return this object, as the writer does the work."""
        return self

    def install(self, state: StreamState) -> bool:
        """Rebuild the open results without dead slots. O(open results)."""
        state.tidy()
        return True


def due(state: StreamState, everything: bool) -> Begin | None:
    """Decide whether the stream has more slots of removed clauses than of live ones, and more than a few. O(1)."""
    dead = state.clauses.table.dead_count
    if dead > max(state.config.shape.tidy_from, len(state.clauses.table)) or (everything and dead):
        return partial(Tidy, state.stream_id)
    return None
