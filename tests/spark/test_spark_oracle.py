"""T12 and T10 with Spark: random schemas, data, zones and queries; every answer and frame against DuckDB.

Queries are registered before history is attached, while its job runs, and after; history meets live data at one moment,
and chunks are cut where many tuples have the same.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup.model import TIMESTAMP, Attribute, Kind, Schema
from psoup_client import Client
from psoup_storage import DurableStore
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import draw_declaration, draw_pools
from psoup_testing.histories.queries import Query, draw_query
from psoup_testing.histories.values import YEAR_1, Value
from psoup_testing.histories.windows import SECOND, WINDOW_KINDS, Window, draw_window
from psoup_testing.oracles.model import Declaration, Row
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java
from psoup_testing.spark.spark_duel import Place, SparkDuel
from psoup_testing.suite.budget import Budget, run_cases

pytestmark = [needs_java, pytest.mark.long]
SPAN = 4 * 3_600
"""Seconds around a change of clocks that the data covers."""
CHANGES = (
    ("UTC", "2020-02-29T00:00:00Z"),
    ("America/New_York", "2021-11-07T06:00:00Z"),
    ("America/New_York", "2021-03-14T07:00:00Z"),
    ("Australia/Lord_Howe", "2022-04-02T15:00:00Z"),  # by half an hour
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),  # a day was left out
    ("Asia/Kathmandu", "1985-12-31T18:30:00Z"),  # by a quarter
)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = DurableStore(tmp_path_factory.mktemp("oracle") / "data", reserve_bytes=0)
    with serving(store=store) as service, Client(service.address, timeout=60) as client:
        yield client


def draw_stream(make: Maker) -> Declaration:
    """One in event time that keeps everything."""
    found = replace(draw_declaration(make, f"o{next(_numbers)}"), keep_seconds=None, keep_rows=None)
    if found.time_column is not None:
        return found
    attributes = (Attribute("ts", TIMESTAMP), *found.schema.attributes)
    return replace(found, schema=Schema(attributes), time_column=0, lateness=60)


def draw_values(make: Maker, declaration: Declaration, base: int) -> tuple[tuple[Value, ...], ...]:
    """Pools; times are about the change, and the time column's are few, so that chunks are cut between equal ones."""
    pools = list(draw_pools(make, declaration))
    about = tuple(base + make.number(-SPAN, SPAN) // 900 * 900 * SECOND for _ in range(6))
    for place, attribute in enumerate(declaration.schema.attributes):
        if place == declaration.time_column:
            pools[place] = about
        elif attribute.type.kind is Kind.TIMESTAMP:
            pools[place] += about[:3]
    return tuple(pools)


def some(pools: tuple[tuple[Value, ...], ...], place: int, times: list[int], seed: int) -> list[Row]:
    """A row for each of the times."""
    source = random.Random(seed)
    rows = [[source.choice(pool) for pool in pools] for _ in times]
    return [(*row[:place], time, *row[place + 1 :]) for row, time in zip(rows, times, strict=True)]


class Script:
    """One case: what happens is drawn as it happens."""

    def __init__(self, draw: Any, place: Place) -> None:
        make = Maker(draw, Scope(Schema(()), ()), 2)
        self.zone, change = make.pick(CHANGES)
        self.base = int(datetime.fromisoformat(change).timestamp()) * SECOND
        declaration = draw_stream(make)
        self.pools = draw_values(make, declaration, self.base)
        self.make = Maker(draw, Scope(declaration.schema, self.pools), 2)
        place.spark.conf.set("spark.sql.session.timeZone", self.zone)
        place.spark.conf.set("spark.sql.shuffle.partitions", str(make.number(1, 3)))
        place.spark.conf.set("spark.sql.adaptive.enabled", "false")  # it would make one partition of so few rows
        note(f"{declaration.sql()}\n{self.zone}")
        self.duel = SparkDuel(place, declaration, self.zone)
        self.now, self.start = self.base, self.base - SPAN * SECOND

    def run(self) -> int:
        """Backfills and feeds in any order; returns how many answers were compared."""
        try:
            for step in self.make.pick(("bf", "fb", "bfb", "fbf", "bb")):
                self.register(self.make.number(1, 4))
                if step == "b":
                    self.backfill()
                else:
                    self.feed()
            self.register(self.make.number(1, 2))
            self.duel.check(self.ask, frames=1)
            return self.duel.compared
        finally:
            self.duel.close()

    def register(self, count: int) -> None:
        for _ in range(count):
            query = draw_query(self.make, self.duel.declaration.name, self.start, 2 * SPAN)
            note(f"Register {query.sql()}")
            self.duel.register(query)

    def meanwhile(self) -> None:
        self.register(1)
        self.duel.unregister(self.seed())

    def backfill(self) -> None:
        """Up to the first moment that there is; a few times hold many rows."""
        source = random.Random(self.seed())
        end = min((entry[0] for entry in self.duel.model.accepted), default=self.base)
        about = [end - source.choice((0, 1, 500_000, 900 * SECOND, 1_800 * SECOND, SPAN * SECOND)) for _ in range(5)]
        about += [YEAR_1] if source.random() < 0.1 and end > YEAR_1 else []
        times = [max(source.choice(about), YEAR_1) for _ in range(source.choice((0, 1, 60, 150)))]
        chunk_rows, seed = source.choice((5, 16, 64)), self.seed()
        note(f"Backfill {len(times)} rows up to {end}, chunks of {chunk_rows}, seed {seed}")
        self.duel.backfill(self.rows(times), chunk_rows, seed, self.meanwhile)

    def feed(self) -> None:
        """Two batches; some rows are late."""
        source, batches = random.Random(self.seed()), []
        for count in (source.choice((1, 40)), source.choice((0, 30))):
            self.now += source.choice((0, 1, 900)) * SECOND
            away = (0, 0, 1, 30 * SECOND, -SECOND, -120 * SECOND)
            batches.append(self.rows([self.now + source.choice(away) for _ in range(count)]))
        note(f"Feed {[len(rows) for rows in batches]} rows up to {self.now}")
        self.duel.feed(batches, self.seed())

    def rows(self, times: list[int]) -> list[Row]:
        assert self.duel.declaration.time_column is not None
        return some(self.pools, self.duel.declaration.time_column, times, self.seed())

    def ask(self, query: Query) -> tuple[int | None, Window | None]:
        as_of = self.base + self.make.number(-SPAN, SPAN) * SECOND if self.make.number(0, 1) else None
        window = draw_window(self.make, self.make.pick(WINDOW_KINDS), self.start, 2 * SPAN)
        return as_of, window if self.make.number(0, 1) else None

    def seed(self) -> int:
        return self.make.number(0, 1 << 16)


def test_history_feeds_and_frames_are_what_duckdb_says(spark: Any, durable: Client, tmp_path: Path) -> None:
    from psoup_spark import register

    register(spark)
    budget, bad = Budget("T12 Spark", cases=100), [0]
    names = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
    before = {name: spark.conf.get(name) for name in names}

    def case(draw: Any) -> int:
        if not draw(st.integers(0, 1 << 16)):
            return 0  # Hypothesis begins each round with the simplest example, which is always the same
        script = Script(draw, Place(spark, durable, tmp_path))
        done = script.run()
        bad[0] += script.duel.bad
        return done

    try:
        run_cases(budget, case, examples=2)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert bad[0], "a run in which no row is bad says little"
