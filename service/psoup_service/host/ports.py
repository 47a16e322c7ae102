"""The methods that the host needs of an engine, so that a test can put a recorder in its place.

    apply, maintenance, install, expire, news, kept_out   the writer thread, one at a time
    snapshot                              any thread, at any time, also while the writer is inside apply
    task.compute                          the maintenance thread

The methods have no bodies here. `psoup.engine.Engine` implements them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from psoup.clauses.quarantine import LeftIndex, Precautions
from psoup.engine.maintenance.agenda import Choose
from psoup.events.acknowledgements import Effects
from psoup.events.events import Event
from psoup.work.runner import Runner, serial

SnapshotT_co = TypeVar("SnapshotT_co", covariant=True)


class TaskPort(Protocol):
    """A piece of maintenance: it has immutable inputs, and the maintenance thread computes it."""

    @property
    def name(self) -> str:
        """The kind of the task. Tasks of the kinds "seal" and "store" give memory back."""
        ...

    def compute(self, run: Runner = serial) -> Any:
        """The result for `install`. The threads of `run` help with large pieces of the work."""
        ...


class EnginePort(Protocol[SnapshotT_co]):
    """The engine as the host sees it: it applies events and returns their effects."""

    def apply(self, events: Sequence[Event]) -> Effects:
        """Apply a run of consecutive events; an exception is a defect and stops the service."""
        ...

    def take_precautions(self, precautions: Precautions) -> None:
        """Set the expressions that must not be evaluated. Called before the first event, and after the replay."""
        ...

    def news(self) -> list[LeftIndex]:
        """The clauses that have left the index since the last call. O(1) if none has."""
        ...

    def kept_out(self) -> dict[int, list[str]]:
        """For each stream the digests of expressions that must stay out of the index at the next start."""
        ...

    def snapshot(self) -> SnapshotT_co:
        """The state as last published. O(1)."""
        ...

    def maintenance(self, choose: Choose, /) -> TaskPort | None:
        """The next piece of maintenance that is due, or None. Cheap: called after every run and every install.

        `choose`: returns the tenant whose turn it is, among the tenants whose clauses wait for evaluation.
        """
        ...

    def behind(self) -> float:
        """The backlog of chunks to seal or store, as a fraction of its limit. Above 1, the writer should wait."""
        ...

    def install(self, result: Any) -> int:
        """Take the result of a task if it still fits, else drop it; returns the bytes of tuples that leave."""
        ...

    def expire(self, clock: int) -> int:
        """Drop tuples past their retention at `clock` (microseconds) to make room; returns the bytes given back."""
        ...
