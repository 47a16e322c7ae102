"""The rows of derived streams: DuckDB says which rows enter the answer at which instant. All random histories.

Without state, each row of a derived stream is a combination of tuples. Its instant is the greatest time of its tuples,
and each tuple is then in its window. With state, DuckDB computes the answers R at all instants. The rows are
the differences between neighbouring answers. The rows and their IDs do not depend on the steps in which a
pump makes them, nor on restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.pumps import Pumps, pump
from psoup.pumps.kept_state import KeptState
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.derived_bounds import rows_allowed
from psoup_testing.oracles.answers_at_instants import clean
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.stateful_derivations import NAMES, TABLE, Stateful
from psoup_testing.suite.sweeps import swept

Random = np.random.Generator
Row = tuple[object, ...]
HISTORIES, STREAMS_EACH, STATEFUL_EACH = 12, 3, 3
"""The histories, and the derived streams of each, without state and with state."""
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)
STREAMS = ("r", "s", "u")
NEVER = 10**6
"""A width in seconds that keeps all tuples."""


def source_of(random: Random, name: str) -> tuple[str, int]:
    """The CREATE statement of a source, and for how many seconds it keeps its tuples."""
    seconds = int(random.choice([NEVER, NEVER, 30]))
    clause = "" if seconds == NEVER else f" RETENTION {seconds} SECONDS"
    lateness = int(random.integers(0, 4))
    columns = "(k BIGINT, v DOUBLE, w TEXT, stamp TIMESTAMP)"
    return f"CREATE STREAM {name} {columns} TIMESTAMP BY stamp LATENESS {lateness} SECONDS{clause}", seconds


def condition(random: Random, name: str) -> str:
    return str(
        random.choice(
            [
                "TRUE",
                f"{name}.v > 2",
                f"{name}.k BETWEEN 1 AND 3",
                f"({name}.w LIKE 'a%' OR {name}.v IS NULL)",
                f"{name}.v + {name}.k < 6",
                f"{name}.w <> 'b'",
            ]
        )
    )


class Derived:
    """A random derived stream: its statement, and the query of DuckDB for its rows with their instants."""

    def __init__(self, random: Random, retention: dict[str, int], name: str) -> None:
        self.name = name
        count = int(random.choice([1, 1, 2, 2, 2, 3]))
        names = [str(name) for name in random.choice(STREAMS, count, replace=False)]
        windows = {name: int(random.choice([NEVER, 3, 10])) if count > 1 else NEVER for name in names}
        conditions = [condition(random, name) for name in names]
        for before, name in pairwise(names):
            conditions.append(f"{before}.k = {name}.k")
            if random.random() < 0.4:
                conditions.append(f"{name}.stamp BETWEEN {before}.stamp - INTERVAL 5 SECONDS AND {before}.stamp")
        columns = [f"{name}.{random.choice(['k', 'v', 'w'])} AS c{at}" for at, name in enumerate([*names, names[0]])]
        columns.append(f"{names[-1]}.k * 2 + 1 AS computed")
        select, where = ", ".join(columns), " AND ".join(conditions)
        brackets = {name: "" if width == NEVER else f" [RANGE {width} SECONDS]" for name, width in windows.items()}
        origin = ", ".join(f"{name}{brackets[name]}" for name in names)
        self.statement = f"CREATE STREAM {self.name} AS (SELECT {select} FROM {origin} WHERE {where})"
        times = [f"epoch_us({name}.stamp)" for name in names]
        instant = f"greatest({', '.join(times)})" if count > 1 else times[0]
        widths = {name: min(width, retention[name]) for name, width in windows.items()}
        inside = [
            f"{instant} - epoch_us({n}.stamp) <= {widths[n] * SECOND}" for n in names if count > 1 and widths[n] < NEVER
        ]
        self.oracle = (
            f"SELECT {select}, {instant} AS instant FROM {', '.join(names)} WHERE {' AND '.join([where, *inside])}"
        )


class History:
    """Random pushes into the sources, with late tuples, ties and NULLs."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.retention = dict[str, int]()
        self.creates = list[str]()
        for name in STREAMS:
            statement, self.retention[name] = source_of(self.random, name)
            self.creates.append(statement)
        self.derived = [Derived(self.random, self.retention, f"x{number}") for number in range(STREAMS_EACH)]
        self.stateful = [Stateful(self.random, self.retention, f"y{number}") for number in range(STATEFUL_EACH)]
        self.before = int(self.random.integers(0, 8)) if min(self.retention.values()) == NEVER else 0
        """The number of pushes before the stream is derived: 0 if tuples may be gone by then."""
        self.pushes = list(self._pushes())

    def _pushes(self) -> Iterator[tuple[str, pa.Table]]:
        for step in range(16):
            name = str(self.random.choice(STREAMS))
            rows = int(self.random.integers(1, 20))
            at = START + (2 * step + self.random.integers(-3, 3, rows)) * SECOND
            yield (
                name,
                pa.table(
                    {
                        "k": pa.array(self.random.integers(0, 5, rows)),
                        "v": pa.array(
                            [None if x > 5 else float(x) for x in self.random.integers(0, 7, rows)], pa.float64()
                        ),
                        "w": pa.array([str(x) for x in self.random.choice(["a", "ab", "b", ""], rows)]),
                        "stamp": pa.array(at, pa.timestamp("us")),
                    }
                ),
            )

    def run(self, step: int, restarts: float = 0) -> LocalPSoup:
        """Push everything. `step`: the most tuples of a step of the pump. `restarts`: the share of pushes after which
        the pumps are made anew."""
        random = np.random.default_rng(step)
        soup = LocalPSoup(CONFIG, VirtualClock(START + 10**9))
        for statement in (*self.creates, TABLE):
            soup.execute(statement)
        soup.push("names", pa.table({"k": list(NAMES), "n": list(NAMES.values())}))
        with patch.object(pump, "MOST_TUPLES", step), patch.object(pump, "BEHIND", 1):
            for number, (name, table) in enumerate(self.pushes):
                if number == self.before:
                    for derived in (*self.derived, *self.stateful):
                        soup.execute(derived.statement)
                soup.push(name, table, refused="count")
                if number % 5 == 3:
                    check_states(soup)
                if random.random() < restarts:
                    soup._pumps = Pumps()
                if number % 7 == 6:
                    soup.maintain()
            for name in STREAMS:
                soup.heartbeat(name, START + 60 * SECOND)
        return soup


