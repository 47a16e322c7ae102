"""A piece of maintenance: found by a rule, made by the writer, computed by anyone, installed by the writer.

    due(state) ─> Begin ──> Task ──compute──> Installable ──install──> state       False: the state has moved on
    (a look)      (writer)  (immutable parts) (any thread)  (writer)

A task computes from immutable parts. What it was computed from may be gone when it is installed: then it is dropped,
and will be found due again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from psoup.engine.stream.state import StreamState
from psoup.runner import Runner, serial


class Installable(Protocol):
    """The outcome of a task."""

    @property
    def stream_id(self) -> int:
        """Whose state it is for."""
        ...

    def install(self, state: StreamState) -> bool:
        """Put it in place; False if readers see nothing of it, as when the state has moved on."""
        ...


class Task(Protocol):
    """Work that is due."""

    @property
    def name(self) -> str:
        """store, seal, merge, tidy, cover, compact or tally."""
        ...

    def compute(self, run: Runner = serial) -> Installable:
        """Do the work, large pieces of it on `run`. From any thread; changes nothing."""
        ...


Begin = Callable[[], Task]
"""Makes the task that was found due; the writer calls it at once, or never."""

Rule = Callable[[StreamState, bool], Begin | None]
"""Looks whether something is due, also what is not yet worth its cost if the flag is set. A look changes nothing."""
