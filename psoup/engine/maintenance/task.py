"""A task of maintenance: found by a rule, made by the writer, computed on any thread, installed by the writer.

    due(state) ─> Begin ──> Task ──compute──> Installable ──install──> state       False: the state has changed
    (a look)      (writer)  (immutable parts) (any thread)  (writer)

A task computes from immutable parts. If these were replaced before the installation, the result is dropped, and a rule
finds the work due again.
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
        """The ID of the stream that it changes."""
        ...

    def install(self, state: StreamState) -> bool:
        """Apply the result; False if readers see no change, for instance because the state has changed."""
        ...


class Task(Protocol):
    """Due work."""

    @property
    def name(self) -> str:
        """The kind: store, seal, leave, merge, tidy, cover, compact, tally or pair."""
        ...

    def compute(self, run: Runner = serial) -> Installable:
        """Do the work, large parts of it on `run`. From any thread; changes nothing."""
        ...


Begin = Callable[[], Task]
"""Makes the task that was found due; the writer calls it at once, or never."""

Rule = Callable[[StreamState, bool], Begin | None]
"""Finds due work; with the flag also work that is not worth its cost yet. Changes nothing."""
