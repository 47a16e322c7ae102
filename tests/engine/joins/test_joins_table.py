"""Joins in a table of answers: those of one plan are found in one pass, and are what single invocations give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.execution.many import many_joins
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, list_limit=4, shape=EAGER)
SELECT = "SELECT x.k, x.v, y.v AS w, x.t || y.t AS both, x._id AS i, y._id AS j"
BOTH = " AND x.v > $a AND y.v < $b"
FORMS = (
    ("FROM r AS x, s AS y WHERE x.k = y.k" + BOTH, True),
    ("FROM r AS x [ROWS 70], s AS y [ROWS 150] WHERE y.k = x.k" + BOTH, True),
    ("FROM r AS x, s AS y WHERE x.t = y.t AND x.k > 3" + BOTH, True),
    ("FROM r AS x, s AS y WHERE x.k = y.v AND x.v > $a AND x.v <= $a + $b", True),
    ("FROM r AS x, r AS y WHERE x.k + 1 = y.k" + BOTH, True),
    ("FROM r AS x, s AS y WHERE x.k = y.k AND CAST(x.t AS BIGINT) > $a AND y.v < $b", True),
    ("FROM r AS x, s AS y WHERE CAST(x.t AS BIGINT) = y.k" + BOTH, False),
    ("FROM r AS x, s AS y WHERE x.k = y.k AND x.v <= y.v" + BOTH, False),
)
"""Joins with parameters, and whether they are answered together."""


def rows(rng: np.random.Generator, count: int) -> pa.Table:
    numbers = [pa.array(rng.integers(0, most, count), mask=rng.random(count) < 0.1) for most in (12, 20)]
    return pa.table({"k": numbers[0], "v": numbers[1], "t": rng.choice(["1", "7", "", "x"], count).tolist()})


def parameters(rng: np.random.Generator) -> pa.Table:
    return pa.table({"a": rng.integers(0, 20, 40), "b": rng.integers(0, 20, 40)})


def one_by_one(soup: LocalPSoup, ids: list[int]) -> tuple[pa.Table, int]:
    answers = [soup.invoke(query) for query in ids]
    tables = [answer.to_table() for answer in answers]
    places = np.repeat(np.arange(len(ids)), [table.num_rows for table in tables])
    return pa.concat_tables(tables).add_column(0, "_query", pa.array(places)), sum(a.errors for a in answers)


def compare(soup: LocalPSoup, ids: list[int]) -> int:
    """The number of rows, which are those of single invocations."""
    found = again(soup.invoke_table, ids)
    table = found.to_table()
    expected, errors = one_by_one(soup, ids)
    assert table.equals(expected.cast(table.schema))
    assert (found.failures(), sum(group.errors for group in found.groups)) == ([], errors)
    return table.num_rows


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of joins that each pass was for."""
    counted: list[int] = []
    kernel = many_joins.pairs_of_sets

    def counting(*arguments: Any) -> int:
        counted.append(len(arguments[0]))
        return int(kernel(*arguments))

    monkeypatch.setattr(many_joins, "pairs_of_sets", counting)
    return counted


@pytest.mark.parametrize(("form", "together"), swept(FORMS, fast=1))
def test_joins_of_one_plan_are_what_each_is_alone(form: str, together: bool, passes: list[int]) -> None:
    rng = np.random.default_rng(len(form))
    soup = LocalPSoup(SMALL, VirtualClock(0))
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, v BIGINT, t TEXT)")
    ids = [*soup.register_many(f"{SELECT} {form}", parameters(rng))]
    assert compare(soup, ids) == 0
    for step in range(3):
        for stream in "rs":
            soup.push(stream, rows(rng, 60))
        if step == 1:
            soup.maintain()
            ids += soup.register_many(f"{SELECT} {form}", parameters(rng))  # not evaluated over what is there
            ids.append(soup.register(f"{SELECT} {form}".replace("$a", "3").replace("$b", "9")))
        assert compare(soup, [*ids, ids[0], ids[5]]) > 0
    assert bool(passes) == together
    assert not passes or max(passes) >= 82


GROUPED = (
    "SELECT count(*) AS n, sum(x.v + y.v) AS s, max(x.t) AS m {} HAVING count(*) > 2",
    "SELECT x.v, count(DISTINCT y.t) AS n, first(y.v) AS f, avg(x.k) AS a {} GROUP BY x.v ORDER BY n DESC, 1 LIMIT 3",
    "SELECT y.t, x.t AS o, min(y.v) FILTER (WHERE x.v > 4) AS m, sum(CAST(x.t AS BIGINT)) AS c {} GROUP BY ALL",
)
"""Aggregates over joins; FROM and WHERE are put in. Some texts are no numbers, so values are counted as errors."""


@pytest.mark.parametrize("form", swept(GROUPED, fast=1))
def test_aggregates_over_joins_of_one_plan_are_what_each_is_alone(form: str, passes: list[int]) -> None:
    rng = np.random.default_rng(len(form))
    soup = LocalPSoup(SMALL, VirtualClock(0))
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, v BIGINT, t TEXT)")
    text = form.format(FORMS[0][0])
    ids = [*soup.register_many(text, parameters(rng))]
    compare(soup, ids)
    for stream in "rs":
        soup.push(stream, rows(rng, 130))
    soup.maintain()
    ids += soup.register_many(text, parameters(rng))
    assert compare(soup, [*ids, ids[0]]) > 40
    assert passes and max(passes) >= 41


def test_joins_of_too_many_rows_are_answered_in_parts(passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup.answer.table._PAIRS", 4_000)
    soup = LocalPSoup(SMALL, VirtualClock(0))
    rng = np.random.default_rng(1)
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, v BIGINT, t TEXT)")
        soup.push(stream, rows(rng, 200))
    ids = [*soup.register_many(f"{SELECT} {FORMS[0][0]}", parameters(rng))]
    assert compare(soup, ids) > 4_000
    assert len(passes) > 2 and max(passes) <= 40


def test_few_joins_over_much_are_answered_one_by_one(passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_joins, "_WORTH", 2)
    soup = LocalPSoup(SMALL, VirtualClock(0))
    rng = np.random.default_rng(2)
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, v BIGINT, t TEXT)")
        soup.push(stream, rows(rng, 200))
    assert compare(soup, [*soup.register_many(f"{SELECT} {FORMS[0][0]}", parameters(rng))]) > 0
    assert passes == []
