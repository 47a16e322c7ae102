"""Expressions of Spark that convert numbers counted from 1970 to times, without loss.

    1782824400      bigint     --time-unit s     ──> 2026-06-30 13:00:00
    1782824400.5    double                       ──> 2026-06-30 13:00:00.5
    '1782824400'    string                       ──> the same; another text is ISO 8601
    1001            bigint     --time-unit ns    ──> NULL: a TIMESTAMP has microseconds

`Client.push(time_unit=…)`, by which a feed sends its rows, gives numbers the same meaning.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType, NumericType, StringType

from psoup_client.columns.casts import UNITS, TimeUnit, unit_of

_DIGITS = {"s": 6, "ms": 3, "us": 0, "ns": 0}
"""The number of decimal places that a number of each unit may have, for a TIMESTAMP of microseconds."""
_LONG = "DECIMAL(38,18)"
_NUMBER = r"^\\s*[+-]?[0-9]+([.][0-9]*)?\\s*$"
"""The pattern of texts that are numbers, as in `Client.push`, escaped for a string literal of SQL."""


def check_unit(unit: TimeUnit | None) -> None:
    """Raise ValueError for an unknown unit."""
    unit_of(unit)


def counts(source: DataType) -> bool:
    """Whether values of this type may be numbers counted from 1970. Such types are numbers, and texts of numbers."""
    return isinstance(source, NumericType | StringType)


def as_time(name: str, source: DataType, unit: TimeUnit) -> Column:
    """Convert a column of numbers, or texts of numbers, to times. A value becomes NULL if part of a microsecond would
    be lost.
    """
    column = f"`{name}`"
    if isinstance(source, IntegralType):
        return F.expr(_of_whole(f"CAST({column} AS BIGINT)", unit))
    if not isinstance(source, StringType):
        return F.expr(_of_fraction(column, source.simpleString(), unit))
    number = _of_fraction(f"try_cast({column} AS {_LONG})", _LONG, unit)
    return F.expr(f"if({column} RLIKE '{_NUMBER}', {number}, try_cast({column} AS TIMESTAMP))")


def as_times(frame: DataFrame, name: str, unit: TimeUnit) -> DataFrame:
    """Convert a column of a frame to timestamps. A value that would lose digits ends the query with an error."""
    source = frame.schema[name].dataType
    if not counts(source):
        return frame
    column, value = F.col(f"`{name}`"), as_time(name, source, unit)
    said = F.concat(F.lit(f"column {name} is not a TIMESTAMP in {unit} since 1970: "), column.cast("string"))
    return frame.withColumn(name, F.when(column.isNotNull() & value.isNull(), F.raise_error(said)).otherwise(value))


def _of_whole(number: str, unit: TimeUnit) -> str:
    """Write the SQL that converts a BIGINT to a time."""
    if unit == "ns":
        return f"if({number} % 1000 = 0, timestamp_micros({number} div 1000), NULL)"
    return f"timestamp_micros(try_multiply({number}, {UNITS[unit]}L))"


def _of_fraction(number: str, source: str, unit: TimeUnit) -> str:
    """Write the SQL that converts a number of the type `source` to a time.

    The result is NULL for a number with more digits than a TIMESTAMP has.
    """
    exact = f"try_cast({number} AS DECIMAL(26,{_DIGITS[unit]}))"
    whole = f"try_cast({exact} * {10 ** _DIGITS[unit]} AS BIGINT)"
    return f"if(try_cast({exact} AS {source}) <=> {number}, {_of_whole(whole, 'ns' if unit == 'ns' else 'us')}, NULL)"
