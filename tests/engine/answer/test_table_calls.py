"""A table of 100,000 answers takes as many calls of functions as one of 1,000, whatever the queries show."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.local import LocalPSoup
from psoup_testing.oracles.tables import calls
from psoup_testing.suite.sweeps import swept

QUERIES = 100_000
SLACK = 1_000
"""Calls for batches of rows and parts of columns, where a step for each query were 99,000."""


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """An engine with a tuple for each query; windows reach over a sealed chunk and an open one."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT, v DOUBLE)")
    soup.push("s", pa.table({"a": range(QUERIES), "v": np.ones(QUERIES)}))
    return soup


@pytest.mark.parametrize(
    "form",
    swept(
        [
            "SELECT v FROM s WHERE a = ?",
            "SELECT count(*) AS n FROM s WHERE a = ?",
            "SELECT count(*) AS n, sum(v) AS s, max(a) AS most FROM s WHERE a = ? HAVING count(*) > 0",
            "SELECT v, count(*) AS n FROM s WHERE a = ? GROUP BY v HAVING count(*) > 0 ORDER BY n DESC LIMIT 2",
            "SELECT DISTINCT v FROM s WHERE a = ? ORDER BY v LIMIT 3",
            "SELECT stddev(v) AS d, median(v) AS m FROM s WHERE a = ?",
            "SELECT count(DISTINCT a) AS n FROM s WHERE a = ?",
        ],
        fast=1,
    ),
)
def test_a_hundred_thousand_queries_take_the_calls_of_a_thousand(soup: LocalPSoup, form: str) -> None:
    standing = soup.register_many(form, pa.table({"a": range(QUERIES)}))
    soup.maintain()
    for _ in range(2):  # kernels are loaded, chunks folded
        calls(soup, standing[:1_000], 1)
        calls(soup, standing, 1)
    few, many = calls(soup, standing[:1_000], 1), calls(soup, standing, 1)
    soup.unregister_many(standing)
    assert many <= few + SLACK, (few, many)


@pytest.mark.long
def test_ten_thousand_joins_take_the_calls_of_a_thousand() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT, v DOUBLE)")
    soup.execute("CREATE STREAM r (a BIGINT, w BIGINT)")
    standing = soup.register_many("SELECT s.v FROM s, r WHERE s.a = r.a AND r.w = ?", pa.table({"w": range(10_000)}))
    soup.push("s", pa.table({"a": range(10_000), "v": np.ones(10_000)}))
    soup.push("r", pa.table({"a": range(10_000), "w": range(10_000)}))
    calls(soup, standing, 1)
    few, many = calls(soup, standing[:1_000], 1), calls(soup, standing, 1)
    assert many <= few + SLACK, (few, many)
