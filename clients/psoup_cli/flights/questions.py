"""The standing queries of the demo, and when each is registered.

A question is a SELECT with a window. `{flights}`, `{arrivals}` and `{weather}` stand for streams, `{airlines}` for a
table. Literals are UTC: New York is five hours behind in winter and four in summer.
"""

from __future__ import annotations

from dataclasses import dataclass

_COLUMNS = "departure, airline, flight, origin, dest, dep_delay"


@dataclass(frozen=True, slots=True)
class FlightQuestion:
    """A standing query of the demo. Its key and labels have `name` and `topic`. `title` is for people; `sql` is
    registered. `eager`: the service keeps its answer, and updates it as tuples come.
    """

    name: str
    topic: str
    title: str
    sql: str
    eager: bool = False


BEFORE = (
    FlightQuestion(
        "jfk",
        "delays",
        "Delays at JFK now: at least 15 minutes, in the last hour",
        f"SELECT {_COLUMNS} FROM {{flights}} WHERE origin = 'JFK' AND dep_delay >= 15"
        " ORDER BY dep_delay DESC BEGIN (NOW - 1 HOUR)",
    ),
    FlightQuestion(
        "late",
        "delays",
        "More than two hours late, in the last hour, all airports",
        f"SELECT {_COLUMNS} FROM {{flights}} WHERE dep_delay > 120 ORDER BY dep_delay DESC BEGIN (NOW - 1 HOUR)",
    ),
    FlightQuestion(
        "hawaiian",
        "delays",
        "Hawaiian Airlines since January: over half an hour late",
        "SELECT departure, flight, dest, dep_delay, arr_delay FROM {flights} WHERE carrier = 'HA' AND dep_delay > 30"
        " BEGIN TIMESTAMP '2013-01-01 05:00:00'",
    ),
    FlightQuestion(
        "cancelled",
        "cancelled",
        "Cancelled in the last 24 hours",
        "SELECT scheduled, airline, flight, origin, dest FROM {flights} WHERE cancelled BEGIN (NOW - 24 HOURS)",
    ),
    FlightQuestion(
        "caribbean",
        "routes",
        "Bound for the Caribbean among the last 300 departures",
        f"SELECT {_COLUMNS} FROM {{flights}} WHERE dest IN ('SJU', 'STT', 'BQN', 'PSE') BEGIN (NOW - 300 ROWS)",
    ),
)
"""The queries that the demo registers before the first flight: new data meets old queries."""

DURING = (
    FlightQuestion(
        "blizzard",
        "cancelled",
        "The blizzard of 8 and 9 February: cancelled flights",
        "SELECT scheduled, airline, flight, origin, dest FROM {flights} WHERE cancelled"
        " BEGIN TIMESTAMP '2013-02-08 05:00:00' END TIMESTAMP '2013-02-10 04:59:59'",
    ),
    FlightQuestion(
        "made_up",
        "delays",
        "Made up at least 45 minutes in the air, in the last 7 days",
        "SELECT departure, airline, flight, dest, dep_delay, arr_delay FROM {flights}"
        " WHERE dep_delay - arr_delay >= 45 BEGIN (NOW - 7 DAYS)",
    ),
    FlightQuestion(
        "plane",
        "routes",
        "Where the plane N725MQ has been in the last two days",
        "SELECT departure, flight, origin, dest, dep_delay FROM {flights} WHERE tailnum = 'N725MQ'"
        " BEGIN (NOW - 2 DAYS)",
    ),
)
"""The queries that the demo registers in March: new queries meet old data, and later data."""

JOINS = (
    FlightQuestion(
        "storm",
        "weather",
        "Over an hour late in the last 6 hours, with the wind or the fog of the hour",
        "SELECT f.departure, f.flight, f.origin, f.dep_delay, w.wind_speed, w.visib"
        " FROM {flights} [RANGE 6 HOURS] AS f JOIN {weather} [RANGE 7 HOURS] AS w"
        " ON w.origin = f.origin AND w.hour = date_trunc('hour', f.departure)"
        " WHERE f.dep_delay > 60 AND (w.wind_speed > 20 OR w.visib < 1) ORDER BY f.dep_delay DESC",
        eager=True,
    ),
    FlightQuestion(
        "turnaround",
        "routes",
        "Planes that left New York in the last 3 hours, and less than 5 hours before",
        "SELECT a.departure, a.tailnum, a.dest, b.departure AS again, b.dest AS then_to"
        " FROM {flights} [RANGE 9 HOURS] AS a, {flights} [RANGE 3 HOURS] AS b WHERE a.tailnum = b.tailnum"
        " AND b.departure > a.departure AND b.departure < a.departure + INTERVAL 5 HOURS"
        " AND NOT a.cancelled AND NOT b.cancelled",
    ),
    FlightQuestion(
        "overdue",
        "routes",
        "Left in the last two days, and no arrival of the same plane within 8 hours",
        "SELECT f.departure, f.airline, f.flight, f.tailnum, f.dest"
        " FROM {flights} [BEGIN (NOW - 48 HOURS) END (NOW - 8 HOURS)] AS f"
        " WHERE NOT f.cancelled AND NOT EXISTS (SELECT 1 FROM {arrivals} [RANGE 48 HOURS] AS a"
        " WHERE a.tailnum = f.tailnum AND a.landed BETWEEN f.departure AND f.departure + INTERVAL 8 HOURS)",
    ),
)
"""The joins that the demo registers in March, over two streams, or over one stream twice. The last one shows rows
without a partner.

The service finds the pairs at the invocation. For the first one, it keeps the answer and updates it as tuples come.
"""

