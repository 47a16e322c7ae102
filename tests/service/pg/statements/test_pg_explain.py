"""EXPLAIN of a client of PostgreSQL: plans as texts and as JSON, and options that are refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg.errors
import pytest

from psoup_client import Client
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def session(running: Serving) -> Iterator[Any]:
    """A cursor of psycopg at a service with a stream and a query."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM trades (sym TEXT, n INT)")
        client.push("trades", [{"sym": "AB"[n % 2], "n": n} for n in range(6)])
        client.register(
            "SELECT sym, count(*) AS c FROM trades GROUP BY sym BEGIN (NOW - 1 HOUR)", key="counts"
        ).invoke()
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    with psycopg.connect(f"host={host} port={port} user=anybody dbname=any", autocommit=True) as connection:
        yield connection.cursor()


def plan(session: Any, sql: str, *arguments: object) -> list[Any]:
    """The rows of a plan."""
    session.execute(sql, arguments or None)
    assert session.statusmessage == "EXPLAIN"
    assert [column.name for column in session.description] == ["QUERY PLAN"]
    return [row[0] for row in session]


def test_the_plan_of_a_select_is_a_tree_of_its_nodes(session: Any) -> None:
    lines = plan(
        session, "EXPLAIN SELECT a.sym FROM trades a, streams.trades b WHERE a.n = b.n AND a.n > %s LIMIT 2", 1
    )
    assert lines[0].startswith("Limit 2  (strict")
    assert lines[1] == "  state: at most 2 rows"
    assert lines[2].startswith("  ->  Project a.sym")
    assert lines[3].startswith("        ->  Join a.n = b.n")
    assert lines[4].startswith("              ->  Source trades AS a")
    assert lines[5] == "                    tuples_in_window: 6"
    assert len([line for line in lines if "Source" in line]) == 2


def test_the_plan_of_a_view_says_how_its_query_is_kept(session: Any) -> None:
    for sql in ("EXPLAIN SELECT * FROM queries.counts", "explain verbose select * from counts"):
        lines = plan(session, sql)
        assert lines[0].startswith("query q-")
        assert any(line.startswith("  results") for line in lines)


def test_analyze_runs_the_select_and_counts_its_rows(session: Any) -> None:
    lines = plan(session, "EXPLAIN ANALYZE SELECT n FROM trades WHERE n > %s", 1)
    assert lines[-2] == "Rows: 4"
    assert lines[-1].startswith("Execution Time: ")


def test_a_plan_as_json_nests_its_nodes(session: Any) -> None:
    options = "FORMAT JSON, ANALYZE OFF, VERBOSE, COSTS ON, TIMING OFF, BUFFERS OFF, SUMMARY OFF, SETTINGS OFF, WAL OFF"
    ((whole,),) = plan(session, f"EXPLAIN ({options}) SELECT n FROM trades WHERE n > 1")
    project = whole["Plan"]
    assert (project["Node Type"], project["Text"], project["Update"]) == ("project", "Project n", "monotonic")
    (source,) = project["Plans"]
    assert (source["Node Type"], source["stream"], source["tuples_in_window"]) == ("source", "trades", 6)
    assert "State" not in project and "State" not in source
    ((whole,),) = plan(session, "EXPLAIN (FORMAT JSON) SELECT DISTINCT n FROM trades")
    assert whole["Plan"]["State"] == "unbounded, as tuples of 'trades' never leave it"
    ((whole,),) = plan(session, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM queries.counts")
    assert whole["Rows"] == 2
    assert whole["Execution Time"] > 0
    assert whole["Query"]["window_kind"] == "sliding"


def test_a_plan_tells_that_it_leaves_out_the_sessions_window(session: Any) -> None:
    session.execute("SET psoup.window = 'BEGIN (NOW - 1 DAY)'")
    assert plan(session, "EXPLAIN SELECT n FROM trades")[-1].startswith(
        "Note: psoup.as_of and psoup.window are left out"
    )
    session.execute("RESET psoup.window")


@pytest.mark.parametrize(
    ("sql", "state", "message"),
    [
        ("EXPLAIN (FORMAT XML) SELECT n FROM trades", "0A000", "FORMAT XML is not supported"),
        ("EXPLAIN (ANALYZE, BUFFERS) SELECT n FROM trades", "0A000", r"EXPLAIN \(BUFFERS\) is not supported"),
        ("EXPLAIN (NOPE) SELECT n FROM trades", "0A000", r"EXPLAIN \(NOPE\) is not supported"),
        ("EXPLAIN (ANALYZE maybe) SELECT n FROM trades", "42601", "ANALYZE is on or off, and not 'MAYBE'"),
        ("EXPLAIN INSERT INTO trades VALUES ('A', 1)", "0A000", "EXPLAIN INSERT is not supported"),
        ("EXPLAIN SELECT 1", "0A000", "EXPLAIN of a SELECT over the catalogue is not supported"),
        ("EXPLAIN", "42601", "the end of the statement is not expected here"),
        ("EXPLAIN SELECT * FROM queries.gone", "42P01", 'relation "queries.gone" does not exist'),
    ],
)
def test_an_explain_that_does_not_apply_is_refused_by_name(session: Any, sql: str, state: str, message: str) -> None:
    with pytest.raises(psycopg.Error, match=message) as refused:
        session.execute(sql)
    assert refused.value.sqlstate == state


def test_faults_of_the_select_have_their_places_in_the_whole_statement(session: Any) -> None:
    with pytest.raises(psycopg.errors.UndefinedColumn) as refused:
        session.execute("EXPLAIN (FORMAT JSON)\nSELECT nope FROM trades")
    assert refused.value.diag.statement_position == "30"
