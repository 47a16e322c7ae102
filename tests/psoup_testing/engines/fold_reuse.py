"""Small engines whose aggregates are folded, rows that are hard to fold, and what an answer says of itself."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from psoup.answer.invoke import Answer
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again

MEASURES = [
    "count(*) AS a, count(x) AS b",
    "sum(n) AS a, avg(n) AS b, sum(n) FILTER (WHERE x > 0) AS c",
    "sum(x) AS a, avg(x) AS b",
    "min(x) AS a, max(x) AS b, min(s) AS c, max(s) AS d",
    "first(x) AS a, last(x) AS b, any_value(s) AS c, arg_min(s, x) AS d, arg_max(n, x) AS e",
    "approx_count_distinct(n) AS a, approx_quantile(n, 0.5) AS b",
    "bit_and(n) AS a, bit_or(n) AS b, bit_xor(n) FILTER (WHERE x > 0) AS c",
    f"max(n * {2**60}) AS a, count(*) FILTER (WHERE n * {2**61} > 0) AS b",
    "stddev_samp(n) AS a, count(DISTINCT n) AS b, median(x) AS c",
]
WHERE = ["", "WHERE n > 0", "WHERE n = 5", f"WHERE n * {2**60 + 2**58} > 0", "WHERE x = 77"]
WINDOWS = [
    "",
    "BEGIN (NOW - 700 ROWS)",
    "BEGIN (NOW - 64 ROWS) END (NOW - 3 ROWS)",
    "BEGIN (NOW - 500) END (NOW - 100)",
]


def folding(fan: int, **settings: Any) -> LocalPSoup:
    """An engine of small chunks with a stream t; `fan` 1: without folds."""
    config = EngineConfig(chunk_rows=64, block_rows=64, list_limit=8, shape=replace(EAGER, fold_fan=fan), **settings)
    soup = LocalPSoup(config, VirtualClock(0))
    soup.execute("CREATE STREAM t (n BIGINT, x DOUBLE, s TEXT)")
    return soup


def odd_rows(rng: random.Random, count: int) -> pa.Table:
    """Rows of t with NULLs, NaN, infinities, both zeros, sums that need many words, texts that are empty."""
    odd = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, 1e16, 1.0]
    return pa.table(
        {
            "n": pa.array([rng.choice([None, 2**62, *range(-3, 9)]) for _ in range(count)], pa.int64()),
            "x": pa.array([rng.choice([*odd, rng.random()]) for _ in range(count)], pa.float64()),
            "s": pa.array([rng.choice([None, "", "a", "é", "zz"]) for _ in range(count)], pa.string()),
        }
    )


def compare(sides: Sequence[LocalPSoup], queries: Sequence[str], rng: random.Random, count: int) -> None:
    """Push the same rows to two engines, drop folds of the first one, and compare some of their answers.

    The queries have the IDs from 1 on.
    """
    pushed, still = odd_rows(rng, rng.choice([1, 63, 64, 200])), rng.choice([0, 40])
    for soup in sides:
        assert isinstance(soup.clock, VirtualClock)
        soup.clock.advance(seconds=still)
        soup.push("t", pushed)
        while rng.random() < 0.7 and soup.maintain():
            pass
    folds = sides[0].engine.snapshot().stream("t", "default").folds
    folds.give_up(rng.choice([0, 0, 0, 3_000, 1 << 30]))
    for query in rng.choices(range(1, len(queries) + 1), k=count):
        window = rng.choice([None, None, *WINDOWS[1:]])
        answer, other = (told(again(soup.invoke, query, window=window)) for soup in sides)
        assert answer == other, (queries[query - 1], window)


def told(answer: Answer) -> str:
    """The whole answer, bit for bit, except errors of WHERE, which are counted for whole chunks."""
    shown = repr([column.to_pylist() for column in answer.to_table().columns])
    errors = answer.errors - answer.completeness.errors, answer.select_errors
    return f"{shown} {answer.matched} {errors} {answer.completeness._replace(errors=0)}"


def spans_of(soup: LocalPSoup) -> list[tuple[int, int]]:
    """The spans that are kept, of all clauses."""
    (view, *_) = soup.engine.snapshot().by_id.values()
    return sorted(span for *_, folds in view.folds.kept() for span in folds.spans)
