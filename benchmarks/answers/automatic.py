"""Rows `auto.*`: the processor time of AUTO queries beside the same queries with each fixed amount, in one process.

    auto.arrivals       much comes, and each query is asked once in two minutes
    auto.invocations    little comes, and each query is asked three times a second
    auto.shift          the first work, and then the second one, from a minute after the shift on

A step is ten seconds of a virtual clock: pushes, invocations, and maintenance with a round of AUTO. The first minute
of each work is not measured. Time is processor time of the only thread, also of rounds and of their changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.tool.measure import Row, Sample, Target, beside
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns, make_queries
from psoup.local import LocalPSoup
from psoup.plan.amounts import AUTOMATIC, Amount, Keeping
from psoup.work.clock import VirtualClock

STEP_S, MINUTE = 10, 6
"""Seconds of a step, and the steps of a minute."""
BATCH = 4_096
MOST = Target(at_most=1.3)


class Work(NamedTuple):
    """The work of a step: `pushes` of `rows` rows, and `invocations` of the queries in turn."""

    pushes: int
    rows: int
    invocations: int


class Engine:
    """An engine with the queries of one keeping."""

    def __init__(self, keeping: Keeping, statements: Sequence[str], window: int) -> None:
        self.clock = VirtualClock(10**15)
        self.soup = LocalPSoup(clock=self.clock, timer=time.thread_time)
        self.soup.execute(CREATE)
        self._columns = make_columns(max(window, BATCH))
        self._next = 0
        for table in batches(self._columns, BATCH):
            self.soup.push(STREAM, table)
        self.queries = [self.soup.register(sql, keeping=keeping) for sql in statements]
        self.soup.maintain()

    def step(self, work: Work) -> float:
        """Ten seconds of some work. Returns the seconds of processor time."""
        tables = list(batches(self._columns[:, : work.rows], work.rows))
        began = time.thread_time()
        for _ in range(work.pushes):
            self.soup.push(STREAM, tables[0])
        for _ in range(work.invocations):
            self.soup.invoke(self.queries[self._next % len(self.queries)]).to_table()
            self._next += 1
        self.clock.advance(seconds=STEP_S)
        self.soup.maintain()
        return time.thread_time() - began

    def amounts(self) -> str:
        """The amounts in force, each with its number of queries."""
        snapshot = self.soup.engine.snapshot()
        amounts = [snapshot.query(query, self.soup.tenant).keeping.amount for query in self.queries]
        return ", ".join(f"{amounts.count(amount)} {amount.name}" for amount in Amount if amount in amounts)


def rows(run: Run) -> Iterator[Row]:
    """All rows."""
    window, count = run.of(1 << 17, 1 << 17, 1 << 13), run.of(16, 16, 2)
    arrivals = Work(run.of(48, 48, 3), BATCH, run.of(count // 12 + 1, count // 12 + 1, 1))
    invocations = Work(1, 64, 30 * count)
    steps = run.of(18, 9, 2)
    for name, phases in (
        ("auto.arrivals", [arrivals]),
        ("auto.invocations", [invocations]),
        ("auto.shift", [arrivals, invocations]),
    ):
        make: Callable[[], Iterator[Row]] = partial(_row, name, phases, window, count, steps)
        yield from run.part(make, name)


def _row(name: str, phases: Sequence[Work], window: int, count: int, steps: int) -> Iterator[Row]:
    """The row of some phases. The last phase is measured."""
    statements = [query.statement(window) for query in make_queries(count, 4)]
    keepings = {"AUTO": AUTOMATIC, **{amount.name: Keeping(amount) for amount in Amount}}
    engines = {amount: Engine(keeping, statements, window) for amount, keeping in keepings.items()}
    for work in phases:
        for _ in range(MINUTE):
            for engine in engines.values():
                engine.step(work)
    spent = {amount: list[float]() for amount in engines}
    for _ in range(steps):  # in turns, so that a busy moment hits all
        for amount, engine in engines.items():
            spent[amount].append(1e3 * engine.step(phases[-1]))
    answers = [[e.soup.invoke(query).to_table() for query in e.queries] for e in engines.values()]
    if any(not table.equals(answers[0][at]) for tables in answers for at, table in enumerate(tables)):
        raise AssertionError(f"{name}: answers differ between amounts")
    peers = [(f"PSoup, {amount.name}", Sample.of(spent[amount.name])) for amount in Amount]
    details = {"amounts": engines["AUTO"].amounts(), "mean_ms": {a: float(np.mean(s)) for a, s in spent.items()}}
    yield from beside(name, Sample.of(spent["AUTO"]), "ms", peers, (), MOST, details=details)
