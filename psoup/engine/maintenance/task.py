"""A piece of maintenance: found by a rule, made by the writer, computed on any thread, installed by the writer.

    due(state) ─> Begin ──> Task ──compute──> Installable ──install──> state       False: the state has moved on
    (a look)      (writer)  (immutable parts) (any thread)  (writer)

A task computes from immutable parts. If these are gone by the time it is installed, the outcome is dropped, and a rule
finds the work due again.
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
        """The ID of the stream whose state it is for."""
        ...

    def install(self, state: StreamState) -> bool:
        """Put it in place; False if readers see nothing of it, as when the state has moved on."""
        ...


class Task(Protocol):
    """Work that is due."""

    @property
    def name(self) -> str:
        """The kind: store, seal, leave, merge, tidy, cover, compact, tally or pair."""
        ...

    def compute(self, run: Runner = serial) -> Installable:
        """Do the work, large pieces of it on `run`. From any thread; changes nothing."""
        ...


Begin = Callable[[], Task]
"""Makes the task that was found due; the writer calls it at once, or never."""

Rule = Callable[[StreamState, bool], Begin | None]
"""Looks whether work is due (with the flag: also work not yet worth its cost). Changes nothing."""
