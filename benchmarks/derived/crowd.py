"""Rows `derived.q1m.*`: a million queries over a derived stream, beside a million over a plain stream of the same rows.

    derived.q1m.arrival    the writer's work for the rows of a pump's step, about 4,096; peer: for a push of these rows
    derived.q1m.invoke     answers of single queries, as Arrow tables; peer: of the same queries over the plain stream

Both streams are in one embedded engine, with the queries of `arrival.q1m.eq`, and get each batch in turn. In a service
the pump works on a thread of its own. So its reads of the source, and the SELECT, are not in the time of arrival. The
answers over both streams are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.arrival.scale import BATCH, BLOCK, CHUNK, COLUMNS, Workload, by_symbol
from benchmarks.tool.measure import Row, Sample, Target, in_turns, seconds
from benchmarks.tool.run import Run
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command, Push, PushDerived
from psoup.local import LocalPSoup
from psoup.pumps import Pumps
from psoup.work.read_budget import ReadBudget

NAMES = "derived.q1m.arrival", "derived.q1m.invoke"
SOURCE, PLAIN, DERIVED = "s", "p", "x"
TYPES = ", ".join(f"{name} BIGINT NOT NULL" for name in COLUMNS)
RETENTION = f"RETENTION {2 * CHUNK} ROWS"
ASKED = 256
"""The number of queries that are invoked in a sample."""


def rows(run: Run) -> Iterator[Row]:
    """The rows. A million queries take minutes to load, so a quick run has the rows only if --only names them."""
    if run.quick and not run.only:
        return
    queries, tuples = run.of(1_000_000, 1_000_000, 300), run.of(CHUNK, CHUNK, 2 * BATCH)
    yield from run.part(partial(_measured, by_symbol(queries, False), tuples, run.of(5, 3, 1)), *NAMES)


class Crowd:
    """An engine with a plain and a derived stream, and the same queries over both."""

    def __init__(self, work: Workload) -> None:
        self.local = LocalPSoup()
        self.local.execute(f"CREATE STREAM {SOURCE} ({TYPES}) {RETENTION}")
        self.local.execute(f"CREATE STREAM {PLAIN} ({TYPES}) {RETENTION}")
        self.local.execute(f"CREATE STREAM {DERIVED} AS (SELECT {', '.join(COLUMNS)} FROM {SOURCE}) {RETENTION}")
        self._pumps = Pumps()
        self._taken = 0.0
        self.queries = {name: self._registered(work, name) for name in (PLAIN, DERIVED)}
        self.local.maintain()

    def _registered(self, work: Workload, name: str) -> list[int]:
        statement, values = work.statement.replace("FROM s ", f"FROM {name} "), work.bounds.tolist()
        ids = list[int]()
        for start in range(0, len(values), BLOCK):
            ids += self.local.register_many(statement, values[start : start + BLOCK])
        return ids

    def arrive(self, table: pa.Table) -> tuple[float, float]:
        """The seconds that the writer works for a batch: for the derived rows, and for a push to the plain stream."""
        self._taken = 0.0
        self._done(Push(SOURCE, table))
        self._pumps.run(self.local.engine.snapshot, self._timed, self.local.clock.now, ReadBudget)
        return self._taken, seconds(lambda: self._done(Push(PLAIN, table)))

    def _timed(self, command: Command) -> Acknowledgement:
        """Do a command of the pump, and note the seconds if it has rows."""
        done = list[Acknowledgement]()
        taken = seconds(lambda: done.append(self._done(command)))
        self._taken += taken if isinstance(command, PushDerived) else 0.0
        return done[0]

    def _done(self, command: Command) -> Acknowledgement:
        """Do the writer's work for a command. The pumps of the embedded engine do not follow it."""
        prepared = self.local.admission.prepare(command, self.local.clock.now())
        if prepared.events:
            self.local.admission.give_back(self.local.engine.apply(prepared.events).freed_bytes)
        return prepared.acknowledgement

    def invoke(self, name: str, places: list[int]) -> list[pa.Table]:
        """The answers of some queries over a stream."""
        queries = self.queries[name]
        return [self.local.invoke(queries[place]).to_table() for place in places]


def _measured(work: Workload, tuples: int, samples: int) -> Iterator[Row]:
    crowd, batches = Crowd(work), work.batches(BATCH, tuples)
    derived, plain = list[float](), list[float]()
    for _ in range(samples + 1):
        taken = np.array([crowd.arrive(table) for table in batches]).sum(axis=0)
        for rates, total in zip((derived, plain), taken.tolist(), strict=True):
            rates.append(tuples / total)
        crowd.local.maintain()
    ours, theirs = Sample.of(derived[1:]), Sample.of(plain[1:])
    yield Row(NAMES[0], ours, "tuples/s", "a plain stream", theirs, Target(at_least=0.95))
    count = len(work.bounds)
    places = np.random.default_rng(48).integers(0, count, min(count, ASKED)).tolist()
    for ours_of, theirs_of in zip(*[crowd.invoke(name, places) for name in (DERIVED, PLAIN)], strict=True):
        if not ours_of.equals(theirs_of.cast(ours_of.schema)):
            raise AssertionError(f"{NAMES[1]}: {len(ours_of)} rows, and {len(theirs_of)} of the plain stream")
    turns = [partial(crowd.invoke, name, places) for name in (DERIVED, PLAIN)]
    mine, other = in_turns(turns, [len(places)] * 2, 4 * samples + 1)
    yield Row(NAMES[1], mine.wall, "answers/s", "a plain stream", other.wall, Target(at_least=0.95))
