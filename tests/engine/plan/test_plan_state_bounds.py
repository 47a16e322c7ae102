"""Bounds of the state of each node of a plan: row windows, times, tables, and the reasons why there is no bound."""

from __future__ import annotations

import pytest

from psoup.answer.plan_nodes import NOTHING, PlanNode, plan_lines, plan_nodes
from psoup.model import StreamSpec
from psoup.plan.nodes import walk
from psoup.plan.patterns import NO_STATE, Amount, StateBound, StateRows
from psoup.plan.state_bounds import leaving_bound, plan_bounds, rows_bound, widths_of
from psoup.sql import create_stream, standing_query

HOUR = 3_600_000_000
STREAMS = {
    spec.name: spec
    for spec in map(
        create_stream,
        (
            "CREATE STREAM d (k BIGINT, t TIMESTAMP) TIMESTAMP BY t",
            "CREATE STREAM v (k BIGINT, t TIMESTAMP) TIMESTAMP BY t",
            "CREATE STREAM s (k BIGINT, b BOOLEAN)",
            "CREATE STREAM w (k BIGINT, name TEXT)",
            "CREATE STREAM day (k BIGINT) RETENTION 1 DAY",
            "CREATE STREAM few (k BIGINT) RETENTION 100 ROWS",
            "CREATE TABLE t (k BIGINT, PRIMARY KEY (k)) HISTORY 2 DAYS",
        ),
    )
}


def lookup(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def nodes_of(text: str) -> tuple[PlanNode, ...]:
    return plan_nodes(standing_query(text, lookup).plan, lambda _: NOTHING)


def states(text: str) -> dict[str, str]:
    """The bounds of the nodes that need a state, by the operator."""
    return {node.operator: node.state.text for node in nodes_of(text) if node.state != NO_STATE}


ABSENCE = "SELECT d.k FROM d WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.k = d.k AND {})"
BAND = "v.t BETWEEN d.t AND d.t + INTERVAL 8 HOURS"
D1, V2 = "the tuples of d of 1 HOUR", "the tuples of v of 2 HOURS"
JOINED = "SELECT d.k FROM d [RANGE 1 HOUR] {} v [RANGE 2 HOURS] ON {}"
MEMBER = "SELECT d.k FROM d [RANGE 1 HOUR] WHERE d.k NOT IN (SELECT v.k FROM v [RANGE 2 HOURS])"
WINDOWS = {"source": V2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT k FROM s", {}),
        ("SELECT k FROM s BEGIN (TIMESTAMP '2026-01-01')", {}),
        ("SELECT k FROM s BEGIN (TIMESTAMP '2026-01-01') END (TIMESTAMP '2026-01-02')", {}),
        ("SELECT k FROM s [ROWS 10]", {"source": "at most 10 rows, 110 bytes"}),
        ("SELECT k FROM w [ROWS 10]", {"source": "at most 10 rows"}),
        ("SELECT k FROM few", {"source": "at most 100 rows, 900 bytes"}),
        ("SELECT k FROM few [ROWS 10]", {"source": "at most 10 rows, 90 bytes"}),
        ("SELECT k FROM day", {"source": "the tuples of day of 1 DAY"}),
        ("SELECT k FROM day [RANGE 1 HOUR] WHERE k > 1", {"source": "the tuples of day of 1 HOUR"}),
        ("SELECT k FROM t", {"source": "a row for each key of t"}),
        ("SELECT d.k FROM d JOIN t AS OF d ON t.k = d.k", {"source": "the versions of t within HISTORY 2 DAYS"}),
        ("SELECT k FROM s [ROWS 4 WHERE b]", {"lastrows": "at most 4 rows, 44 bytes"}),
        (
            "SELECT k FROM s [PARTITION BY k ROWS 4]",
            {"lastrows": "unbounded, as each new k of 's' adds rows that never leave"},
        ),
        (JOINED.format("JOIN", "d.k = v.k"), WINDOWS),
        (JOINED.format("LEFT JOIN", "d.k = v.k"), {**WINDOWS, "left join": f"{D1} and {V2} and {D1} × {V2}"}),
        (JOINED.format("LEFT JOIN", "d.k < v.k"), {**WINDOWS, "left join": f"{D1} and 2 × {D1} × {V2}"}),
        (JOINED.format("ASOF JOIN", "d.k = v.k AND d.t >= v.t"), {**WINDOWS, "asof join": f"{D1} and {V2}"}),
        (
            ABSENCE.format(BAND),
            {"anti join": "the tuples of d of 8 HOURS and the tuples of v of 8 HOURS"},
        ),
        (MEMBER, {**WINDOWS, "not in": f"{D1} and 2 × {V2}"}),
        (ABSENCE.format("TRUE"), {"anti join": "unbounded, as tuples of 'd' never leave it"}),
        ("SELECT DISTINCT k FROM s", {"distinct": "unbounded, as tuples of 's' never leave it"}),
        (
            "SELECT DISTINCT k FROM s [ROWS 3]",
            {"distinct": "at most 3 rows, 27 bytes", "source": "at most 3 rows, 33 bytes"},
        ),
        ("SELECT k FROM d EXCEPT SELECT k FROM v", {"except": "unbounded, as tuples of 'd' never leave it"}),
        ("SELECT k FROM d UNION ALL SELECT k FROM v", {}),
        ("SELECT k FROM d [RANGE 1 HOUR] UNION ALL SELECT k FROM v", {"source": D1, "union": D1}),
        ("SELECT k, count(*) FROM s GROUP BY k", {"aggregate": "unbounded, as tuples of 's' never leave it"}),
        (
            "SELECT k, sum(k) FROM s [ROWS 2] GROUP BY k",
            {"aggregate": "at most 2 rows, 36 bytes", "source": "at most 2 rows, 22 bytes"},
        ),
        ("SELECT k FROM s LIMIT 2", {}),
        ("SELECT k FROM s ORDER BY k LIMIT 2 OFFSET 1", {"limit": "at most 3 rows, 27 bytes"}),
        ("SELECT k FROM s ORDER BY k OFFSET 1", {"limit": "unbounded, as tuples of 's' never leave it"}),
        ("SELECT k FROM d [RANGE 1 HOUR] ORDER BY k LIMIT 2", {"limit": D1, "source": D1}),
        ("SELECT k, now() AS n FROM s", {"project": "unbounded, as tuples of 's' never leave it"}),
        (
            "SELECT k, row_number() OVER (ORDER BY k) AS r FROM s",
            {"over": "unbounded, as tuples of 's' never leave it"},
        ),
    ],
)
def test_each_kind_of_node_has_its_bound(text: str, expected: dict[str, str]) -> None:
    assert states(text) == expected


