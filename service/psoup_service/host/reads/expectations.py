"""The cost of the last invocations, which decides where the next runs: on the event loop, as a quick or a long read.

    last answer   40 us, window of 10,000 tuples, 12 rows         ──> on the loop, while window and rows are similar
    on the loop   the window has 3,000,000 tuples by now          ──> Unexpected: it is begun again on a reader thread
    last answer   2 s                                             ──> among the long reads

A hop to a thread costs more than most answers do. The cost grows with the window and its matches. Both counts are known
before the answer is made, so a slow answer is not begun on the loop. Other costs show later (chunks that nothing has
evaluated, a sort). They end an answer on the loop after `_LOOP_S`, and are remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_service.host.reads.readers import LONG_S

T = TypeVar("T")

_QUICK_S = 0.001
"""An answer that is expected to take less than this is made on the loop. On a busy machine hops add milliseconds, and
cold caches double the cost of an answer. With 0.0005, a third of the answers of 0.3 ms hopped while other clients sent
large pushes, and their p99 was 13.9 instead of 10.4 ms (EPYC, two cores).
"""

_LOOP_S = 0.002
"""Seconds of processor time after which an answer leaves the loop."""

_FEW_TUPLES = 1_048_576
"""A window with at most this many tuples is quick, whatever the last answer took."""

_FEW_ROWS = 2_048
"""An answer with at most this many rows is quick, whatever the last answer took."""

_FEW_EXAMINED = 65_536
"""An answer that evaluates more tuples than this leaves the loop."""

_REMEMBERED = 65_536
"""The most queries whose cost is remembered."""


class Unexpected(Exception):
    """An answer on the loop turned out to be long."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """The cost of a query's last answer: processor time in seconds, tuples in its window, rows found."""

    seconds: float
    window: int
    found: int


class Expectations:
    """The costs of the last answers of queries. Reader threads measure them, and one event loop reads them."""

    def __init__(self) -> None:
        self._costs: dict[int, _Cost] = {}

    def is_quick(self, query_id: int) -> bool:
        """Whether the loop may try the next answer over the query's own window."""
        cost = self._costs.get(query_id)
        return cost is not None and cost.seconds < _QUICK_S

    def is_long(self, query_id: int) -> bool:
        """Whether the query's last answer took so long that the next one is a long read."""
        cost = self._costs.get(query_id)
        return cost is not None and cost.seconds >= LONG_S

    def seconds(self, query_id: int) -> float | None:
        """The processor time of the query's last answer, in seconds; None if it is not known."""
        cost = self._costs.get(query_id)
        return None if cost is None else cost.seconds

    def on_loop(self, query_id: int, make: Callable[[ReadBudget], T], few_rows: int = _FEW_ROWS) -> T:
        """The result of `make`, called on this thread. Raises Unexpected if that would take long.

        `few_rows`: an answer with at most so many rows is quick, whatever the last answer cost.
        """
        cost = self._costs[query_id]
        growth = _QUICK_S / max(cost.seconds, 1e-9)
        tuples, rows = max(cost.window * growth, _FEW_TUPLES), max(cost.found * growth, few_rows)
        began, look = time.thread_time(), time.perf_counter() + _LOOP_S

        def ask() -> None:
            if (
                budget.window > tuples
                or budget.found > rows
                or budget.examined > _FEW_EXAMINED
                or (time.perf_counter() > look and time.thread_time() - began > _LOOP_S)
            ):
                raise Unexpected

        budget = ReadBudget(ask)
        return self._measured(query_id, make, budget, began)

    def measured(self, query_id: int, make: Callable[[ReadBudget], T], budget: ReadBudget) -> T:
        """The result of `make`. Remembers its processor time, without waits, because these depend on the load only."""
        return self._measured(query_id, make, budget, time.thread_time())

    def _measured(self, query_id: int, make: Callable[[ReadBudget], T], budget: ReadBudget, began: float) -> T:
        seconds = 0.0
        try:
            return make(budget)
        except Unexpected:
            seconds = _QUICK_S
            raise
        except ReadEnded:  # it would have taken longer, and will if an impatient caller asks again
            seconds = self._costs[query_id].seconds if query_id in self._costs else LONG_S
            raise
        finally:
            if len(self._costs) >= _REMEMBERED:
                self._costs.clear()
            seconds = max(seconds, time.thread_time() - began)
            self._costs[query_id] = _Cost(seconds, budget.window, budget.found)
