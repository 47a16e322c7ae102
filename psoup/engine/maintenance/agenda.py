"""The choice of the next task: upkeep of streams in turn, and evaluation for tenants in turn.

    upkeep       seal, store, merge, …  ──> one stream after the other                 ┐ after an evaluation, upkeep
    evaluation   cover, pair            ──> the tenant with the least time (`Choose`)  ┘ goes first if it is due

Upkeep keeps memory and log small; its cost grows with the accepted tuples. An evaluation task prepares answers of one
tenant. It takes some tenths of a second, as its chunks and clauses are limited. So a tenant with any number of new
clauses delays another tenant's evaluation, and upkeep, by at most one task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from psoup.engine.kept_pairs import KeptJoins
from psoup.engine.maintenance import pair
from psoup.engine.maintenance.cover import CoverTask
from psoup.engine.maintenance.rules import look
from psoup.engine.maintenance.task import Task
from psoup.engine.stream.attention import Board
from psoup.engine.stream.state import StreamState

Choose = Callable[[Collection[str]], str]
"""Picks the next of some tenants (at least one). A host picks the tenant that has used the least time."""

Streams = Mapping[int, StreamState]


def longest_ago(tenants: Collection[str]) -> str:
    """The tenant that was served longest ago, for programs that measure no time."""
    return next(iter(tenants))


def tenant_of(task: object) -> str | None:
    """The tenant for which a task evaluates. None for a task of upkeep."""
    return task.tenant if isinstance(task, CoverTask | pair.PairTask) else None


class Agenda:
    """Chooses the next task of one engine. Only the writer calls it."""

    def __init__(self, board: Board, joins: KeptJoins) -> None:
        self._board = board
        self._joins = joins
        self._evaluated = True
        """Whether the last task was an evaluation."""

    def next(self, streams: Streams, everything: bool, choose: Choose) -> Task | None:
        """The next task, or None if nothing is due. O(streams that need attention)."""
        task = None if self._evaluated else self._evaluation(streams, everything, choose)
        task = task or self._upkeep(streams, everything) or self._evaluation(streams, everything, choose)
        self._evaluated = tenant_of(task) is not None
        return task

    def _upkeep(self, streams: Streams, everything: bool) -> Task | None:
        """The upkeep task of the first stream that needs one. Streams that need an evaluation are set aside."""
        while (stream_id := self._board.take_due()) is not None:
            state = streams[stream_id]
            begin, evaluates = look(state, everything)
            if evaluates or (begin is None and self._joins.missing(stream_id) is not None):
                self._board.set_aside(stream_id, state.tenant)
            elif begin is not None:
                return self._begun(stream_id, begin())
        return None

    def _evaluation(self, streams: Streams, everything: bool, choose: Choose) -> Task | None:
        """The next task of a stream that was set aside, of the tenant that `choose` picks. Asks the rules again."""
        while tenants := self._board.aside:
            stream_id = self._board.take_aside(choose(tenants))
            begin, _ = look(streams[stream_id], everything)
            task = begin() if begin is not None else pair.due(self._joins, stream_id)
            if task is not None:
                return self._begun(stream_id, task)
        return None

    def _begun(self, stream_id: int, task: Task) -> Task:
        self._board.look_after(stream_id)  # the stream becomes the last in the line of streams to check
        return task
