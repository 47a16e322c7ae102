"""Binding of hop(t, slide, size): its node in the plan, its texts, and what is refused."""

from __future__ import annotations

import pytest

from psoup.errors import NotSupported
from psoup.expressions.supplied_functions import calls_supplied, declared
from psoup.plan.hop import Hop
from psoup.plan.nodes import Aggregate, Having, Limit, Project, Sort, plan_text, walk
from psoup.plan.patterns import Pattern
from psoup.plan.updates import updates_of
from psoup_testing.histories.trades import bind, refusal

HOP = "hop(at, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)"


def node(text: str) -> Hop:
    (hop,) = [node for _, node in walk(bind(text).plan) if isinstance(node, Hop)]
    return hop


def test_a_hop_is_a_node_over_an_aggregate_by_pane() -> None:
    sql = f"SELECT {HOP} AS w, sym, count(*) AS n FROM trades GROUP BY 1, sym"
    plan = bind(f"{sql} HAVING n > 3 ORDER BY w LIMIT 2").plan
    assert [type(each) for _, each in walk(plan)][:-1] == [Limit, Sort, Project, Having, Hop, Aggregate]
    hop = node(sql)
    assert hop.label == "Hop BY hop(at, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES), sym"
    assert hop.aggregate.label == "Aggregate count(*) BY time_bucket(INTERVAL 1 MINUTE, at), sym"
    assert [column.name for column in hop.columns] == [HOP, "sym", "count(*)"]


@pytest.mark.parametrize(
    ("slide", "size", "pane", "panes", "buckets"),
    [
        ("5 MINUTES", "1 HOUR", 300_000_000, 12, 12),
        ("7 MINUTES", "1 HOUR", 60_000_000, 60, 9),
        ("4 MINUTES", "6 MINUTES", 120_000_000, 3, 2),
        ("1 SECOND", "1000 SECONDS", 1_000_000, 1_000, 1_000),
        ("1 DAY", "1 WEEK", 86_400_000_000, 7, 7),
    ],
)
def test_panes_are_as_long_as_the_greatest_common_divisor(
    slide: str, size: str, pane: int, panes: int, buckets: int
) -> None:
    hop = node(f"SELECT count(*) FROM trades GROUP BY hop(at, INTERVAL {slide}, INTERVAL {size})")
    assert (hop.pane, hop.panes, hop.buckets) == (pane, panes, buckets)


def test_tumble_is_the_case_in_which_slide_and_size_are_equal() -> None:
    hop = bind("SELECT hop(at, INTERVAL 5 MINUTES, INTERVAL 300 SECONDS) AS w, count(*) FROM trades GROUP BY w")
    tumble = bind("SELECT tumble(at, INTERVAL 5 MINUTES) AS w, count(*) FROM trades GROUP BY w")
    assert plan_text(hop.plan) == plan_text(tumble.plan)


def test_equal_hops_have_one_text_and_different_ones_have_not() -> None:
    def text(key: str, more: str = "") -> str:
        return plan_text(bind(f"SELECT {key} AS w, count(*) AS n FROM trades GROUP BY w{more}").plan)

    assert text(HOP) == text("HOP(at, INTERVAL '60' SECOND, INTERVAL '300' SECOND)")
    two, four = (f"hop(at, INTERVAL {slide} MINUTES, INTERVAL 6 MINUTES)" for slide in (2, 4))
    assert text(two) != text(four)
    select = f"SELECT {HOP} AS w, tumble(at, INTERVAL 1 MINUTE) AS m FROM trades GROUP BY"
    both, turned = f"{select} w, m", f"{select} m, w"
    assert plan_text(bind(both).plan) != plan_text(bind(turned).plan)


def test_a_date_is_taken_as_its_midnight() -> None:
    hop = node("SELECT hop(day, INTERVAL 12 HOURS, INTERVAL 36 HOURS) AS w, count(*) FROM trades GROUP BY w")
    assert hop.label == "Hop BY hop(CAST(day AS TIMESTAMP), INTERVAL 12 HOURS, INTERVAL 36 HOURS)"


def test_clauses_above_the_groups_read_the_key() -> None:
    sql = (
        f"SELECT {HOP} + INTERVAL 5 MINUTES AS till, sum(qty) AS q, rank() OVER (PARTITION BY sym ORDER BY {HOP}) AS r"
        f" FROM trades GROUP BY {HOP}, sym HAVING {HOP} >= TIMESTAMP '2020-01-01' QUALIFY r < 3 ORDER BY {HOP} DESC"
    )
    assert "Hop BY" in plan_text(bind(sql).plan)
    assert plan_text(bind(f"SELECT {HOP} AS w, count(*) AS n FROM trades GROUP BY ALL").plan) == plan_text(
        bind(f"SELECT {HOP} AS w, count(*) AS n FROM trades GROUP BY w").plan
    )


def test_the_rows_of_a_hop_are_changed_by_tuples_that_come() -> None:
    updates = updates_of(bind(f"SELECT {HOP} AS w, count(*) FROM trades GROUP BY w").plan)
    assert (updates.pattern, updates.clock_texts) == (Pattern.WEAK, ("rows of trades",))