def test_the_bound_of_joined_rows_is_the_product_of_their_tuples() -> None:
    plan = standing_query("SELECT DISTINCT s.k FROM s [ROWS 3], few WHERE s.k = few.k", lookup).plan
    bound = plan_bounds(plan)[id(plan)]
    assert (bound.rows, bound.nbytes, bound.unbounded) == (300, 2_700, "")
    twice = StateBound((*bound.parts, StateRows((Amount("x", 7),), None)))
    assert (twice.rows, twice.nbytes, twice.text) == (307, None, "at most 307 rows")


def test_an_amount_without_a_bound_names_its_source() -> None:
    plan = standing_query("SELECT DISTINCT d.k FROM d [RANGE 1 HOUR], v WHERE d.k = v.k", lookup).plan
    amount = plan_bounds(plan)[id(plan)].limitless
    assert amount == Amount("the tuples of v", None, 1, "tuples of 'v' never leave it")
    assert plan_bounds(plan, (HOUR, HOUR))[id(plan)].limitless is None


def test_rows_that_never_leave_are_not_kept_by_a_reader_of_leaving_rows() -> None:
    for text, rows, leaving in (
        ("SELECT k FROM d", "unbounded, as tuples of 'd' never leave it", "no state"),
        ("SELECT k FROM d [RANGE 1 HOUR]", D1, D1),
        ("SELECT count(*) AS n FROM d", "at most 1 row, 9 bytes", "at most 1 row, 9 bytes"),
    ):
        plan = standing_query(text, lookup).plan
        assert (rows_bound(plan, widths_of(plan)).text, leaving_bound(plan, widths_of(plan)).text) == (rows, leaving)


def test_every_node_has_a_bound_and_lines_show_it() -> None:
    plan = standing_query(ABSENCE.format(BAND), lookup).plan
    assert plan_bounds(plan).keys() == {id(node) for _, node in walk(plan)}
    text = "\n".join(plan_lines(nodes_of(ABSENCE.format(BAND))))
    assert text.count("| state: ") == 1
    assert "| state: the tuples of d of 8 HOURS and the tuples of v of 8 HOURS" in text
