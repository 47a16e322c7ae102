"""The maintenance thread. It computes one task at a time from immutable inputs, while the writer applies events.

    writer ──task──> compute ──result──> writer installs it between two runs, if it still fits

The thread never touches the engine. It has a low priority. Evaluations are charged to their tenants.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from psoup.engine.maintenance.agenda import tenant_of
from psoup.engine.maintenance.cover import CoverTask, evaluating
from psoup.engine.maintenance.pair import PairTask, RefusedPairs
from psoup.work.runner import Runner, serial
from psoup_service.host.background import BackgroundBudgets
from psoup_service.host.ports import TaskPort
from psoup_service.host.precautions import Guard
from psoup_service.host.turns.evaluation_turns import EvaluationTurns
from psoup_service.host.turns.interpreter import ShortTurns, go_behind
from psoup_service.host.worker import Failure, StageThread

_log = logging.getLogger(__name__)


class Maintainer(StageThread):
    """Computes tasks in the order given, with the threads of `run`, and calls `post` with each result.

    `guard`: knows the evaluations to avoid. `turns`: charge each tenant for the processor time of its tasks.
    """

    def __init__(
        self, post: Callable[[Any], None], failed: Failure, guard: Guard, turns: EvaluationTurns, run: Runner = serial
    ) -> None:
        super().__init__("psoup-maintainer", failed)
        self._guard = guard
        self._turns = turns
        self.budgets: BackgroundBudgets | None = None
        """The budgets of evaluations. If None, evaluations have no limits and never rest."""
        self._post = post
        self._run = run
        self._tasks: list[TaskPort] = []

    def put(self, task: TaskPort) -> None:
        """Queue a task. From any thread."""
        with self.condition:
            self._tasks.append(task)
            self.condition.notify()

    def has_work(self) -> bool:
        """Whether tasks wait."""
        return bool(self._tasks)

    def run(self) -> None:
        """Compute tasks until stopped. This thread has a low priority, so that threads that serve calls go first."""
        go_behind()
        while self.wait_for_work():
            task = self._tasks.pop(0)
            self._post(self._outcome(task))

    def _outcome(self, task: TaskPort) -> Any:
        tenant = tenant_of(task)
        if tenant is None:
            return task.compute(self._run)
        with self._turns.measured(tenant, self._run) as run:
            return self._evaluated(task, run)

    def _evaluated(self, task: TaskPort, run: Runner) -> Any:
        evaluated = evaluating(task)
        if isinstance(task, PairTask):
            return self._paired(task)
        if evaluated is None:
            return self._covered(task, run)
        cover, place = evaluated
        if not self._guard.watch(place):
            return cover.refused()
        result = self._covered(cover, run)
        self._guard.over()
        return result

    def _covered(self, task: TaskPort, run: Runner) -> Any:
        """The result of a task. A task that covers old tuples rests between two chunks while a call is young."""
        if self.budgets is None or not isinstance(task, CoverTask):
            return task.compute(run)
        with ShortTurns():
            return task.compute(run, self.budgets.resting)

    def _paired(self, task: PairTask) -> Any:
        """The pairs of a join, computed within half of the bytes that the tenant's reads could take now."""
        if self.budgets is None:
            return task.compute()
        with self.budgets.budget(task.tenant, self.budgets.free(task.tenant)) as budget:
            paired = task.compute(budget=budget)
        if isinstance(paired, RefusedPairs):
            _log.warning("the pairs of a join are not kept", extra={"tenant": task.tenant, "why": paired.why})
        return paired
