"""The worth of an absence: what answers, checks and explanations say about sources that may take rows away."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.check import CheckedStatement, check
from psoup.config import EngineConfig
from psoup.errors import OutOfRange
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock

ABSENCE = "SELECT r.k FROM r{} WHERE NOT EXISTS (SELECT 1 FROM s{} WHERE s.k = r.k)"


def timed(options: str = "", **streams: list[tuple[int, int]]) -> LocalPSoup:
    """Streams in event time, with tuples of (second, k); the clock is at 1,000 seconds."""
    made = LocalPSoup(EngineConfig(chunk_rows=64, ahead=10**12), VirtualClock(1_000 * SECOND), verify="all")
    for name, tuples in streams.items():
        made.execute(f"CREATE STREAM {name} (at TIMESTAMP NOT NULL, k BIGINT) TIMESTAMP BY at {options}")
        push(made, name, *tuples)
    return made


def push(soup: LocalPSoup, name: str, *tuples: tuple[int, int]) -> None:
    at = pa.array([time * SECOND for time, _ in tuples], pa.timestamp("us"))
    soup.push(name, pa.table({"at": at, "k": pa.array([k for _, k in tuples], pa.int64())}), refused="count")


def parts(soup: LocalPSoup, sql: str, **options: Any) -> list[Any]:
    return list(soup.ask(sql, **options).completeness.sources)


def checked(soup: LocalPSoup, sql: str) -> CheckedStatement:
    return check(soup.engine.snapshot(), sql, tenant=soup.tenant, now=soup.clock.now())


@pytest.mark.parametrize(
    ("sql", "taking"),
    [
        ("SELECT r.k FROM r JOIN s USING (k)", [False, False]),
        ("SELECT r.k FROM r LEFT JOIN s USING (k)", [False, True]),
        ("SELECT r.k FROM r LEFT JOIN s USING (k) WHERE s.at > r.at", [False, False]),
        ("SELECT k FROM r EXCEPT SELECT k FROM s", [False, True]),
        ("SELECT k FROM r WHERE k NOT IN (SELECT k FROM s)", [False, True]),
        (ABSENCE.format("", ""), [False, True]),
    ],
)
def test_a_source_that_may_take_rows_away_is_marked(sql: str, taking: list[bool]) -> None:
    soup = timed(r=[(1, 1), (9, 2)], s=[(1, 1), (9, 3)])
    query = soup.register(sql)
    marks = [part.may_take_away for part in soup.invoke(query).completeness.sources]
    assert marks == taking == [part.may_take_away for part in parts(soup, sql)]
    sources = soup.explain(query).sources
    assert [source.may_take_away for source in sources] == taking
    nodes = [node for node in checked(soup, sql).nodes if node.operator == "source"]
    assert [node.facts["may_take_away"] for node in nodes] == ["yes" if each else "no" for each in taking]
    table = soup.invoke_table([query])
    list(table.batches())
    assert [part.may_take_away for part in table.groups[0].completeness.sources] == taking


def test_queries_of_one_window_have_marks_of_their_own() -> None:
    """Two statements over the same streams and windows share no completeness if their absences differ."""
    soup = timed(r=[(1, 1), (9, 2)], s=[(1, 1), (9, 3)])
    queries = [soup.register(f"SELECT r.k FROM r {kind} JOIN s USING (k)") for kind in ("SEMI", "ANTI")]
    table = soup.invoke_table(queries)
    list(table.batches())
    marks = [[part.may_take_away for part in group.completeness.sources] for group in table.groups]
    assert sorted(marks) == [[False, False], [False, True]]


def test_a_late_tuple_of_such_a_source_is_told() -> None:
    soup = timed(r=[(1, 1), (9, 2)], s=[(9, 3)])
    push(soup, "s", (1, 1))
    window = "BEGIN TIMESTAMP '1970-01-01 00:00:00' END TIMESTAMP '1970-01-01 00:00:05'"
    answer = soup.ask(f"{ABSENCE.format('', '')} {window}")
    assert answer.to_table().to_pylist() == [{"k": 1}], "its partner came too late"
    part = answer.completeness.sources[1]
    assert (part.may_take_away, part.late_inside, part.final) == (True, 1, True)


def test_an_idle_source_that_may_take_rows_away_is_not_final() -> None:
    soup = timed("IDLE AFTER 1 MINUTE", r=[(1, 1), (9, 2)], s=[(1, 3)])
    soup.clock.set(1_100 * SECOND)  # type: ignore[attr-defined]
    push(soup, "r", (20, 4))
    _, part = parts(soup, ABSENCE.format("", ""))
    assert (part.may_take_away, part.idle, part.final) == (True, True, False)


def test_a_window_beyond_what_is_kept_is_refused_or_told() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100))
    soup.execute("CREATE STREAM r (k BIGINT)")
    soup.execute("CREATE STREAM s (k BIGINT) RETENTION 100 ROWS")
    soup.push("r", pa.table({"k": range(50)}))
    soup.push("s", pa.table({"k": range(90)}))
    assert not any(part.older_dropped for part in parts(soup, ABSENCE.format("", "")))
    soup.push("s", pa.table({"k": range(200, 300)}))
    wide = {"s": "BEGIN (NOW - 200 ROWS)"}
    with pytest.raises(OutOfRange, match="stream 's'"):
        soup.ask(ABSENCE.format("", ""), window=wide)
    marks = parts(soup, ABSENCE.format("", ""), window=wide, accept_truncation=True)
    assert [(part.truncated, part.older_dropped) for part in marks] == [(False, False), (True, False)]
    marks = parts(soup, ABSENCE.format("", ""))
    assert [(part.truncated, part.older_dropped) for part in marks] == [(False, False), (False, True)]
    inner = parts(soup, "SELECT r.k FROM r JOIN s USING (k)")
    assert not any(part.older_dropped for part in inner), "it matters to absences only"


FIXED = "BEGIN TIMESTAMP '1970-01-01 00:00:00' END TIMESTAMP '1970-01-01 00:00:05'"


@pytest.mark.parametrize(
    ("sql", "hinted"),
    [
        (f"{ABSENCE.format('', '')} {FIXED}", True),
        (f"{ABSENCE.format('', '')} BEGIN (NOW - 9 SECONDS) END (NOW - 5 SECONDS)", True),
        (f"SELECT k FROM r EXCEPT SELECT k FROM s {FIXED}", True),
        (ABSENCE.format("", ""), False),
        (ABSENCE.format(f" [{FIXED}]", " [RANGE 1 HOUR]"), False),
        (f"SELECT r.k FROM r JOIN s USING (k) {FIXED}", False),
    ],
)
def test_a_check_hints_at_brackets(sql: str, hinted: bool) -> None:
    notes = checked(timed(r=[(1, 1)], s=[(1, 1)]), sql).notes
    assert len(notes) == hinted
    if hinted:
        assert "tuples of s after END" in notes[0] and "in brackets: s [BEGIN" in notes[0] and "END (NOW)]" in notes[0]


def test_an_outer_join_that_where_makes_inner_is_noted() -> None:
    soup = timed(r=[(1, 1)], s=[(1, 1)])
    sql = "SELECT r.k FROM r LEFT JOIN s USING (k) WHERE s.at > r.at"
    (note,) = checked(soup, sql).notes
    assert note.startswith("the LEFT JOIN is answered as an inner join")
    explained = soup.explain(soup.register(sql))
    assert explained.notes == (note,) and f"  note     {note}" in explained.lines()
    assert explained.to_dict()["notes"] == (note,)
    many = soup.register_many(f"{sql} AND s.k > $1", pa.table({"1": [0, 1]}))
    assert [soup.explain(query).notes for query in many] == [(note,)] * 2


@pytest.mark.parametrize(
    ("rest", "operator", "line"),
    [
        ("r LEFT JOIN s USING (k)", "left join", "3 rows: 1 with a partner, 2 without"),
        ("r FULL JOIN s USING (k)", "full join", "4 rows: 1 with a partner, 3 without"),
        ("r SEMI JOIN s USING (k)", "semi join", "1 row"),
        ("r ANTI JOIN s USING (k)", "anti join", "2 rows"),
        ("r WHERE r.k NOT IN (SELECT k FROM s)", "not in", "2 rows"),
        ("r ASOF LEFT JOIN s ON r.k >= s.k", "asof left join", "3 rows: 3 with a partner, 0 without"),
        ("r JOIN (VALUES (1), (2)) v(n) ON r.k = v.n", "join", "2 rows"),
    ],
)
def test_explain_counts_the_rows_of_a_join(rest: str, operator: str, line: str) -> None:
    soup = timed(r=[(1, 1), (2, 2), (9, 5)], s=[(1, 1), (9, 7)])
    query = soup.register(f"SELECT r.k FROM {rest}")
    node = next(node for node in soup.explain(query).nodes if node.operator == operator)
    assert line in node.lines
    assert node.figures["rows"] == int(line.split(" ")[0])


def test_all_statements_are_explained() -> None:
    """Also if a window is empty, or a statement has one source only."""
    for tuples in ([], [(1, 1), (9, 2)]):
        soup = timed(r=tuples, s=tuples)
        for sql in (
            "SELECT k FROM r UNION SELECT k FROM s",
            "SELECT count(*) AS n FROM (SELECT DISTINCT k FROM r) t",
            "WITH t AS (SELECT k, count(*) AS n FROM r GROUP BY k) SELECT t.n, s.k FROM t FULL JOIN s USING (k)",
            "SELECT s.k, count(*) AS n FROM r LEFT JOIN s USING (k) GROUP BY s.k ORDER BY n LIMIT 1",
            "SELECT r.k FROM r, s x, s y WHERE r.k = x.k AND x.k = y.k AND r.k > (SELECT avg(k) FROM s)",
            "SELECT r.k FROM r WHERE k IN (SELECT k FROM s) AND NOT EXISTS (SELECT 1 FROM s z WHERE z.at > r.at)",
            "SELECT r.k FROM r JOIN (VALUES (1, 'a')) v(k, name) USING (k) WHERE v.name = 'a'",
        ):
            explained = soup.explain(soup.register(sql))
            assert explained.nodes[0].pattern and explained.lines()
            assert {"sources", "plan"} <= explained.to_dict().keys() or len(explained.sources) == 1


def test_explain_stops_counting_after_a_million_rows() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=4_096), VirtualClock(100))
    for name in "rs":
        soup.execute(f"CREATE STREAM {name} (k BIGINT)")
        soup.push(name, pa.table({"k": [1] * 2_000}))
    node = soup.explain(soup.register("SELECT r.k FROM r LEFT JOIN s USING (k)")).nodes[1]
    assert node.figures.keys() == {"rows", "whole"} and not node.figures["whole"]
    assert node.lines[-1].startswith(("at least ", "more rows than EXPLAIN counts"))
