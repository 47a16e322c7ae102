"""Conversion of instants between Python, protobuf and Arrow: always UTC, always microseconds.

A `datetime` without a zone is taken as UTC. A Python `datetime` is limited to the years 1 to 9999. Outside these, a
time from the service becomes the nearest `datetime`, and a value of an answer becomes text.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.timestamp_pb2 import Timestamp

Instant = dt.datetime | int | str
"""A time in the forms that callers use: a datetime, microseconds since 1970 UTC, or ISO 8601 text."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST = dt.datetime.min.replace(tzinfo=dt.UTC)
_LAST = dt.datetime.max.replace(tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def to_micros(value: Instant) -> int:
    """Return microseconds since 1970 UTC; raises ValueError or TypeError for a value that is not a time.

    >>> to_micros("1970-01-01T00:00:01Z"), to_micros("1970-01-01 01:00:01+01:00"), to_micros(5)
    (1000000, 1000000, 5)
    """
    if isinstance(value, bool) or not isinstance(value, dt.datetime | int | str):
        raise TypeError(f"{value!r} is not a time: give a datetime, ISO 8601 text or microseconds since 1970")
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{value!r} is not a time: write it as 2013-07-04T12:00:00Z") from None
    if isinstance(value, int):
        return value
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - _EPOCH) // _MICROSECOND


def to_proto(value: Instant) -> Timestamp:
    """Convert an instant to a protobuf Timestamp."""
    seconds, micros = divmod(to_micros(value), 1_000_000)
    return Timestamp(seconds=seconds, nanos=micros * 1_000)


def from_proto(value: Timestamp) -> dt.datetime:
    """Convert to an aware datetime in UTC. An instant that Python lacks becomes the first or last datetime."""
    return from_micros(value.seconds * 1_000_000 + value.nanos // 1_000)


def from_micros(value: int) -> dt.datetime:
    """Convert microseconds since 1970 to an aware datetime in UTC, with the limits of `from_proto`."""
    try:
        return _EPOCH + dt.timedelta(microseconds=value)
    except OverflowError:
        return _FIRST if value < 0 else _LAST


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Convert a column to Python values. A DATE or TIMESTAMP that Python lacks becomes a text.

    >>> python_values(pa.array([15_888, 364_522_972, None], pa.date32()))
    [datetime.date(2013, 7, 2), '1000000-01-01', None]
    >>> python_values(pa.array([2**63 - 1], pa.timestamp("us", "UTC")))
    ['294247-01-10T04:00:54.775807Z']
    """
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        if not pa.types.is_temporal(column.type):
            raise
        return [_value_of(scalar) for scalar in column]


def _value_of(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        day = pa.types.is_date(scalar.type)
        year, rest = re.match(r"(-?\d+)(.*)", str(np.datetime64(scalar.value, "D" if day else "us"))).groups()  # type: ignore[union-attr]
        return f"{int(year):0{4 + (int(year) < 0)}}{rest.removesuffix('.000000')}{'' if day else 'Z'}"
