"""Hints in refusals: for each refused feature, a way to do without it.

    LATERAL   ->   join the stream itself, with the conditions of the subselect in ON or WHERE

`psoup.sql.refusals` has the refused features and the places of the messages.
"""

from __future__ import annotations

from psoup.sql.elsewhere.changes import OF_STREAM

PARAMETER = "a parameter without a value"
NAMED_ARGUMENT = "an argument by name"
ORDER_IN_FUNCTION = "ORDER BY in a function that is not an aggregate"

_JOINS_HERE = "the joins are [INNER], CROSS, LEFT, RIGHT, FULL, SEMI, ANTI, NATURAL and ASOF [LEFT] JOIN"
_WAYS_OUT = {
    "LATERAL": "join the stream itself, with the conditions of the subselect in ON or WHERE",
    "ANY": "x = ANY (SELECT y …) is taken, as IN; x > ANY (SELECT y …) is x > (SELECT min(y) …)",
    "ALL": "x <> ALL (SELECT y …) is taken, as NOT IN; x > ALL (SELECT y …) is x > (SELECT max(y) …) if there is a"
    " row, and no NULL",
    "a list or a struct": "substr(x, 1, 1) takes letters of a text, split_part(x, ',', 2) a part of one",
    "current_date": "now() in the SELECT list is the NOW; BEGIN and END in place of a condition on it",
    "a row of several values": "rows stand in comparisons: (a, b) = (c, d), (a, b) IN ((1, 2), (3, 4))",
    PARAMETER: "write ? or $name, and give the value: --param VALUE, register(sql, [value]); or write the constant",
    "an aggregate": "the aggregates are count, count_if, sum, avg, min, max, first, last, any_value, arg_min, arg_max,"
    " stddev, variance, median, quantile_cont, quantile_disc, approx_count_distinct, approx_quantile, bool_and,"
    " bool_or, bit_and, bit_or, bit_xor and string_agg",
    ORDER_IN_FUNCTION: "aggregates take ORDER BY: first(x ORDER BY y), string_agg(x, ',' ORDER BY y)",
    **dict.fromkeys(("ROLLUP", "CUBE", "GROUPING SETS", "WITH TOTALS"), "register a query for each set of keys"),
    "WITHIN GROUP": "write quantile_cont(x, 0.5), or quantile_disc",
    **dict.fromkeys(("IGNORE NULLS", "RESPECT NULLS"), "first and last count NULLs, any_value does not"),
}
"""The hint for each feature, by the name of the feature in messages."""

_JOINS = {
    "ASOF": "ASOF JOIN and ASOF LEFT JOIN give each row of the left the closest row of the right",
    "OUTER": "write LEFT, RIGHT or FULL before it",
}
"""The hint for each join that is refused, by a word before JOIN."""

FOR_STATEMENT = {
    **dict.fromkeys(("INSERT", "COPY", "LOAD"), "rows come in by a push: psoup push STREAM FILE, push(stream, rows)"),
    **dict.fromkeys(("UPDATE", "DELETE", "TRUNCATE", "MERGE"), OF_STREAM),
    **dict.fromkeys(("SHOW", "DESCRIBE"), "see psoup stream list, psoup queries; streams(), describe(name), queries()"),
    "EXPLAIN": "register the query, and ask psoup explain ID, or query.explain()",
}
"""The hint for each statement that PSoup refuses, by its first word."""

FOR_FUNCTION = {
    "age": "it counts calendar months and days. date_diff('month', b, a) counts months; a - b compares with an"
    " INTERVAL, and epoch(a - b) is its seconds; now() goes in the SELECT list, or in BEGIN and END",
    "date_add": "write t + INTERVAL '1' DAY",
    "date_sub": "date_diff('day', a, b) counts days, and epoch(b - a) is the seconds between them",
    **dict.fromkeys(("epoch_ns", "nanosecond"), "a TIMESTAMP has microseconds: epoch_us(t), microsecond(t)"),
    **dict.fromkeys(("format", "printf"), "put texts together: 'n is ' || n; strftime writes times"),
    "octet_length": "strlen(x) counts bytes",
    "translate": "replace(x, 'a', 'b') changes a text, regexp_replace(x, '[ab]', 'c', 'g') any of some letters",
    **dict.fromkeys(
        ("string_split", "str_split", "split", "string_to_array", "regexp_split_to_array"),
        "split_part(x, ',', 2) takes one of the parts",
    ),
    "mode": "GROUP BY x ORDER BY count(*) DESC LIMIT 1 has the value that is there most often",
    "approx_top_k": "GROUP BY x ORDER BY count(*) DESC LIMIT k",
    "histogram": "SELECT x, count(*) … GROUP BY x has a row for each value",
    **dict.fromkeys(
        ("list", "array_agg"),
        "a value is not a list: string_agg(x, ',' ORDER BY y) puts texts together, or select the rows in order",
    ),
    "every": "write bool_and(x)",
    "try": "write TRY_CAST(x AS BIGINT); an error in an expression is NULL, and is counted",
    **dict.fromkeys(("row", "struct"), "a row is not a value: select its columns one by one"),
    **dict.fromkeys(
        ("getvariable", "current_setting", "set_config"), "a statement reads no settings: write the constant itself"
    ),
    "grouping_id": "register a query for each set of keys",
    "some": "write bool_or(x)",
    "product": "of positive numbers it is exp(sum(ln(x)))",
    **dict.fromkeys(("geomean", "geometric_mean"), "of positive numbers it is exp(avg(ln(x)))"),
    **dict.fromkeys(("std", "stdev"), "write stddev(x)"),
    "var": "write variance(x)",
    "count_star": "write count(*)",
    **dict.fromkeys(("fsum", "kahan_sum", "sumkahan", "favg"), "sum(x) and avg(x) of DOUBLEs are exact, rounded once"),
    "approx_median": "write approx_quantile(x, 0.5)",
    "percentile": "write quantile_cont(x, 0.5), or quantile_disc(x, 0.5)",
    "covar_pop": "avg(x * y) - avg(x) * avg(y), of rows that have both",
    **dict.fromkeys(("first_value", "last_value"), "with GROUP BY: first(x), last(x)"),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), "write quantile_cont(x, 0.5), or quantile_disc(x, 0.5)"),
}
"""The hint for each function that PSoup lacks, by the function's name."""


def join_hint(words: str) -> str:
    """The hint for a join that is refused. `words`: the words before JOIN, such as ASOF RIGHT."""
    named = words.split()
    return next((advice for word, advice in _JOINS.items() if word in named), _JOINS_HERE)


def feature_hint(feature: str) -> str:
    """The hint for a feature. `feature`: its name in messages. Returns "" if there is no hint."""
    return _WAYS_OUT.get(feature, "")
