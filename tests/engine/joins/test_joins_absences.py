"""Rows without a partner, and what may not sink, be lost or be left behind: one small case for each seeded bug.

r  id 1 2 3 4 5 6      k  1 1 2 3 - 9      n  0 6 3 7 5 2      an id is also the second of its tuple.
s  id 1 2 3 4          k  1 2 2 -          n  4 - 1 8
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.small_pieces import small_pieces

SECOND = 1_000_000
NOW = 1_000
"""The watermark of all streams, in seconds, but in the last test."""
Tuples = list[tuple[int, int | None, int | None]]
R: Tuples = [(1, 1, 0), (2, 1, 6), (3, 2, 3), (4, 3, 7), (5, None, 5), (6, 9, 2)]
S: Tuples = [(1, 1, 4), (2, 2, None), (3, 2, 1), (4, None, 8)]


def push(soup: LocalPSoup, stream: str, rows: Tuples) -> None:
    ids, keys, numbers = zip(*rows, strict=True)
    at = pa.array([number * SECOND for number in ids], pa.timestamp("us"))
    soup.push(
        stream, pa.table({"at": at, "id": ids, "k": pa.array(keys, pa.int64()), "n": pa.array(numbers, pa.int64())})
    )


def streams(**tuples: Tuples) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, ahead=10**12), VirtualClock(0), verify="all")
    for name, rows in tuples.items():
        soup.execute(f"CREATE STREAM {name} (at TIMESTAMP NOT NULL, id BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY at")
        if rows:
            push(soup, name, rows)
        soup.heartbeat(name, NOW * SECOND)
    return soup


@pytest.fixture
def soup() -> LocalPSoup:
    return streams(r=R, s=S, none=[])


def rows(soup: LocalPSoup, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement, registered and asked several times, and then asked alone; the query is unregistered."""
    query = soup.register(sql)
    table = again(soup.invoke, query, **options).to_table()
    assert soup.ask(sql, **options).to_table().equals(table)
    soup.unregister(query)
    return [tuple(row.values()) for row in table.to_pylist()]


BOTH = "SELECT r.id AS a, s.id AS b FROM r {} JOIN s ON {}"


@pytest.mark.seeded("a condition in ON on the kept source drops its rows")
def test_a_condition_in_on_drops_no_row_of_the_kept_source(soup: LocalPSoup) -> None:
    expected = [(1, None), (2, 1), (3, None), (4, None), (5, None), (6, None)]
    assert rows(soup, BOTH.format("LEFT", "r.k = s.k AND r.n > 5")) == expected
    assert rows(soup, BOTH.format("RIGHT", "r.k = s.k AND s.n > 2")) == [
        (1, 1),
        (2, 1),
        (None, 2),
        (None, 3),
        (None, 4),
    ]
    assert rows(soup, BOTH.format("LEFT", "r.k = s.k AND 1 = 0")) == [(row[0], None) for row in R]


@pytest.mark.seeded("a condition in WHERE on the missing source sinks to its side")
def test_a_condition_in_where_sees_the_missing_tuple(soup: LocalPSoup) -> None:
    left = BOTH.format("LEFT", "r.k = s.k")
    assert rows(soup, f"{left} WHERE s.n IS NULL") == [(3, 2), (4, None), (5, None), (6, None)]
    assert rows(soup, f"{left} WHERE s.id IS NULL") == [(4, None), (5, None), (6, None)]
    assert rows(soup, f"{left} WHERE coalesce(s.n, 9) > 3") == [(1, 1), (2, 1), (3, 2), (4, None), (5, None), (6, None)]
    assert rows(soup, f"{left} WHERE s.n > 3") == [(1, 1), (2, 1)]


@pytest.mark.seeded("a partner outside its window prevents an absence")
def test_a_partner_outside_its_window_does_not_prevent_an_absence() -> None:
    soup = streams(r=R, s=S)
    absent = "SELECT r.id AS a FROM r WHERE NOT EXISTS (SELECT 1 FROM s [RANGE 998 SECONDS] WHERE s.k = r.k)"
    assert rows(soup, absent) == [(1,), (2,), (4,), (5,), (6,)]
    assert rows(soup, absent.replace(" [RANGE 998 SECONDS]", "")) == [(4,), (5,), (6,)]
    outer = "SELECT r.id AS a, s.id AS b FROM r LEFT JOIN s [RANGE 998 SECONDS] ON s.k = r.k"
    assert rows(soup, outer) == [(1, None), (2, None), (3, 2), (3, 3), (4, None), (5, None), (6, None)]


@pytest.mark.seeded("NOT IN ignores NULL")
def test_not_in_has_no_row_where_the_set_has_a_null(soup: LocalPSoup) -> None:
    member = "SELECT r.id AS a FROM r WHERE r.k NOT IN (SELECT s.k FROM s{})"
    assert rows(soup, member.format("")) == []
    assert rows(soup, member.format(" WHERE s.k IS NOT NULL")) == [(4,), (6,)]
    assert rows(soup, member.format(" WHERE s.n < r.n")) == [(1,), (4,), (6,)]