COUNTS = (
    FlightQuestion(
        "hours",
        "delays",
        "Delays by airline and hour, in the last 6 hours: where 5 flights left, 20 minutes late or more",
        "SELECT time_bucket(INTERVAL 1 HOUR, departure) AS hour, airline, count(*) AS flights,"
        " round(avg(dep_delay)) AS minutes_late, max(dep_delay) AS worst FROM {flights} WHERE NOT cancelled"
        " GROUP BY 1, 2 HAVING count(*) >= 5 AND avg(dep_delay) >= 20 ORDER BY hour, minutes_late DESC, airline"
        " BEGIN (NOW - 6 HOURS)",
    ),
    FlightQuestion(
        "busiest",
        "routes",
        "The busiest airports now: where the flights of the last 3 hours go",
        "SELECT dest AS airport, count(*) AS flights, count_if(dep_delay >= 15) AS late, count_if(cancelled) AS"
        " cancelled FROM {flights} GROUP BY ALL ORDER BY flights DESC, airport LIMIT 10 BEGIN (NOW - 3 HOURS)",
    ),
)
"""The aggregates of groups that the demo registers in March."""

HOUR_LATE = FlightQuestion(
    "hour_late",
    "carried",
    "Over an hour late since January, all of them",
    f"SELECT {_COLUMNS} FROM {{flights}} WHERE dep_delay > 60 BEGIN TIMESTAMP '2013-01-01 05:00:00'",
)
"""A query that only the traveller uses. It has thousands of rows, and the earlier copy has most of them."""

TRAVELLER = (
    "SELECT count(*) AS flights, count_if(cancelled) AS cancelled, count_if(dep_delay > 60) AS late,"
    " max(dep_delay) AS worst FROM {flights} WHERE carrier = ? AND flight = ? BEGIN (NOW - 90 DAYS)"
)
"""The statement registered for each traveller, with the counts of the traveller's flight by carrier and number."""

TRAVELLERS = 100_000

NAMES = FlightQuestion(
    "names",
    "routes",
    "All flights of the year, by the names that the airlines have now",
    "SELECT a.name AS airline, count(*) AS flights, count_if(f.cancelled) AS cancelled, max(f.dep_delay) AS worst"
    " FROM {flights} f JOIN {airlines} a ON a.carrier = f.carrier GROUP BY a.name ORDER BY flights DESC, airline",
)
"""The join with the table of airlines. The demo changes a row of the table after the last flight."""

STRANDED = """CREATE STREAM {stranded} AS (
    SELECT d.departure, d.flight, a.name AS airline, d.tailnum, d.dest
    FROM {flights} d JOIN {airlines} a AS OF d ON a.carrier = d.carrier
    WHERE NOT d.cancelled AND NOT EXISTS (
        SELECT 1 FROM {arrivals} r WHERE r.tailnum = d.tailnum
        AND r._time BETWEEN d._time AND d._time + INTERVAL 8 HOURS))"""
"""The derived stream: departures without an arrival of the same plane within 8 hours. A row enters after 8 hours."""

SEARCH = "SELECT departure, flight, airline, tailnum FROM {stranded} WHERE dest = ? BEGIN (NOW - 30 DAYS)"
"""The statement registered for each traveller over the derived stream."""

MERGED_FROM = "US Airways Inc."
"""The name of the carrier US before the demo changes it."""

MERGED = {"carrier": "US", "name": "American Airlines Inc."}
"""The row that the demo changes: US Airways and American Airlines merged in December 2013."""

AFTER = (
    FlightQuestion(
        "record",
        "delays",
        "The longest delays of the year: more than 15 hours",
        f"SELECT {_COLUMNS} FROM {{flights}} WHERE dep_delay > 15 * 60 ORDER BY dep_delay DESC BEGIN (START)",
    ),
    FlightQuestion(
        "thanksgiving",
        "delays",
        "Thanksgiving eve: over an hour late out of LaGuardia or Newark",
        f"SELECT {_COLUMNS} FROM {{flights}} WHERE dep_delay > 60 AND origin <> 'JFK'"
        " BEGIN TIMESTAMP '2013-11-27 22:00:00' END TIMESTAMP '2013-11-28 05:00:00'",
    ),
    FlightQuestion(
        "fastest",
        "routes",
        "Tailwind: faster than 9 miles a minute over more than 1,000 miles",
        "SELECT departure, airline, dest, distance, air_time, round(60 * distance / air_time) AS mph"
        " FROM {flights} WHERE distance / air_time > 9 AND distance > 1000 ORDER BY mph DESC BEGIN (START)",
    ),
    FlightQuestion(
        "long_haul",
        "cancelled",
        "Long flights cancelled since summer: more than 2,500 miles",
        "SELECT scheduled, airline, flight, origin, dest, distance FROM {flights} WHERE cancelled AND distance > 2500"
        " BEGIN TIMESTAMP '2013-06-21 04:00:00'",
    ),
)
"""The queries that the demo registers after the replay, when the whole year is old data."""
