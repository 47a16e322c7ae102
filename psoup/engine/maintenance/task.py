"""A task of maintenance: found by a rule, made by the writer, computed on any thread, installed by the writer.

    due(state) ─> Begin ──> Task ──compute──> Installable ──install──> state       False: the state has changed
    (a look)      (writer)  (immutable parts) (any thread)  (writer)

A task computes from immutable parts. If the writer has replaced these parts before the installation, it drops the
result. Then a rule finds the same work again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from psoup.engine.stream.state import StreamState
from psoup.work.runner import Runner, serial


class Installable(Protocol):
    """The result of a task."""

    @property
    def stream_id(self) -> int:
        """The ID of the stream that the result changes."""
        ...

    def install(self, state: StreamState) -> bool:
        """Apply the result. Returns False if readers see no change, for instance because the result is outdated."""
        ...


class Task(Protocol):
    """Work that a rule has found due."""

    @property
    def name(self) -> str:
        """The kind: store, seal, leave, thin, merge, tidy, cover, compact, tally or pair."""
        ...

    def compute(self, run: Runner = serial) -> Installable:
        """Compute the result; `run` lends threads for large parts. Any thread may call this. Changes no state."""
        ...


Begin = Callable[[], Task]
"""Makes the task that a rule has found due. The writer calls it at once, or never."""

Rule = Callable[[StreamState, bool], Begin | None]
"""Finds due work of a stream. The flag asks for work that is not worth its cost yet, too. Changes no state."""