@pytest.mark.seeded("NOT IN over an empty set has no row where x is NULL")
def test_not_in_over_an_empty_set_has_all_rows(soup: LocalPSoup) -> None:
    everything = [(row[0],) for row in R]
    assert rows(soup, "SELECT r.id AS a FROM r WHERE r.k NOT IN (SELECT none.k FROM none)") == everything
    assert rows(soup, "SELECT r.id AS a FROM r WHERE r.k NOT IN (SELECT s.k FROM s WHERE s.n > 100)") == everything
    assert rows(soup, "SELECT r.id AS a FROM r WHERE r.k IN (SELECT none.k FROM none)") == []
    correlated = "SELECT r.id AS a FROM r WHERE r.k NOT IN (SELECT s.k FROM s WHERE s.id = r.id)"
    assert rows(soup, correlated) == [(2,), (5,), (6,)]


@pytest.mark.seeded("EXCEPT ALL drops duplicates")
def test_all_of_a_set_operation_counts_equal_rows() -> None:
    soup = streams(r=[*R, (7, 2, 0), (8, 2, 0), (9, None, 0)], s=S)
    both = "SELECT k FROM r {} SELECT k FROM s"
    assert rows(soup, both.format("EXCEPT ALL")) == [(1,), (2,), (3,), (None,), (9,)]
    assert rows(soup, both.format("EXCEPT")) == [(3,), (9,)]
    assert rows(soup, both.format("INTERSECT ALL")) == [(1,), (2,), (None,), (2,)]
    assert rows(soup, both.format("INTERSECT")) == [(1,), (2,), (None,)]


STATEMENTS = (
    BOTH.format("LEFT", "r.k = s.k"),
    "SELECT id FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k)",
    "SELECT id FROM r WHERE k NOT IN (SELECT k FROM s WHERE EXISTS (SELECT 1 FROM none WHERE none.k = s.k))",
    "SELECT id FROM r WHERE n > (SELECT avg(n) FROM s)",
    "SELECT k FROM r UNION SELECT k FROM s EXCEPT SELECT k FROM none",
    "WITH t AS (SELECT k, count(*) AS c FROM s GROUP BY k) SELECT x.c, y.c AS d FROM t x LEFT JOIN t y ON x.k = y.k",
)


@pytest.mark.seeded("the hidden side of a subselect or of a set operation is left behind")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_side_is_left_behind(statement: str, soup: LocalPSoup) -> None:
    query = soup.register(statement)
    with pytest.raises(Exception, match="is used by 1 query"):
        soup.execute("DROP STREAM s")
    soup.unregister(query)
    for stream in ("r", "s", "none"):
        soup.execute(f"DROP STREAM {stream}")
    soup.engine.check()
    soup.admission.check()


@pytest.mark.seeded("missing rows are lost at the edge of a piece")
@pytest.mark.seeded("missing rows are sorted first")
@pytest.mark.parametrize("small", [False, True])
def test_missing_tuples_come_last_and_none_is_lost(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        small_pieces(monkeypatch)
    many: Tuples = [(number, number % 7 if number % 3 else None, number) for number in range(300)]
    few: Tuples = [(number, number, number) for number in range(10)]
    soup = streams(r=many, s=few)
    partners: dict[int | None, int | None] = {key: key for _, key, _ in few}
    expected = [(id_, partners.get(key)) for id_, key, _ in many]
    assert rows(soup, BOTH.format("LEFT", "r.k = s.k")) == expected
    other = BOTH.replace("FROM r {} JOIN s", "FROM s {} JOIN r").format("RIGHT", "r.k = s.k")
    paired = sorted([(a, b) for a, b in expected if b is not None], key=lambda pair: (pair[1], pair[0]))
    alone = [(a, None) for a, b in expected if b is None]
    assert rows(soup, other) == [*paired, *alone]
    full = rows(soup, BOTH.format("FULL", "r.k = s.k"))
    assert full == [*expected, *[(None, key) for key in range(7, 10)]]


@pytest.mark.seeded("a condition in WHERE of a FULL join is in a side")
def test_a_condition_in_where_of_a_full_join_is_in_no_side(soup: LocalPSoup) -> None:
    full = BOTH.format("FULL", "r.k = s.k")
    assert rows(soup, f"{full} WHERE coalesce(r.n, 0) = 0") == [(1, 1), (None, 4)]
    assert rows(soup, f"{full} WHERE s.n IS NULL OR s.n > 5") == [(3, 2), (4, None), (5, None), (6, None), (None, 4)]
    assert rows(soup, f"{full} WHERE r.n > 2") == [(2, 1), (3, 2), (3, 3), (4, None), (5, None)]


@pytest.mark.seeded("a scalar subselect is evaluated at another NOW")
def test_a_scalar_subselect_is_evaluated_at_the_statements_now() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, ahead=10**12), VirtualClock(0))
    for name, ids in (("r", (1, 2, 3)), ("s", (1, 2, 3, 4, 50))):
        soup.execute(f"CREATE STREAM {name} (at TIMESTAMP NOT NULL, id BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY at")
        push(soup, name, [(number, 0, 10 * number) for number in ids])
    later = "SELECT r.id AS a FROM r WHERE r.n >= (SELECT max(s.n) FROM s [RANGE 1 SECOND])"
    assert rows(soup, later) == [(3,)]
    assert rows(soup, later, as_of=2 * SECOND) == [(2,)]
    assert rows(soup, "SELECT r.id AS a FROM r WHERE r.n < (SELECT count(*) * 10 FROM s)") == [(1,), (2,)]
