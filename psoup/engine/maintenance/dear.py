"""Expensive clauses: the host takes a clause out of the index if it uses too much of the writer's time.

    shares of time ─ too much ─> TooDear ──install, between two runs──> quarantine, until the next start

This is not a rule of maintenance: the limit depends on elapsed time, which the engine does not know.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.engine.stream.state import StreamState
from psoup.expressions.tree import Expr
from psoup.published.records import ClauseRecord


@dataclass(frozen=True, slots=True)
class TooDear:
    """An expensive clause, the expressions that take most of its time, and the reason for its removal as a text."""

    clause: ClauseRecord
    exprs: frozenset[Expr]
    why: str

    @property
    def stream_id(self) -> int:
        """The ID of the clause's stream."""
        return self.clause.stream_id

    def install(self, state: StreamState) -> bool:
        """Take the clause out of the index. Returns False if it was removed, or is in quarantine already."""
        return state.put_out_dear(self.clause, self.exprs, self.why)
