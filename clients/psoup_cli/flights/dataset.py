"""Flights, arrivals, weather and airlines: definitions of their streams and of the table, and rows in order.

See `psoup_cli/data/DATA.md`.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import pyarrow as pa

YEAR_START = "2013-01-01T05:00:00Z"
"""Midnight in New York, as an instant."""

LAST_HEARTBEAT = "2014-01-01T06:00:00Z"
"""The time of the last heartbeat, after the last departure at 0:26 on New Year's Day."""


def create_statement(stream: str) -> str:
    """The CREATE STREAM statement of the flights. Columns that a cancelled flight may lack are nullable."""
    return (
        f"CREATE STREAM {stream} (departure TIMESTAMP NOT NULL, scheduled TIMESTAMP NOT NULL, carrier TEXT NOT NULL,"
        " flight BIGINT NOT NULL, tailnum TEXT, origin TEXT NOT NULL, dest TEXT NOT NULL, dep_delay BIGINT,"
        " arr_delay BIGINT, air_time BIGINT, distance BIGINT NOT NULL, cancelled BOOLEAN NOT NULL,"
        " airline TEXT NOT NULL) TIMESTAMP BY departure"
    )


def create_weather_statement(stream: str) -> str:
    """The CREATE STREAM statement of the weather, a row for each hour and airport.

    Columns of instruments are nullable.
    """
    return (
        f"CREATE STREAM {stream} (hour TIMESTAMP NOT NULL, origin TEXT NOT NULL, temp DOUBLE, dewp DOUBLE,"
        " humid DOUBLE, wind_dir DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE,"
        " visib DOUBLE) TIMESTAMP BY hour"
    )


def create_arrivals_statement(stream: str) -> str:
    """The CREATE STREAM statement of the arrivals, a row for each flight that landed where it was bound for."""
    return (
        f"CREATE STREAM {stream} (landed TIMESTAMP NOT NULL, tailnum TEXT, flight BIGINT NOT NULL,"
        " dest TEXT NOT NULL) TIMESTAMP BY landed"
    )


def create_airlines_statement(table: str) -> str:
    """The CREATE TABLE statement of the airlines, a row for each carrier."""
    return f"CREATE TABLE {table} (carrier TEXT PRIMARY KEY, name TEXT NOT NULL)"


def load() -> pa.Table:
    """Read all 336,776 flights in the order of departure."""
    return _read("flights.parquet")


def load_arrivals(flights: pa.Table) -> pa.Table:
    """Compute the arrivals of `flights`, 327,346 rows for all of them, in the order of time.

    A flight lands after its minutes in the air, because the minutes on the ground are not recorded. A flight that was
    cancelled or diverted has no arrival.
    """
    import pyarrow.compute as pc

    landed = flights.filter(pc.is_valid(flights["air_time"]))
    in_the_air = pc.multiply(landed["air_time"], 60_000_000).cast(pa.duration("us"))
    times = pc.add(landed["departure"], in_the_air)
    return landed.select(["tailnum", "flight", "dest"]).add_column(0, "landed", times).sort_by("landed")


def load_airlines(flights: pa.Table) -> pa.Table:
    """List the 16 airlines of `flights` with their names, by carrier."""
    airlines = flights.select(["carrier", "airline"]).group_by(["carrier", "airline"]).aggregate([])
    return airlines.rename_columns(["carrier", "name"]).sort_by("carrier")


def load_weather() -> pa.Table:
    """Read the weather of all hours at the three airports, 26,115 rows, in the order of time."""
    return _read("weather.parquet")


def _read(name: str) -> pa.Table:
    import pyarrow.parquet as pq

    with as_file(files("psoup_cli").joinpath("data", name)) as path:
        return pq.read_table(path)
