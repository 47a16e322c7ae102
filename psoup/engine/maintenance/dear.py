"""Clauses that take too much of the writer's time leave the index, when the host has found them and asks for it.

    shares of time ─ too much ─> TooDear ──install, between two runs──> quarantine, until the next start

That is no rule of maintenance: what is too much depends on the time that passes, which the engine does not know.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.engine.stream.state import StreamState
from psoup.expressions.tree import Expr
from psoup.published.records import ClauseRecord


@dataclass(frozen=True, slots=True)
class TooDear:
    """A clause as readers see it, the expressions that take most of its time, and why it is to leave."""

    clause: ClauseRecord
    exprs: frozenset[Expr]
    why: str

    @property
    def stream_id(self) -> int:
        """The ID of its stream."""
        return self.clause.stream_id

    def install(self, state: StreamState) -> bool:
        """Take it out of the index; False if it is gone by now, or out."""
        return state.put_out_dear(self.clause, self.exprs, self.why)
