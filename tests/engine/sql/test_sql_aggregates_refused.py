"""Invalid uses of aggregates and groups: each is refused by its name, with a way out."""

from __future__ import annotations

import pytest

from psoup_testing.histories.trades import refusal

COUNTS = "the aggregates are count, count_if, sum, avg, min, max, first, last, any_value, arg_min, arg_max, stddev,"
COUNTS += (
    " variance, median, quantile_cont, quantile_disc, approx_count_distinct, approx_quantile, bool_and, bool_or,"
    " bit_and, bit_or, bit_xor and string_agg"
)
HAVING = "HAVING has the conditions on groups, as in GROUP BY name HAVING count(*) > 3"
UNGROUPED = "is neither grouped nor aggregated: a group may have many values of it"
SETS = "register a query for each set of keys"
BOUND = "bound the time with BEGIN (NOW - ...) END (NOW)"
AGAIN = "aggregate the answer once more where it arrives"
TOGETHER = "put them together: count(DISTINCT a || ',' || b); or SELECT DISTINCT a, b, or GROUP BY a, b"
OTHERWISE = "use CAST(... AS BIGINT) or another number type"


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("SELECT sym FROM trades WHERE sum(qty) > 3", "the aggregate sum in WHERE or ON is not supported", HAVING),
        (
            "SELECT t.sym FROM trades t JOIN quotes q ON t.sym = q.sym AND count(*) > 3",
            "the aggregate count in WHERE or ON is not supported",
            HAVING,
        ),
        (
            "SELECT max(sum(qty)) FROM trades",
            "the aggregate sum in an aggregate is not supported",
            "aggregate the answer once more where it arrives",
        ),
        (
            "SELECT sum(qty) FILTER (WHERE count(*) > 3) FROM trades",
            "the aggregate count in FILTER is not supported",
            "FILTER chooses tuples; HAVING chooses groups",
        ),
        (
            "SELECT count(*) FROM trades GROUP BY max(qty)",
            "the aggregate max in GROUP BY is not supported",
            "group by what each tuple has, and compare aggregates in HAVING",
        ),
        (
            "SELECT count(*) AS n FROM trades GROUP BY n",
            "an aggregate in GROUP BY is not supported",
            "group by what each tuple has, and compare aggregates in HAVING",
        ),
        (
            "SELECT count(*) FROM trades GROUP BY 1",
            "an aggregate in GROUP BY is not supported",
            "group by what each tuple has, and compare aggregates in HAVING",
        ),
        ("SELECT 1 AS one FROM trades GROUP BY 2", "the SELECT list has no column 2; its last is 1", ""),
        (
            "SELECT sym, count(*) FROM trades",
            f"'sym' {UNGROUPED}",
            "GROUP BY sym, or say which value: any_value(sym), first(sym), max(sym)",
        ),
        (
            "SELECT sum(qty) + Rate FROM trades GROUP BY sym",
            f"'rate' {UNGROUPED}",
            "GROUP BY rate, or say which value: any_value(rate), first(rate), max(rate)",
        ),
        (
            "SELECT * FROM quotes GROUP BY sym",
            f"'bid' {UNGROUPED}",
            "GROUP BY bid, or say which value: any_value(bid), first(bid), max(bid)",
        ),
        (
            "SELECT sym FROM trades HAVING qty > 3",
            f"'sym' {UNGROUPED}",
            "GROUP BY sym, or say which value: any_value(sym), first(sym), max(sym)",
        ),
        (
            "SELECT sym FROM trades GROUP BY sym ORDER BY qty",
            f"'qty' {UNGROUPED}",
            "GROUP BY qty, or say which value: any_value(qty), first(qty), max(qty)",
        ),
        ("SELECT count(*) FROM trades GROUP BY now()", "NOW in GROUP BY is not supported", BOUND),
        (
            "SELECT now() AS n FROM trades GROUP BY n",
            "NOW in GROUP BY is not supported",
            "groups must not depend on when they are asked for",
        ),
        ("SELECT max(now()) FROM trades", "NOW in an aggregate is not supported", BOUND),
        ("SELECT count(*) FILTER (WHERE at > now()) FROM trades", "NOW in FILTER is not supported", BOUND),
        ("SELECT sym FROM trades GROUP BY ROLLUP (sym)", "ROLLUP is not supported", SETS),
        ("SELECT sym FROM trades GROUP BY sym WITH ROLLUP", "ROLLUP is not supported", SETS),
        ("SELECT sym FROM trades GROUP BY CUBE (sym)", "CUBE is not supported", SETS),
        ("SELECT sym FROM trades GROUP BY GROUPING SETS ((sym), (qty))", "GROUPING SETS is not supported", SETS),
        (
            "SELECT upper(sym ORDER BY at) FROM trades",
            "ORDER BY in a function that is not an aggregate is not supported",
            "aggregates take ORDER BY: first(x ORDER BY y), string_agg(x, ',' ORDER BY y)",
        ),
        (
            "SELECT string_agg(DISTINCT sym, ',' ORDER BY qty) FROM trades",
            "with DISTINCT, ORDER BY in an aggregate takes its arguments only",
            "order by an argument, or leave DISTINCT out",
        ),
        ("SELECT string_agg(sym, sym) FROM trades", "the separator of string_agg must be a constant", ""),
        (
            "SELECT first(sym ORDER BY count(*)) FROM trades",
            "the aggregate count in an aggregate is not supported",
            AGAIN,
        ),
        ("SELECT bit_and(rate) FROM trades", "bit_and needs BIGINT, not DOUBLE; use CAST(... AS BIGINT)", ""),
        (
            "SELECT quantile_cont(0.5) WITHIN GROUP (ORDER BY qty) FROM trades",
            "WITHIN GROUP is not supported",
            "write quantile_cont(x, 0.5), or quantile_disc",
        ),
        (
            "SELECT percentile_cont(0.5) FROM trades",
            "percentile_cont() is not supported",
            "write quantile_cont(x, 0.5), or quantile_disc(x, 0.5)",
        ),
        ("SELECT kurtosis(qty) FROM trades", "the aggregate or window function kurtosis is not supported", COUNTS),
        (
            "SELECT mode(sym) FROM trades",
            "the aggregate or window function mode is not supported",
            "GROUP BY x ORDER BY count(*) DESC LIMIT 1 has the value that is there most often",
        ),
        (
            "SELECT array_agg(sym) FROM trades",
            "the aggregate or window function array_agg is not supported",
            "a value is not a list: string_agg(x, ',' ORDER BY y) puts texts together, or select the rows in order",
        ),
        ("SELECT every(qty > 3) FROM trades", "every() is not supported", "write bool_and(x)"),
        (
            "SELECT count(*) FROM (SELECT sym FROM trades) t [PARTITION BY sym ROWS 5]",
            "a window for each key (PARTITION BY) of a subselect is not supported",
            "write it in the subselect, after the stream: FROM s [PARTITION BY k ROWS 10]",
        ),
        ("SELECT sum(sym) FROM trades", f"sum needs a number, not TEXT; {OTHERWISE}", ""),
        ("SELECT sum(at) FROM trades", "sum needs a number, not TIMESTAMP; min, max and avg take times", ""),
        ("SELECT sum(day) FROM trades", "sum needs a number, not DATE; min, max and avg take times", ""),
        ("SELECT sum('5') FROM trades", f"sum needs a number, not TEXT; {OTHERWISE}", ""),
        ("SELECT avg(sym) FROM trades", f"avg needs a number, not TEXT; {OTHERWISE}", ""),
        ("SELECT avg(bought) FROM trades", f"avg needs a number, not BOOLEAN; {OTHERWISE}", ""),
        (
            "SELECT stddev(at) FROM trades",
            "stddev needs a number, not TIMESTAMP; epoch(t) is a number of seconds",
            "",
        ),
        (
            "SELECT median(sym) FROM trades",
            "median needs a number, not TEXT; quantile_disc takes values of any type",
            "",
        ),
        (
            "SELECT approx_quantile(at, 0.5) FROM trades",
            "approx_quantile needs a number, not TIMESTAMP; epoch(t) is a number of seconds",
            "",
        ),
        ("SELECT bool_and(qty) FROM trades", "bool_and needs BOOLEAN, not BIGINT; use CAST(... AS BOOLEAN)", ""),
        ("SELECT count_if(qty) FROM trades", "count_if needs BOOLEAN, not BIGINT; use CAST(... AS BOOLEAN)", ""),
        (
            "SELECT sum(qty) FILTER (WHERE at) FROM trades",
            "FILTER needs a condition, but TIMESTAMP is not one; compare it with something",
            "",
        ),
        ("SELECT sum(qty, rate) FROM trades", "sum takes 1 argument, not 2", ""),
        ("SELECT sum() FROM trades", "sum takes 1 argument, not 0", ""),
        ("SELECT count(qty, rate) FROM trades", "count takes 1 argument, not 2", TOGETHER),
        ("SELECT count(DISTINCT qty, rate) FROM trades", "count takes 1 argument, not 2", TOGETHER),
        ("SELECT arg_max(qty) FROM trades", "arg_max takes 2 arguments, not 1", ""),
        ("SELECT quantile_cont(qty) FROM trades", "quantile_cont takes 2 arguments, not 1", ""),
        ("SELECT sum(*) FROM trades", "* is not an argument of sum", "count(*) counts rows; name a column"),
        (
            "SELECT count(DISTINCT *) FROM trades",
            "* is not an argument of count",
            "count(*) counts rows; name a column",
        ),
        (
            "SELECT quantile_cont(qty, 1.5) FROM trades",
            "the fraction of quantile_cont is from 0 to 1, not 1.5",
            "",
        ),
        (
            "SELECT quantile_disc(qty, -0.5) FROM trades",
            "the fraction of quantile_disc is from 0 to 1, not -0.5",
            "",
        ),
        (
            "SELECT quantile_cont(qty, rate) FROM trades",
            "the fraction of quantile_cont must be a constant from 0 to 1; write a query for each fraction",
            "",
        ),
        (
            "SELECT quantile_cont(qty, 'x') FROM trades",
            "the fraction of quantile_cont must be a number from 0 to 1, such as 0.5",
            "",
        ),
        (
            "SELECT stddev(DISTINCT qty) FROM trades",
            "DISTINCT in stddev is not supported",
            "DISTINCT goes with count, sum and avg",
        ),
        (
            "SELECT abs(qty) FILTER (WHERE qty > 3) FROM trades",
            "FILTER belongs to an aggregate",
            "sum(x) FILTER (WHERE y > 3)",
        ),
        (
            "SELECT abs(DISTINCT qty) FROM trades",
            "DISTINCT in a function that is not an aggregate is not supported",
            "",
        ),
        (
            "SELECT first(qty IGNORE NULLS) FROM trades",
            "IGNORE NULLS is not supported",
            "first and last count NULLs, any_value does not",
        ),
        ("SELECT tumble(at) FROM trades", "tumble takes a time and an INTERVAL", "tumble(t, INTERVAL '15' MINUTE)"),
        (
            "SELECT DISTINCT sym FROM trades GROUP BY sym ORDER BY count(*)",
            "SELECT DISTINCT can only be ordered by what it selects",
            "add the expression to the list",
        ),
        (
            "SELECT sum(qty) & 1 FROM trades",
            "& needs BIGINT, not DECIMAL(38,0); use CAST(... AS BIGINT)",
            "",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_with_a_way_out(text: str, problem: str, hint: str) -> None:
    caught = refusal(text)
    assert (caught.problem, caught.hint) == (problem, hint)


def test_a_refusal_points_at_the_column() -> None:
    caught = refusal("SELECT sym, max(qty) + rate AS x FROM trades GROUP BY sym")
    assert (caught.line, caught.column, caught.reason) == (1, 24, "UNGROUPED_COLUMN")


@pytest.mark.long
def test_a_query_has_at_most_1000_aggregates() -> None:
    columns = ", ".join(f"max(qty + {n}) AS m{n}" for n in range(1_001))
    assert refusal(f"SELECT {columns} FROM trades").problem == "a query has at most 1,000 aggregates"