def check_states(soup: LocalPSoup) -> None:
    """Check the state of each pump. It is as large as a state made from the tuples in their windows alone.

    Its rows are within its bound for these tuples.
    """
    snapshot = soup.engine.snapshot()
    for each in soup._pumps.by_id.values():
        state = each._kept._state
        if state is None:
            continue
        form = state.form
        assert form.binding is not None
        spec = snapshot.by_id[each.stream_id].spec
        views = form.views(snapshot)
        facts = form, form.binding, spec, views, snapshot, soup.tenant
        again = KeptState(form.derived)._rebuilt(*facts, state.at, ReadBudget())
        for operator in (state.operator, again.operator):
            operator.check()
        assert again.operator.rows == state.operator.rows, form.derived.select
        if state.at is not None:
            assert state.operator.rows <= rows_allowed(form, views, state.at), form.derived.select


def rows_of(soup: LocalPSoup, name: str) -> list[Row]:
    """The rows of a derived stream, with their instants, in the order of their IDs."""
    statement = f"SELECT *, epoch_us(_time) AS instant, _id FROM {name} ORDER BY _id"
    rows = again(soup.ask, statement).to_table().to_pylist()
    assert [row.pop("_id") for row in rows] == list(range(len(rows)))
    return [tuple(row.values()) for row in rows]


def accepted(soup: LocalPSoup, name: str, duck: duckdb.DuckDBPyConnection) -> None:
    """Give the tuples that a source has accepted to DuckDB. `soup` keeps all of them."""
    rows = again(soup.ask, f"SELECT k, v, w, stamp FROM {name} BEGIN (START)").to_table()
    duck.register(f"given_{name}", rows)
    duck.execute(f"CREATE TABLE {name} AS SELECT k, v, w, stamp FROM given_{name}")


def everything(history: History) -> LocalPSoup:
    """A service with the same tuples, which keeps all of them."""
    soup = LocalPSoup(CONFIG, VirtualClock(START + 10**9))
    for statement in history.creates:
        soup.execute(statement.partition(" RETENTION")[0])
    for name, table in history.pushes:
        soup.push(name, table, refused="count")
    for name in STREAMS:
        soup.heartbeat(name, START + 60 * SECOND)
    return soup


@pytest.mark.parametrize("seed", swept(range(HISTORIES), fast=1))
def test_the_rows_are_those_that_enter_the_answer(seed: int) -> None:
    compare(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_the_rows_of_many_more_streams_are_those_that_enter_the_answer(seed: int) -> None:
    compare(seed)


def compare(seed: int) -> None:
    """Compare the streams of a history with DuckDB, and with the streams of a pump that takes smaller steps."""
    history = History(seed)
    soup, in_small_steps = history.run(pump.MOST_TUPLES), history.run(24, restarts=0.3)
    duck, all_tuples = duckdb.connect(), everything(history)
    for name in STREAMS:
        accepted(all_tuples, name, duck)
    duck.execute(f"CREATE TABLE names AS SELECT * FROM (VALUES {', '.join(map(str, NAMES.items()))}) t(k, n)")
    for derived in history.derived:
        rows = rows_of(soup, derived.name)
        expected = duck.execute(derived.oracle).fetchall()
        assert sorted(map(repr, rows)) == sorted(map(repr, expected)), derived.statement
        assert np.all(np.diff([float(str(row[-1])) for row in rows]) >= 0)
        assert rows_of(in_small_steps, derived.name) == rows, derived.statement
    for stateful in history.stateful:
        rows = rows_of(soup, stateful.name)
        changes = stateful.answers.changes(duck, START + 60 * SECOND - 1)[stateful.leaves]
        assert [(row[-1], clean(row[:-1])) for row in rows] == changes, stateful.statement
        assert rows_of(in_small_steps, stateful.name) == rows, stateful.statement
    for each in (soup, in_small_steps):
        each.check()
