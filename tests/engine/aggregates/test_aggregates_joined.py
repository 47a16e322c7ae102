"""Aggregates of joins against DuckDB, and what must be equal whatever the chunks are and whatever is kept of them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.execution.join import small_pairs
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

JOINED = [
    "SELECT count(*) AS n, sum(r.v) AS t, min(s.w) AS least, max(r.t) AS last FROM r, s WHERE r.k = s.k",
    "SELECT r.k, count(*) AS n, sum(r.v * s.w) AS t FROM r, s WHERE r.k = s.k GROUP BY r.k",
    "SELECT r.t, s.w % 3 AS m, count(*) AS n, max(s.w) FILTER (WHERE r.v > 5) AS x FROM r, s WHERE r.k = s.k"
    " GROUP BY 1, 2",
    "SELECT s.w, count(DISTINCT r.t) AS n FROM r, s WHERE r.k = s.k AND r.v < 12 GROUP BY s.w HAVING count(*) > 2",
    "SELECT r.k, sum(x.v) AS n FROM r, s, r x WHERE r.k = s.k AND s.w = x.v GROUP BY r.k ORDER BY n DESC LIMIT 3",
]


def _tables(seed: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([0, 5, 200]))
    texts = pa.array(["a", "b", None, ""]).take(pa.array(rng.integers(0, 4, rows)))
    keys = pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.2)
    return {
        "r": pa.table({"k": keys, "v": rng.integers(0, 20, rows), "t": texts}),
        "s": pa.table({"k": rng.integers(0, 9, 60), "w": rng.integers(0, 9, 60)}),
    }


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in rows]


@pytest.mark.parametrize("seed", swept(range(8), fast=2))
def test_aggregates_of_a_join_are_those_of_its_rows(seed: int) -> None:
    tables, soup = _tables(seed), LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(100))
    soup.execute("CREATE STREAM r (k BIGINT, v BIGINT, t TEXT)")
    soup.execute("CREATE STREAM s (k BIGINT, w BIGINT)")
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in tables.items():
            soup.push(name, table)
            connection.register(name, table)
        for sql in JOINED:
            answer = again(soup.ask, sql).to_table()
            found = _plain(list(zip(*[column.to_pylist() for column in answer.columns], strict=True)))
            ordered = "" if "ORDER BY" in sql or "GROUP BY" not in sql else " ORDER BY ALL NULLS LAST"
            text = sql.replace(" ORDER BY n DESC", " ORDER BY n DESC, r.k")
            assert found == _plain(connection.sql(text + ordered).fetchall()), sql


@pytest.mark.parametrize(("spread", "small", "answered"), [(1, 0, True), (1, 16_384, True), (10**9, 0, False)])
def test_a_count_of_a_join_needs_no_pairs(
    spread: int, small: int, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buckets of one key each tell how many partners a row has; of keys that are far apart pairs are looked at."""
    monkeypatch.setattr(small_pairs, "_SMALL", small)
    rng, sides = np.random.default_rng(6), dict[str, list[int | None]]()
    soup = LocalPSoup(EngineConfig(join_pairs=20_000), VirtualClock(100))
    for name, rows in (("r", 900), ("s", 1_000), ("few", 7)):
        soup.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT)")
        values = pa.array(spread * rng.integers(-4, 5, rows), mask=rng.random(rows) < 0.1)
        soup.push(name, pa.table({"k": values, "v": range(rows)}))
        sides[name] = values.to_pylist()

    def pairs(other: str, least: int) -> int:
        counts = Counter(key for key in sides["r"][least:] if key is not None)
        return sum(counts[key] for key in sides[other] if key is not None)

    assert pairs("s", 9) > 80_000
    for other, least in (("few", 0), ("few", 900), ("s", 890), ("s", 9)):
        sql = f"FROM r JOIN {other} AS o ON r.k = o.k WHERE r.v >= {least}"
        many = pairs(other, least) > 20_000
        if answered or not many:
            assert again(soup.ask, f"SELECT count(*) AS n, count(*) + 1 AS m {sql}").to_table().to_pylist() == [
                {"n": pairs(other, least), "m": pairs(other, least) + 1}
            ]
            assert again(soup.ask, f"SELECT count(*) AS n {sql} HAVING count(*) < 0").to_table().num_rows == 0
        for shown in ("r.v", "max(o.v) AS n") if many else ():
            with pytest.raises(ResourceExhausted, match="join_pairs"):
                soup.ask(f"SELECT {shown} {sql}").to_table()
    both = [
        (place, at)
        for place, key in enumerate(sides["r"])
        for at, other in enumerate(sides["few"])
        if key is not None and key == other
    ]
    tested = again(soup.ask, "SELECT count(*) AS n FROM r, few f WHERE r.k = f.k AND r.v > 10 * f.v").to_table()
    assert tested.to_pylist() == [{"n": sum(place > 10 * at for place, at in both)}]


STANDING = [
    "SELECT count(*) AS n, sum(x) AS s, avg(x) AS a, min(t) AS l, last(k) AS e FROM m WHERE k > 2",
    "SELECT k, count(*) AS n, sum(x) AS s, arg_max(t, x) AS b, median(x) AS m, approx_count_distinct(x) AS d FROM m"
    " GROUP BY k",
    "SELECT t, k % 2 AS o, sum(DISTINCT k) AS s, max(x) AS b, approx_quantile(x, 0.5) AS q FROM m WHERE k < 7"
    " GROUP BY ALL",
]


@pytest.mark.long
def test_answers_do_not_depend_on_chunks_nor_on_what_is_kept_of_them() -> None:
    """Bit for bit: sums, picks and sketches do not see where a chunk ends, or which matches were evicted."""
    rng = np.random.default_rng(4)
    rows = 5_000
    table = pa.table(
        {
            "k": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.1),
            "x": rng.standard_normal(rows) * 10.0 ** rng.integers(-20, 20, rows),
            "t": pa.array(["a", "b", None, ""]).take(pa.array(rng.integers(0, 4, rows))),
        }
    )
    shown: list[list[pa.Table]] = []
    for chunk, kept in ((64, 2**32), (128, 0), (4_096, 2**32), (65_536, 2**32)):
        soup = LocalPSoup(EngineConfig(chunk_rows=chunk, results_bytes=kept, shape=EAGER), VirtualClock(100))
        soup.execute("CREATE STREAM m (k BIGINT, x DOUBLE, t TEXT)")
        queries = [soup.register(f"{sql} BEGIN (NOW - 4900 ROWS) END (NOW - 7 ROWS)") for sql in STANDING]
        for start in range(0, rows, 700):
            soup.push("m", table.slice(start, 700))
        first = [again(soup.invoke, query).to_table() for query in queries]
        soup.maintain()
        later = [again(soup.invoke, query).to_table() for query in queries]
        assert all(one.equals(two) for one, two in zip(first, later, strict=True))
        assert again(soup.invoke, queries[1]).to_table().equals(later[1])
        shown.append(later)
        groups, whole = (
            again(soup.ask, sql).to_table()["n"].to_pylist() for sql in (STANDING[1], "SELECT count(*) AS n FROM m")
        )
        assert [sum(groups)] == whole == [rows]
    assert all(one.equals(two) for other in shown[1:] for one, two in zip(shown[0], other, strict=True))
