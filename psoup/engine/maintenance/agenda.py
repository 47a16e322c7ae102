"""The choice of the next task: upkeep of streams in turn, and evaluation for tenants in turn.

    upkeep       seal, store, merge, …  ──> stream after stream                   ┐ in turn: after an evaluation, upkeep
    evaluation   cover, pair            ──> the tenant that had least (`Choose`)  ┘ comes first if some is due

Upkeep keeps the memory and the log small; its cost follows from tuples that were accepted. Evaluation makes answers of
one tenant ready: a task of some tenths of a second, bounded in chunks and clauses. A tenant's new clauses, of any
number, delay another tenant's evaluation by one task. They delay upkeep by one task, too.
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
"""Chooses the tenant to be served, of some (at least one). A host knows the time that each one had."""

Streams = Mapping[int, StreamState]


def longest_ago(tenants: Collection[str]) -> str:
    """The tenant that was served longest ago: the choice of a program that measures no time."""
    return next(iter(tenants))


def tenant_of(task: object) -> str | None:
    """The tenant that a task evaluates for; None for upkeep."""
    return task.tenant if isinstance(task, CoverTask | pair.PairTask) else None


class Agenda:
    """The work of one engine. Owned by its writer."""

    def __init__(self, board: Board, joins: KeptJoins) -> None:
        self._board, self._joins = board, joins
        self._evaluated = True
        """Whether the last task was an evaluation."""

    def next(self, streams: Streams, everything: bool, choose: Choose) -> Task | None:
        """The next task, None if nothing is due. O(streams that call for attention)."""
        task = None if self._evaluated else self._evaluation(streams, everything, choose)
        task = task or self._upkeep(streams, everything) or self._evaluation(streams, everything, choose)
        self._evaluated = tenant_of(task) is not None
        return task

    def _upkeep(self, streams: Streams, everything: bool) -> Task | None:
        """The upkeep of the first stream that needs some. Streams before it that need an evaluation are set aside."""
        while (stream_id := self._board.take_due()) is not None:
            state = streams[stream_id]
            begin, evaluates = look(state, everything)
            if evaluates or (begin is None and self._joins.missing(stream_id) is not None):
                self._board.set_aside(stream_id, state.tenant)
            elif begin is not None:
                return self._begun(stream_id, begin())
        return None

    def _evaluation(self, streams: Streams, everything: bool, choose: Choose) -> Task | None:
        """The task of a stream that was set aside, of the tenant whose turn it is. Another look decides on it."""
        while tenants := self._board.aside:
            stream_id = self._board.take_aside(choose(tenants))
            begin, _ = look(streams[stream_id], everything)
            task = begin() if begin is not None else pair.due(self._joins, stream_id)
            if task is not None:
                return self._begun(stream_id, task)
        return None

    def _begun(self, stream_id: int, task: Task) -> Task:
        self._board.look_after(stream_id)  # after all streams that are due
        return task
