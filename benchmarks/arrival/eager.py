"""Row `amount.arrival.eager`: arrival beside 100 eager queries, whose answers a thread updates as in the service.

    without    1,024 queries
    with       the same, and 100 COMPLETE queries that are eager; the thread of the service updates them meanwhile

A sample is 32 chunks, pushed in batches of 4,096 tuples, with all maintenance. The engines take turns; a turn begins
once all answers are up to date.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from benchmarks.arrival.arrival import BATCH, CHUNK, Loaded
from benchmarks.tool.measure import Row, Target, in_turns
from benchmarks.tool.run import Run
from benchmarks.tool.workload import STREAM, batches, make_columns, make_queries
from psoup.plan.amounts import Amount, Keeping
from psoup_service.chores.eager_answers import EagerAnswers
from psoup_service.host.background import BackgroundBudgets
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.turns.giving_way import GivingWay

EAGER = 100
WINDOW = 16 * BATCH
"""The number of tuples in the windows of eager queries."""


def rows(run: Run) -> Iterator[Row]:
    """The row of the table."""
    sizes = run.of((1_024, EAGER, 32, 7), (1_024, EAGER, 32, 3), (16, 4, 1, 1))
    yield from run.part(lambda: _arrival(*sizes), "amount.arrival.eager")


class Eager(Loaded):
    """An engine with eager queries, and the thread of the service that updates their answers."""

    def __init__(self, queries: int, eager: int, chunks: int) -> None:
        super().__init__(make_queries(queries, 4), batches(make_columns(CHUNK), BATCH))
        self.chunks = chunks
        self._published: Callable[[], None] = lambda: None
        if eager:
            statements = [query.statement(WINDOW) for query in make_queries(eager, 4)]
            self.local.register_many(statements, keeping=Keeping(Amount.COMPLETE, eager=True))
        budgets = BackgroundBudgets(ReadLimits(), GivingWay(), lambda *_: None)
        self._answers = EagerAnswers(self.local.engine.snapshot, self._listen, self.local.clock.now, budgets)
        self._answers.start()

    def _listen(self, published: Callable[[], None]) -> Callable[[], None]:
        self._published = published
        return lambda: None

    def push(self) -> None:
        """Push the chunks, and call the thread's listener after each batch, as the writer does."""
        for _ in range(self.chunks):
            for table in self._chunk:
                self.local.push(STREAM, table)
                self._published()
            self.local.maintain()

    @property
    def updates(self) -> int:
        """The number of updates so far."""
        return self.local.engine.snapshot().eager.updates

    def settle(self) -> None:
        """Wait until the thread has nothing left to do: no update in a fifth of a second."""
        before, quiet = self.updates, 0
        while quiet < 2:
            time.sleep(0.1)
            quiet, before = (quiet + 1 if self.updates == before else 0), self.updates

    def close(self) -> None:
        """End the thread."""
        self._answers.stop()
        self._answers.join()


def _arrival(queries: int, eager: int, chunks: int, samples: int) -> Iterator[Row]:
    with closing(Eager(queries, eager, chunks)) as beside, closing(Eager(queries, 0, chunks)) as alone:
        rates = in_turns([beside.push, alone.push], [chunks * CHUNK] * 2, samples, beside.settle)
        pushed = (samples + 1) * chunks * CHUNK // BATCH
        note = (
            f"amount.arrival.eager: {rates[0].cpu / rates[1].cpu:.3f} times the rate by the processor time of the"
            f" pushing thread; {beside.updates:,} updates of {eager} answers during {pushed:,} batches"
        )
    target = Target(at_least=0.9) if chunks > 1 else None
    yield Row("amount.arrival.eager", rates[0].wall, "tuples/s", "without eager queries", rates[1].wall, target, note)
