"""The questions of the demo, asked of DuckDB over the same flights."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from psoup_cli.flights.dataset import load_airlines, load_arrivals, load_weather
from psoup_cli.flights.questions import MERGED, STRANDED
from psoup_cli.flights.story import ShownAnswer


def hours(number: int) -> Callable[[dt.datetime], tuple[dt.datetime | None, dt.datetime]]:
    """The last hours."""
    return lambda now: (now - dt.timedelta(hours=number), now)


def fixed(begin: str | None, end: str | None = None) -> Callable[[dt.datetime], tuple[dt.datetime | None, dt.datetime]]:
    """From one instant to another, or to NOW."""
    first = dt.datetime.fromisoformat(begin) if begin else None
    return lambda now: (first, dt.datetime.fromisoformat(end) if end else now)


JOINED = {
    "storm": {"{flights} [RANGE 6 HOURS] AS f": (6, 0), "{weather} [RANGE 7 HOURS] AS w": (7, 0)},
    "turnaround": {"{flights} [RANGE 9 HOURS] AS a": (9, 0), "{flights} [RANGE 3 HOURS] AS b": (3, 0)},
    "overdue": {
        "{flights} [BEGIN (NOW - 48 HOURS) END (NOW - 8 HOURS)] AS f": (48, 8),
        "{arrivals} [RANGE 48 HOURS] AS a": (48, 0),
    },
    "names": {},
}
"""Of joins the hours before NOW at which the window of each source begins and ends."""
TIMES = {"flights": "departure", "weather": "hour", "arrivals": "landed"}
"""The time columns of the streams."""

WINDOWS = {
    "jfk": hours(1),
    "late": hours(1),
    "hawaiian": fixed("2013-01-01T05:00:00Z"),
    "cancelled": hours(24),
    "caribbean": fixed(None),
    "blizzard": fixed("2013-02-08T05:00:00Z", "2013-02-10T04:59:59Z"),
    "made_up": hours(7 * 24),
    "plane": hours(2 * 24),
    "hours": hours(6),
    "busiest": hours(3),
    "record": fixed(None),
    "thanksgiving": fixed("2013-11-27T22:00:00Z", "2013-11-28T05:00:00Z"),
    "fastest": fixed(None),
    "long_haul": fixed("2013-06-21T04:00:00Z"),
}
"""BEGIN and END of each question at NOW; None is START."""


def ask_duckdb(shown: ShownAnswer, now: dt.datetime, flights: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of an answer that was shown, when NOW was `now`."""
    if shown.question.name in JOINED:
        return _joined(shown, now, flights)
    begin, end = WINDOWS[shown.question.name](now)
    if "15 MINUTES" in shown.window:
        begin = now - dt.timedelta(minutes=15)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    rows = "SELECT * FROM (SELECT *, row_number() OVER () AS n FROM flights) WHERE departure <= $end"
    if begin is not None:
        rows += " AND departure >= $begin"
    if "ROWS" in shown.question.sql:
        rows += " QUALIFY n > max(n) OVER () - 300"
    sql = shown.question.sql.partition(" BEGIN ")[0].format(flights=f"({rows})")
    parameters = {"end": end} | ({"begin": begin} if begin is not None else {})
    return connection.execute(sql, parameters).fetchall()


def _joined(shown: ShownAnswer, now: dt.datetime, flights: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a join: each source is cut to its own window."""
    sql = shown.question.sql
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for item, (first, last) in JOINED[shown.question.name].items():
        name, alias = item[1 : item.index("}")], item.rpartition(" ")[2]
        window = f"BETWEEN $now - INTERVAL {first} HOURS AND $now - INTERVAL {last} HOURS"
        sql = sql.replace(item, f"(SELECT * FROM {name} WHERE {TIMES[name]} {window}) AS {alias}")
    sql = sql.format(flights="flights", airlines="airlines")
    airlines = {row["carrier"]: row["name"] for row in load_airlines(flights).to_pylist()}
    airlines[MERGED["carrier"]] = MERGED["name"]
    connection.register("airlines", pa.table({"carrier": [*airlines], "name": [*airlines.values()]}))
    connection.register("weather", load_weather())
    connection.register("arrivals", load_arrivals(flights))
    connection.register("flights", flights)
    return connection.execute(sql, {"now": now} if "$now" in sql else {}).fetchall()


def stranded_in_duckdb(now: dt.datetime, flights: pa.Table) -> pa.Table:
    """The derived stream when its NOW is `now`: its columns, and `_time`. Rows enter 8 hours after the departure."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("airlines", load_airlines(flights))
    connection.register("departures", flights.rename_columns({"departure": "_time"}))
    connection.register("landings", load_arrivals(flights).rename_columns({"landed": "_time"}))
    select = STRANDED.partition("AS (")[2].removesuffix(")").replace("AS OF d", "").replace("d.departure", "d._time")
    select = select.format(flights="departures", arrivals="landings", airlines="airlines")
    select = select.replace("d._time,", "d._time AS departure, d._time + INTERVAL 8 HOURS AS _time,", 1)
    rows = connection.sql(f"SELECT * FROM ({select}) WHERE _time <= $now", params={"now": now})
    return rows.to_arrow_table()


def searches_in_duckdb(destinations: Sequence[str], now: dt.datetime, stranded: pa.Table) -> pa.Table:
    """The rows of all saved searches, in any order. `stranded`: the derived stream."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("stranded", stranded)
    connection.register("searches", pa.table({"_query": range(len(destinations)), "dest": destinations}))
    rows = connection.sql(
        """SELECT _query, departure, flight, airline, tailnum FROM searches JOIN stranded USING (dest)
           WHERE _time BETWEEN $now::TIMESTAMPTZ - INTERVAL 30 DAYS AND $now""",
        params={"now": now},
    )
    return rows.to_arrow_table()


def count_in_duckdb(travellers: pa.Table, now: dt.datetime, flights: pa.Table) -> list[tuple[Any, ...]]:
    """The counters of all travellers, in their order."""
    connection = duckdb.connect()
    connection.register("flights", flights)
    connection.register("travellers", travellers)
    return connection.execute(
        """WITH counted AS (
               SELECT carrier, flight, count(*) AS flights, count_if(cancelled) AS cancelled,
                      count_if(dep_delay > 60) AS late, max(dep_delay) AS worst
               FROM flights WHERE departure BETWEEN $now::TIMESTAMPTZ - INTERVAL 90 DAYS AND $now GROUP BY ALL)
           SELECT coalesce(flights, 0), coalesce(cancelled, 0), coalesce(late, 0), worst
           FROM (SELECT *, row_number() OVER () AS place FROM travellers) LEFT JOIN counted USING (carrier, flight)
           ORDER BY place""",
        {"now": now},
    ).fetchall()
