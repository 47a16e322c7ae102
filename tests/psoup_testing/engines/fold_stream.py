"""The small stream of the tests of folds on disk: aggregates of each kind of state, and values on which many fail.

made(path)        an engine on a durable store

rows(rng, 100)    values of n BIGINT, x DOUBLE and s TEXT
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup.config import EngineConfig
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import EAGER

MEASURES = [
    "count(*) AS a, count(x) AS b, sum(n) AS c, avg(x) AS d, sum(x) AS e",
    "min(x) AS a, max(n) AS b, min(s) AS c, max(s) AS d, first(s) AS e, last(x) AS f",
    "arg_min(s, x) AS a, any_value(s) AS b, approx_count_distinct(n) AS c, approx_quantile(x, 0.5) AS d",
    f"max(n * {2**60}) AS a, count(*) FILTER (WHERE n * {2**61} > 0) AS b",
    "sum(n) FILTER (WHERE x > 0) AS a, stddev_pop(x) AS b",
]
WHERE = ["", "WHERE n > 0", "WHERE n = 5", f"WHERE n * {2**60 + 2**58} > 0", "WHERE s = 'zz'"]


def made(path: Path, fan: int = 2, every: int = 0, **settings: Any) -> RestartingPSoup:
    """An engine at time 0; `settings` of its configuration."""
    config = EngineConfig(chunk_rows=64, block_rows=64, list_limit=8, shape=replace(EAGER, fold_fan=fan), **settings)
    return RestartingPSoup(config, VirtualClock(0), path, every)


def rows(rng: random.Random, count: int) -> pa.Table:
    """So many rows."""
    odd = [None, float("nan"), float("inf"), 0.0, -0.0, 5e-324, 1e308, 1e16, 1.0]
    return pa.table(
        {
            "n": pa.array([rng.choice([None, 2**62, *range(-3, 9)]) for _ in range(count)], pa.int64()),
            "x": pa.array([rng.choice([*odd, rng.random()]) for _ in range(count)], pa.float64()),
            "s": pa.array([rng.choice([None, "", "a", "é", "zz"]) for _ in range(count)], pa.string()),
        }
    )
