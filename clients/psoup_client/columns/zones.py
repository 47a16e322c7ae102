"""The time zone of times that are written without one: UTC, or the `timezone` of a client.

    2026-07-01 12:00           in Europe/Berlin   10:00 UTC
    2026-10-25 02:30           comes twice        the first one, 00:30 UTC, unless a datetime has fold=1
    2026-03-29 02:30           does not exist     refused
    2026-07-01 12:00+02:00     has a zone         10:00 UTC in any case

A number, such as microseconds since 1970, has no zone.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa

from psoup_proto.csv_rows.times import ZONED

_NAMED = 5
"""The most names in a message about an unknown zone."""


def check_zone(name: str | None) -> str | None:
    """Return the name of a zone, None for UTC. Raises ValueError for an unknown one, and TypeError for no text."""
    if name is None or name == "UTC":
        return None
    if not isinstance(name, str):
        raise TypeError(f"timezone is {name!r}: give the name of a zone, such as 'Europe/Berlin'")
    try:
        ZoneInfo(name)
    except (ValueError, OSError):  # a ZoneInfoNotFoundError is a KeyError
        pass
    except KeyError:
        pass
    else:
        return name
    raise ValueError(f"timezone is {name!r}, which is not a known zone{_near(name)}")


def _near(name: str) -> str:
    """The names that are like an unknown one: those that contain it, then those that are spelt like it."""
    zones = sorted(available_timezones())
    folded = name.strip().lower().replace(" ", "_")
    inside = [zone for zone in zones if folded and folded in zone.lower()]
    last = {zone.rpartition("/")[2].lower(): zone for zone in zones}
    alike = [last[word] for word in difflib.get_close_matches(folded.rpartition("/")[2], last, _NAMED)]
    names = list(dict.fromkeys([*inside, *alike]))[:_NAMED]
    if names:
        return f"; did you mean {' or '.join(map(repr, names))}?"
    return ": give a name such as 'Europe/Berlin' or 'America/New_York'"


def localized(array: pa.Array | pa.ChunkedArray, zone: str) -> pa.Array | pa.ChunkedArray:
    """Convert times without a zone, or dates, to instants. `zone`: their zone. O(values).

    A time that comes twice is the first one. Raises ArrowInvalid for a time that does not exist in the zone.
    """
    import pyarrow.compute as pc  # imported here: it takes 40 ms, and most clients do not need it

    local = array.cast(pa.timestamp("us"))
    zoned = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="raise")
    return zoned.cast(pa.timestamp("us", tz="UTC"))


def aware(value: dt.datetime, zone: str | None) -> dt.datetime:
    """Return a datetime with a zone: its own one, else `zone`, else UTC. Raises ValueError if it does not exist."""
    if value.tzinfo is not None:
        return value
    if zone is None:
        return value.replace(tzinfo=dt.UTC)
    zoned = value.replace(tzinfo=ZoneInfo(zone))
    if zoned.astimezone(dt.UTC).astimezone(zoned.tzinfo).replace(tzinfo=None, fold=0) != value.replace(fold=0):
        raise ValueError(f"{value.isoformat(sep=' ')} does not exist in {zone}: its clocks are set forward then")
    return zoned


def is_skipped(value: Any, zone: str | None) -> bool:
    """Whether a datetime or a text in ISO 8601 is a time that does not exist in `zone`."""
    try:
        instant(value, zone)
    except ValueError:
        return True
    return False


def instant(value: dt.datetime | int | str, zone: str | None) -> dt.datetime | int | str:
    """The same time, with a zone if it is a datetime or a text without one. Another text is returned as it is."""
    if zone is None:
        return value
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            return value
    return aware(value, zone) if isinstance(value, dt.datetime) else value


def in_zone(values: Sequence[Any], zone: str) -> list[Any]:
    """The same values, with the zone `zone` for datetimes without one. A date among datetimes is its midnight there.

    Raises ValueError for a datetime that does not exist in the zone. O(values).
    """
    if not any(isinstance(value, dt.datetime) for value in values):
        return list(values)
    return [_in_zone(value, zone) for value in values]


def _in_zone(value: Any, zone: str) -> Any:
    if isinstance(value, dt.datetime):
        return aware(value, zone) if value == value else value  # NaT of pandas differs from itself
    return aware(dt.datetime.combine(value, dt.time()), zone) if isinstance(value, dt.date) else value


def have_no_zone(data: Any, column: str) -> bool:
    """Whether the times in a column of pushed rows have no zone. Looks at the first value that is not NULL."""
    values = _column_of(data, column.lower())
    kind = getattr(values, "type", None) or getattr(values, "dtype", None)
    if isinstance(kind, pa.DataType) and pa.types.is_timestamp(kind):
        return kind.tz is None
    if getattr(kind, "kind", "") == "M":  # NumPy and pandas
        return getattr(kind, "tz", None) is None
    first = next((value for value in (values if values is not None else ()) if value is not None), None)
    first = first.as_py() if isinstance(first, pa.Scalar) else first
    if isinstance(first, str):
        return re.search(ZONED, first) is None
    return isinstance(first, dt.datetime) and first.tzinfo is None


def _column_of(data: Any, column: str) -> Any:
    """The values of a column of rows in any form, in any case of its name. None if it is not found."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        return next((data.column(at) for at, name in enumerate(data.schema.names) if name.lower() == column), None)
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = data.keys() if isinstance(data, Mapping) else data.columns
        return next((data[name] for name in names if str(name).lower() == column), None)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return [
            value
            for row in data[:1]
            if isinstance(row, Mapping)
            for name, value in row.items()
            if str(name).lower() == column
        ]
    return None
