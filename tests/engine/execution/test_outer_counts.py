"""count(*) over an outer join by keys counts by key, and not by pairs: the same numbers as DuckDB's."""

from __future__ import annotations

import random
from itertools import product

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.execution.partners import row_counts
from psoup.local import LocalPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

ROWS = 400
KINDS = ("LEFT", "RIGHT", "FULL")
CONDITIONS = ("r.k = s.k", "r.k = s.k AND r.t = s.t", "r.k + 1 = s.k", "CAST(r.t AS BIGINT) = s.k")


def rows(seed: int) -> pa.Table:
    rng = random.Random(seed)
    keys = [rng.choice([None, *range(6 + seed)]) for _ in range(ROWS)]
    return pa.table({"k": keys, "t": [rng.choice(["1", "7", None]) for _ in range(ROWS)]})


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(join_pairs=40_000))
    for seed, name in enumerate("rs"):
        soup.execute(f"CREATE STREAM {name} (k BIGINT, t TEXT)")
        soup.push(name, rows(seed))
    return soup


@pytest.mark.parametrize(("kind", "condition"), swept(product(KINDS, CONDITIONS), fast=range(0, 12, 5)))
@pytest.mark.parametrize("few", [1 << 30, 0])
def test_counts_by_key_are_those_of_the_pairs(
    soup: LocalPSoup, kind: str, condition: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pairs are looked at, or the rows of each key are counted."""
    monkeypatch.setattr(row_counts, "few_pairs", lambda *_: few)
    r, s = rows(0), rows(1)
    duck = duckdb.connect(config={"threads": 1})
    duck.register("r", r), duck.register("s", s)
    sql = f"SELECT count(*) AS n FROM r {kind} JOIN s ON {condition}"
    assert again(soup.ask, sql).to_table().to_pylist() == [{"n": duck.execute(sql).fetchall()[0][0]}]
    above = f"SELECT count(*) AS n FROM r {kind} JOIN s ON {condition} WHERE r.t IS NULL OR s.t = '7'"
    if few:
        assert again(soup.ask, above).to_table().to_pylist() == [{"n": duck.execute(above).fetchall()[0][0]}]


@pytest.mark.parametrize("pairs", [40_000, 100_000])
def test_a_count_looks_at_no_more_pairs_than_it_may(pairs: int) -> None:
    """160,000 pairs of one key are counted, but not listed."""
    hot = LocalPSoup(EngineConfig(join_pairs=pairs))
    for name in "rs":
        hot.execute(f"CREATE STREAM {name} (k BIGINT)")
        hot.push(name, pa.table({"k": [7] * ROWS}))
    for kind in KINDS:
        count = again(hot.ask, f"SELECT count(*) AS n FROM r {kind} JOIN s ON r.k = s.k").to_table()
        assert count.to_pylist() == [{"n": ROWS * ROWS}]
    with pytest.raises(ResourceExhausted, match="join_pairs"):
        hot.ask("SELECT r.k FROM r LEFT JOIN s ON r.k = s.k").to_table()
