"""The kinds of conditions that make a join direct: equalities and bands of columns, and conditions beside these."""

from __future__ import annotations

import pytest

from psoup.execution.join.direct_join import direct_join
from psoup.local import LocalPSoup
from psoup.plan.nodes import Join


@pytest.mark.parametrize(
    ("where", "direct"),
    [
        ("r.k = s.k", True),
        ("s.at BETWEEN r.at AND r.at + INTERVAL 1 DAY", True),
        ("r.n + 1 > s.n AND r.n < s.n - 4", True),
        ("r.k = s.k + 1", False),
        ("r.k = s.n", False),
        ("r.k = s.k AND r.n < s.n", True),
        ("r.k = s.k AND r.n = s.n AND s.at >= r.at AND s.at < r.at + INTERVAL 1 HOUR AND r.w = s.w", True),
        ("r.w = s.w", True),
        ("r.w < s.w", False),
        ("r.w = s.w AND r.w < s.w", False),
        ("r.k = s.k AND r.n + s.n > 0", False),
        ("r.n < s.n AND r.at < s.at", False),
        ("r.at < s.at - INTERVAL 1 MONTH", False),
        ("r.n * 2 < s.n", False),
    ],
)
def test_which_joins_are_direct(where: str, direct: bool) -> None:
    soup = LocalPSoup()
    for name in "rs":
        soup.execute(f"CREATE STREAM {name} (k DOUBLE, n BIGINT, at TIMESTAMP, w TEXT)")
    query = soup.register(f"SELECT r.k FROM r, s WHERE {where}")
    node = soup.engine.snapshot().query(query, soup.tenant).query.plan
    while not isinstance(node, Join):
        (node,) = node.inputs
    assert (direct_join(node) is not None) == direct
