"""Columns as sources of Spark have them: in the stream's type, in another that holds the same, as text, in a zone.

    own      as the stream has it; instants in UTC    wide     a type that holds more: DECIMAL(38,…) or (20,0)
    narrow   INT for BIGINT, where all values fit     text     what a CSV file would hold; instants end in Z
    naive    TIMESTAMP without a zone: UTC            local    instants as a clock of the session's zone shows them

Whatever a column wears, its values in the stream are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa

from psoup.model import DataType, Kind
from psoup_testing.histories.values import DAY, EPOCH, YEAR_1, YEAR_9999, Value, arrow_array, iso_date, iso_time

DRESSES: dict[Kind, tuple[str, ...]] = {
    Kind.BOOLEAN: ("own", "text"),
    Kind.BIGINT: ("own", "narrow", "wide", "text"),
    Kind.DOUBLE: ("own", "text"),
    Kind.DECIMAL: ("own", "wide", "text"),
    Kind.TEXT: ("own",),
    Kind.TIMESTAMP: ("own", "naive", "text", "local"),
    Kind.DATE: ("own", "text"),
}
FED: dict[Kind, tuple[str, ...]] = {
    **dict.fromkeys(Kind, ("own",)),
    Kind.BIGINT: ("own", "narrow"),
    Kind.DECIMAL: ("own", "wide", "text"),
    Kind.TIMESTAMP: ("own", "naive"),
}
"""Dresses that a feed accepts without options: text only for types that text represents exactly."""

BAD: dict[Kind, tuple[str, ...]] = {
    Kind.BOOLEAN: ("maybe", "2"),
    Kind.BIGINT: ("n/a", "4.5", "9223372036854775808", ""),
    Kind.DOUBLE: ("n/a", "1,5", ""),
    Kind.DECIMAL: ("n/a", "0.00001", "1e30", ""),
    Kind.TIMESTAMP: ("soon", "2021-13-01 00:00:00", "2021-02-29 00:00:00Z", ""),
    Kind.DATE: ("soon", "2021-02-29", ""),
}
"""Texts that are no value of a type; of a DECIMAL with up to four digits behind the point."""


def dressed(dress: str, data_type: DataType, column: Sequence[Value], zone: str) -> pa.Array:
    """The values as a source has them; in their own type where the other cannot hold one of them."""
    match dress:
        case "narrow" if all(v is None or -(2**31) <= int(v) < 2**31 for v in column):
            return pa.array(column, pa.int32())
        case "wide":
            scale = data_type.scale + 3 if data_type.kind is Kind.DECIMAL else 0
            return pa.array(column, pa.decimal128(38 if scale else 20, scale))
        case "naive":
            return arrow_array(data_type, column)
        case "text" | "local":
            return pa.array([_text(dress, data_type, value, zone) for value in column], pa.string())
    array = arrow_array(data_type, column)
    return array.cast(pa.timestamp("us", "UTC")) if data_type.kind is Kind.TIMESTAMP else array


def _text(dress: str, data_type: DataType, value: Value, zone: str) -> str | None:
    if value is None:
        return None
    match data_type.kind:
        case Kind.TIMESTAMP:
            return _local(int(value), zone) if dress == "local" else iso_time(int(value)) + "Z"
        case Kind.DATE:
            return iso_date(int(value))
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DECIMAL:
            return f"{value:f}"
    return repr(value)


def _local(micros: int, zone: str) -> str:
    """The local time of a zone, with the offset in the repeated hour."""
    if not YEAR_1 + 2 * DAY < micros < YEAR_9999 - 2 * DAY:
        return iso_time(micros) + "Z"
    local = (EPOCH + timedelta(microseconds=micros)).astimezone(ZoneInfo(zone))
    return str(local) if local.fold else str(local.replace(tzinfo=None))