GROUPED = "SELECT hop(t, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) AS w, count(*) … GROUP BY w"
FORM = "hop(t, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)"


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("hop(at, INTERVAL 0 MINUTES, INTERVAL 5 MINUTES)", "the slide of hop must be longer than nothing", FORM),
        ("hop(at, INTERVAL -1 MINUTE, INTERVAL 5 MINUTES)", "the slide of hop must be longer than nothing", FORM),
        ("hop(at, INTERVAL 1 MINUTE, INTERVAL 0 MINUTES)", "the size of hop must be longer than nothing", FORM),
        (
            "hop(at, INTERVAL 5 MINUTES, INTERVAL 1 MINUTE)",
            "the size of hop must be at least its slide",
            "the slide comes first, then the size: hop(t, slide, size)",
        ),
        (
            "hop(at, INTERVAL 1 MICROSECOND, INTERVAL 1000 SECONDS)",
            "this hop has buckets of 1,000,000,000 panes, and a bucket may have 1,000: a pane is as long as the"
            " greatest common divisor of slide and size",
            "take a longer slide that divides the size, or a shorter size",
        ),
        (
            "hop(at, INTERVAL 1 SECOND, INTERVAL 1001 SECONDS)",
            "this hop has buckets of 1,001 panes, and a bucket may have 1,000: a pane is as long as the greatest common"
            " divisor of slide and size",
            "take a longer slide that divides the size, or a shorter size",
        ),
        (
            "hop(at, INTERVAL 1 MONTH, INTERVAL 3 MONTHS)",
            "a slide of hop in months, which differ in length, is not supported",
            "write days or weeks; GROUP BY tumble(t, INTERVAL '1' MONTH) has buckets of a month, side by side",
        ),
        (
            "hop(at, INTERVAL 1 DAY, INTERVAL 1 MONTH)",
            "a size of hop in months, which differ in length, is not supported",
            "write days or weeks; GROUP BY tumble(t, INTERVAL '1' MONTH) has buckets of a month, side by side",
        ),
        ("hop(at, qty, INTERVAL 1 MINUTE)", "hop takes a time and two INTERVALs, the slide and the size", FORM),
        ("hop(at, INTERVAL 1 MINUTE)", "hop takes a time and two INTERVALs, the slide and the size", FORM),
        ("hop()", "hop takes a time and two INTERVALs, the slide and the size", FORM),
        (
            "hop(TIMESTAMP '2020-01-01', INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)",
            "hop needs a time of the rows, not a constant",
            f"{FORM}, of a column t",
        ),
        (
            "hop(NULL, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)",
            "hop needs a time of the rows, not a constant",
            f"{FORM}, of a column t",
        ),
        (
            "hop(sym, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)",
            "hop needs a TIMESTAMP or DATE, not TEXT; use CAST(... AS TIMESTAMP)",
            FORM,
        ),
        (
            f"{HOP}, hop(at, INTERVAL 1 MINUTE, INTERVAL 6 MINUTES)",
            "more than one hop in GROUP BY is not supported",
            "register a query for each, or take tumble(t, …) for one of them",
        ),
        (
            f"date_trunc('day', {HOP})",
            "an expression of hop in GROUP BY is not supported",
            f"the key is the hop alone: {GROUPED}; the SELECT list may have expressions of it",
        ),
    ],
)
def test_a_key_is_refused(key: str, message: str, hint: str) -> None:
    text = f"SELECT count(*) FROM trades GROUP BY {key}"
    problem = refusal(text)
    assert (problem.problem, problem.hint) == (message, hint)
    assert text[problem.column - 1 :].startswith(("hop(", "at", "'2020", "NULL", "sym", "date_trunc"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT {HOP} FROM trades", "hop is a key of GROUP BY, and this SELECT has no GROUP BY"),
        (f"SELECT sym FROM trades ORDER BY {HOP}", "hop is a key of GROUP BY, and this SELECT has no GROUP BY"),
        (
            f"SELECT w FROM (SELECT {HOP} AS w FROM trades) t GROUP BY w",
            "hop is a key of GROUP BY, and this SELECT has no GROUP BY",
        ),
        (f"SELECT count(*) FROM trades WHERE {HOP} > at GROUP BY sym", "hop in WHERE or ON is not supported"),
        (f"SELECT sym, max({HOP}) FROM trades GROUP BY sym", "hop in an aggregate is not supported"),
        (
            f"SELECT sym, count(*) FILTER (WHERE {HOP} > at) FROM trades GROUP BY sym",
            "hop in FILTER is not supported",
        ),
        (f"SELECT sym, {HOP} FROM trades GROUP BY sym", "this hop is not a key of GROUP BY"),
        (
            f"SELECT {HOP} FROM trades GROUP BY hop(at, INTERVAL 1 MINUTE, INTERVAL 6 MINUTES)",
            "this hop is not a key of GROUP BY",
        ),
        (f"SELECT sym FROM trades GROUP BY sym HAVING {HOP} IS NULL", "this hop is not a key of GROUP BY"),
        (f"SELECT 1 FROM trades GROUP BY ALL ORDER BY {HOP}", "this hop is not a key of GROUP BY"),
        ("SELECT count(*) FROM trades GROUP BY HOP(at, 60, 300)", "hop takes a time and two INTERVALs"),
    ],
)
def test_a_hop_in_another_place_is_refused(text: str, message: str) -> None:
    problem = refusal(text)
    assert problem.problem.startswith(message)
    assert problem.hint
    assert text[problem.column - 1 :].lower().startswith("hop(")


def test_a_hop_of_an_aggregate_or_of_now_is_refused() -> None:
    for time in ("max(at)", "now()"):
        problem = refusal(f"SELECT count(*) FROM trades GROUP BY hop({time}, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)")
        assert isinstance(problem, NotSupported)
        assert "GROUP BY" in problem.problem


def test_a_function_of_that_name_that_the_operator_supplied_keeps_its_meaning() -> None:
    with declared(["hop@1[BIGINT: BIGINT]"]):
        query = bind("SELECT hop(qty) AS h FROM trades")
        assert any(calls_supplied(output.expr) for output in query.select)
        grouped = bind("SELECT hop(qty) AS h, count(*) FROM trades GROUP BY h")
    assert not any(isinstance(each, Hop) for _, each in walk(grouped.plan))
