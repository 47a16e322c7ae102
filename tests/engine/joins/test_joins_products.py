"""Joins without a condition between some sources."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock


def made(join_pairs: int = 1 << 20) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, join_pairs=join_pairs), VirtualClock(100))
    for name, rows in (("r", 30), ("s", 40), ("u", 3)):
        soup.execute(f"CREATE STREAM {name} (k BIGINT)")
        soup.push(name, pa.table({"k": range(rows)}))
    return soup


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT r.k, s.k AS j FROM r, s", [(i, j) for i in range(30) for j in range(40)]),
        (
            "SELECT r.k, s.k AS j FROM r CROSS JOIN s WHERE r.k <> s.k AND r.k < 2",
            [(i, j) for i in (0, 1) for j in range(40) if i != j],
        ),
        (
            "SELECT r.k, s.k AS j, u.k AS h FROM r, s, u WHERE r.k = u.k AND s.k > 37",
            [(i, j, i) for i in range(3) for j in (38, 39)],
        ),
    ],
)
def test_every_row_meets_every_row(sql: str, rows: list[tuple[int, ...]]) -> None:
    table = made().ask(sql).to_table()
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == rows


def test_too_many_pairs_are_refused_before_any_is_made() -> None:
    soup = made(join_pairs=1_000)
    with pytest.raises(ResourceExhausted, match=r"1,200 pairs of rows \(30 of r times 40 of s\)") as refused:
        soup.ask("SELECT r.k, s.k AS j FROM r, s").to_table()
    assert refused.value.reason == "JOIN_BUDGET"


def test_the_first_rows_of_many_pairs_are_answered() -> None:
    table = made(join_pairs=1_000).ask("SELECT r.k, s.k AS j FROM r, s LIMIT 50").to_table()
    assert table.num_rows == 50
