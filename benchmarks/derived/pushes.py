"""Rows `derived.durable`, `derived.arrival` and `derived.many`: pushes to a service that derives streams from them.

    derived.durable    tuples on disk, and all of them derived and on disk; peer: a plain push of the same rows
    derived.arrival    pushes to a source; 1 % are looked up in a table AS OF, and derived; peer: without it
    derived.many       the same beside a thousand derived streams, each with one tuple in 22,000; peer: without these

The services run side by side in processes of their own, and take turns with a producer of the SDK. A turn of
`derived.durable` ends when a read of the derived stream has all rows. A turn of the two other rows ends when the source
has its tuples. The next turn begins when they are derived, too; the note says how long that takes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, in_turns, seconds
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, DOMAIN, STREAM, Columns, batches, make_columns
from psoup_client import Client

BATCH = 4_096
RETENTION = "RETENTION 2 SECONDS"
"""The source keeps so much, and what is not derived yet."""
TABLE = "CREATE TABLE names (key BIGINT PRIMARY KEY, name BIGINT)"
WIDE = [f"CREATE STREAM x AS (SELECT * FROM {STREAM}) RETENTION 524288 ROWS"]
LOOKUP = [
    f"CREATE STREAM x AS (SELECT s.a1, n.name FROM {STREAM} s JOIN names n AS OF s ON n.key = s.a0"
    " WHERE s.a2 < 26 AND s.a3 < 26)"
]
"""26 of 256 values, twice: 1 % of the tuples."""
PATIENCE_S = 120


class Sizes(NamedTuple):
    """Batches of a turn, measured turns, and the number of derived streams of `derived.many`."""

    batches: int
    samples: int
    many: int


def rows(run: Run) -> Iterator[Row]:
    """The rows."""
    sizes = run.of(Sizes(64, 9, 1_000), Sizes(64, 3, 1_000), Sizes(2, 1, 20))
    yield from run.part(partial(_durable, sizes), "derived.durable")
    yield from run.part(partial(_arrival, "derived.arrival", LOOKUP, sizes), "derived.arrival")
    yield from run.part(partial(_arrival, "derived.many", narrow(sizes.many), sizes), "derived.many")


def narrow(count: int) -> list[str]:
    """Statements of derived streams. Each takes the tuples with a value of `a0` and three values of `a1`."""
    pairs = [(number % DOMAIN, number // DOMAIN) for number in range(count)]
    conditions = [f"a0 = {first} AND a1 BETWEEN {10 * second} AND {10 * second + 2}" for first, second in pairs]
    return [
        f"CREATE STREAM x{number or ''} AS (SELECT a2 FROM {STREAM} WHERE {condition})"
        for number, condition in enumerate(conditions)
    ]


class Soup:
    """A service with the stream, and the streams that are derived from it."""

    def __init__(self, stack: ExitStack, statements: Sequence[str], *, durable: bool) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
        service = stack.enter_context(processes.served(folder, durable=durable))
        self.client = stack.enter_context(Client(service.address, timeout=PATIENCE_S))
        self.client.create_stream(f"{CREATE} {RETENTION}")
        self.client.execute(TABLE)
        self.client.push("names", pa.table({"key": np.arange(DOMAIN), "name": np.arange(DOMAIN)}))
        for statement in statements:
            self.client.execute(statement)
        self._pid, self._began = service.pid, 0.0
        self._derived = [statement.split()[2] for statement in statements]

    def push(self, tables: list[pa.Table]) -> None:
        """Push tables by a producer, and wait until all are applied."""
        with self.client.producer(STREAM, batch_rows=BATCH) as producer:
            for table in tables:
                producer.push(table)
            last = producer.flush(PATIENCE_S).sequence
        self.client.wait_for(last, timeout=PATIENCE_S)

    def begin(self) -> None:
        """Begin to count the processor time of the service."""
        self._began = processes.processor_seconds(self._pid)

    @property
    def worked(self) -> float:
        """The seconds of processor time of the service since `begin`."""
        return processes.processor_seconds(self._pid) - self._began

    def settle(self) -> None:
        """Wait until all pushes are derived: a read of a derived stream has this client's own."""
        for name in self._derived:
            self.client.ask(f"SELECT * FROM {name} BEGIN (NOW - 1 ROWS)", timeout=PATIENCE_S)

    def count(self) -> int:
        """The number of derived rows so far."""
        [row] = self.client.ask("SELECT max(_id) + 1 AS n FROM x").to_arrow().to_pylist()
        return int(row["n"] or 0)


def _durable(sizes: Sizes) -> Iterator[Row]:
    name, amount = "derived.durable", BATCH * sizes.batches
    tables = batches(make_columns(amount), BATCH)
    with ExitStack() as stack:
        ours, plain = (Soup(stack, statements, durable=True) for statements in (WIDE, []))

        def derive() -> None:
            ours.push(tables)
            ours.settle()

        derived, pushed = in_turns([derive, partial(plain.push, tables)], [amount] * 2, sizes.samples)
        _compare(name, ours, amount * (sizes.samples + 1))
    target = Target(at_least=0.5)
    yield Row(name, derived.wall, "tuples/s", "a push of the same rows", pushed.wall, target)


def _arrival(name: str, statements: list[str], sizes: Sizes) -> Iterator[Row]:
    columns, amount = make_columns(BATCH * sizes.batches), BATCH * sizes.batches
    tables, later = batches(columns, BATCH), list[float]()
    with ExitStack() as stack:
        ours, plain = (Soup(stack, given, durable=False) for given in (statements, []))
        turns = [partial(ours.push, tables), partial(plain.push, tables)]

        def settle() -> None:
            later.append(1e3 * seconds(ours.settle))
            if len(later) == len(turns):  # the first round is warm-up
                ours.begin()
                plain.begin()

        derived, alone = in_turns(turns, [amount] * 2, sizes.samples, settle)
        share = ours.worked / max(plain.worked, 1e-9)
        _compare(name, ours, (sizes.samples + 1) * _matching(columns, name))
    after = Sample.of(later[2::2]).median  # `settle` is called after each turn; every other turn is ours
    note = (
        f"{name}: all is derived {after:,.0f} ms after the last tuple of a turn; {share:.2f} times the processor time"
        " of the service without derived streams"
    )
    target, details = Target(at_least=0.9), {"derived_after_ms": after}
    yield Row(name, derived.wall, "tuples/s", "without derived streams", alone.wall, target, note, details)


def _compare(name: str, soup: Soup, expected: int) -> None:
    if soup.count() != expected:
        raise AssertionError(f"{name}: {soup.count():,} rows were derived, {expected:,} are expected")


def _matching(columns: Columns, name: str) -> int:
    """The number of tuples that the SELECT of `x` takes."""
    if name == "derived.arrival":
        return int(((columns[2] < 26) & (columns[3] < 26)).sum())
    return int(((columns[0] == 0) & (columns[1] <= 2)).sum())
