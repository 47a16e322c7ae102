"""Words that other systems have as built-in columns or values, each with the advice for PSoup.

WHERE ROWNUM <= 5   ->   stream 'trades' has no column 'ROWNUM'
                         hint: write LIMIT 5 at the end of the statement
"""

from __future__ import annotations

_NOW = "now() in the SELECT list is the NOW; BEGIN (NOW - 1 HOUR) bounds the time"

COLUMNS: dict[str, str] = {
    **dict.fromkeys(("rowtime", "event_time", "_timestamp"), "_time is the time of a tuple"),
    **dict.fromkeys(
        ("rowid", "_rowid_", "oid", "ctid", "_offset"), "_id is the number of a tuple, in order of arrival"
    ),
    "rownum": "write LIMIT 5 at the end of the statement",
    **dict.fromkeys(("sysdate", "systimestamp", "localtimestamp", "localtime", "proctime"), _NOW),
    **dict.fromkeys(("current_date", "current_time", "today"), _NOW),
    **dict.fromkeys(
        ("window_start", "windowstart", "window_time"),
        "GROUP BY tumble(t, INTERVAL '1' HOUR), and select tumble(t, INTERVAL '1' HOUR): it is where the window begins",
    ),
    **dict.fromkeys(("window_end", "windowend"), "write tumble(t, INTERVAL '1' HOUR) + INTERVAL '1' HOUR"),
    "sql_calc_found_rows": "leave it out: count(*) in a query of its own counts the rows",
    "level": "a row has no level: PSoup has no CONNECT BY",
}
"""The advice for each built-in column of other systems, by its name in lower case."""

PARTS = frozenset(
    {"microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade"}
    | {"century", "dow", "doy", "epoch"}
)
"""Parts of time. In the functions of `OF_PARTS` they must be in quotes."""

OF_PARTS = frozenset({"date_trunc", "datetrunc", "date_part", "datepart", "date_diff", "datediff", "extract"})
