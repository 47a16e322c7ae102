"""Rows of any source, converted to rows of a stream without loss. Each row that does not fit gets a reason.

source row ──expressions──> try_cast to the stream's types ──> row   problem NULL
                                     └── NULL where there was a value, ──> row   "price: n/a is not a valid DOUBLE"
                                         or a value that would change
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    FractionalType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    VariantType,
)

from psoup.model import TIME_COLUMN, TIMESTAMP, Attribute, Kind, StreamSpec
from psoup.values.kinds import TYPES
from psoup_client import InvalidData
from psoup_client.columns.casts import TimeUnit
from psoup_spark.epochs import as_time, counts
from psoup_spark.nanoseconds import are_nanoseconds, as_instant

PROBLEM = "_problem"
_SOURCE = "_source_{}"
_VALUE = "_value_{}"
_ZONE = "spark.sql.session.timeZone"
_TYPES = {Kind.TEXT: "string"}
"""Spark's names of types, where they differ from ours."""
_AS_NUMBER = {Kind.TIMESTAMP: F.unix_micros, Kind.DATE: F.unix_date}
"""Functions of Spark that convert times and dates to numbers."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The rows of a source after the conversion.

    `rows` have the stream's columns and `_time`, in the stream's types. `bad` are the rows of the source that do not
    fit, with `_problem`. `count` is the number of `rows`. `last` is their greatest time in microseconds; None without
    rows. `problems`: the number of bad rows, and one reason.
    """

    rows: DataFrame
    bad: DataFrame
    count: int
    last: int | None
    problems: tuple[int, str]


def wanted(spec: StreamSpec) -> tuple[Attribute, ...]:
    """The columns of history: the stream's columns, and `_time` if that is not among them."""
    attributes = spec.schema.attributes
    return attributes if spec.event_time else (*attributes, Attribute(TIME_COLUMN, TIMESTAMP, nullable=False))


def apply(
    frame: DataFrame,
    spec: StreamSpec,
    mapping: Mapping[str, str],
    since: int | None = None,
    until: int | None = None,
    time_unit: TimeUnit | None = None,
) -> Mapped:
    """Convert the rows of `frame` to rows of the stream `spec`. `mapping`: from a column to an expression of Spark's
    SQL.

    Rows before `since` or after `until` (microseconds) are left out. `time_unit`: the unit of numbers counted from
    1970.

    Columns without an expression are found by name, in any case; missing ones are NULL. Raises InvalidData for an
    unknown column, and for a missing NOT NULL column. Reads the source once.
    """
    attributes = wanted(spec)
    columns = {attribute.name.lower(): attribute.name for attribute in attributes}
    odd = next((name for name in mapping if name.lower() not in columns), None)
    if odd is not None:
        raise InvalidData(
            f"the stream has no column {odd!r}; it has {', '.join(columns.values())}", facts={"column": odd}
        )
    texts = {name.lower(): text for name, text in mapping.items()}
    source_names = {name.lower(): name for name in frame.columns}
    sources = []
    for number, attribute in enumerate(attributes):
        folded = attribute.name.lower()
        if folded in texts:
            source = F.expr(texts[folded])
        elif folded in source_names:
            source = F.col(f"`{source_names[folded]}`")
        elif attribute.nullable and number != spec.time_attribute:
            source = F.lit(None)
        else:
            raise InvalidData(
                f"the source has no column {attribute.name!r}, and the stream needs one; say which it is with"
                f" --mapping {attribute.name}=EXPRESSION",
                facts={"column": attribute.name},
            )
        sources.append(source.alias(_SOURCE.format(number)))
    return _cast(frame.select("*", *sources), frame.columns, spec, (since, until), time_unit)


def _cast(
    frame: DataFrame,
    names: list[str],
    spec: StreamSpec,
    bounds: tuple[int | None, int | None],
    time_unit: TimeUnit | None,
) -> Mapped:
    values, problems, attributes = [], [], wanted(spec)
    for number, attribute in enumerate(attributes):
        source, source_type = F.col(_SOURCE.format(number)), frame.schema[_SOURCE.format(number)].dataType
        value = _instant(frame, attribute, _SOURCE.format(number), time_unit).try_cast(
            _TYPES.get(attribute.type.kind, str(attribute.type))
        )
        problem = _problem(attribute, source, value, source_type)
        if number == spec.time_attribute or attribute.name == TIME_COLUMN:
            problem = problem.when(value.isNull(), F.lit(f"{attribute.name}: NULL, and it is the time"))
        elif not attribute.nullable:
            problem = problem.when(value.isNull(), F.lit(f"{attribute.name}: NULL, and the column is NOT NULL"))
        problems.append(problem)
        values.append(value.alias(_VALUE.format(number)))
    columns = [F.col(f"`{name}`") for name in names]
    checked = frame.select(*columns, *values, F.coalesce(*problems).alias(PROBLEM))
    time = F.col(_VALUE.format(len(attributes) - 1 if spec.time_attribute is None else spec.time_attribute))
    good = reduce(Column.__and__, _inside(time, bounds), F.col(PROBLEM).isNull())
    micros = F.when(good, F.unix_micros(time))
    seen = checked.agg(F.count(micros), F.max(micros), F.count(PROBLEM), F.min(PROBLEM)).collect()[0]
    rows = checked.where(good).select(*(F.col(_VALUE.format(k)).alias(a.name) for k, a in enumerate(attributes)))
    bad = checked.where(F.col(PROBLEM).isNotNull()).select(*columns, PROBLEM)
    return Mapped(rows, bad, seen[0], seen[1], (seen[2], seen[3] or ""))


def _instant(frame: DataFrame, attribute: Attribute, name: str, time_unit: TimeUnit | None) -> Column:
    """Convert a column to instants. Times without a zone, and days, are UTC, whatever the zone of the session.

    Raises InvalidData for a nested column, and for numbers in a TIMESTAMP column without a unit.
    """
    source, source_type = F.col(name), frame.schema[name].dataType
    if isinstance(source_type, ArrayType | MapType | StructType | VariantType):
        raise InvalidData(
            f"column {attribute.name!r} is {attribute.type}, but the source has {source_type.simpleString()}; say what"
            f" becomes of it with --mapping {attribute.name}=EXPRESSION",
            facts={"column": attribute.name},
        )
    if attribute.type.kind is Kind.TIMESTAMP and are_nanoseconds(frame.schema[name]):
        return as_instant(name)
    if attribute.type.kind is Kind.TIMESTAMP and time_unit is not None and counts(source_type):
        return as_time(name, source_type, time_unit)
    if attribute.type.kind is Kind.TIMESTAMP and isinstance(source_type, NumericType):
        raise InvalidData(
            f"column {attribute.name!r} is TIMESTAMP, but the source has {source_type.simpleString()}; say what it"
            " counts since 1970 with --time-unit s, ms, us or ns, or what becomes of it with"
            f" --mapping {attribute.name}=EXPRESSION",
            facts={"column": attribute.name},
        )
    if attribute.type.kind is not Kind.TIMESTAMP or frame.sparkSession.conf.get(_ZONE) == "UTC":
        return source
    if isinstance(source_type, TimestampNTZType):
        return F.concat(source.cast("string"), F.lit("Z"))
    return F.concat(source.cast("string"), F.lit("T00:00:00Z")) if isinstance(source_type, DateType) else source


def _problem(attribute: Attribute, source: Column, value: Column, source_type: DataType) -> Column:
    """Write the expression that gives the reason why a value does not fit; NULL if it fits."""
    wrong = source.isNotNull() & value.isNull()
    if attribute.type.kind in (Kind.BIGINT, Kind.DECIMAL) and isinstance(source_type, FractionalType):
        wrong = wrong | ~value.try_cast(source_type).eqNullSafe(source)
    elif attribute.type.kind is Kind.DECIMAL and isinstance(source_type, StringType):
        wrong = wrong | ~source.try_cast("decimal(38,18)").eqNullSafe(value)
    shown = F.concat(F.lit(f"{attribute.name}: "), F.substring(source.try_cast("string"), 1, 100))
    problem = F.when(wrong, F.concat(shown, F.lit(f" is not a valid {attribute.type}")))
    last = TYPES[attribute.type.kind].infinite
    if last is None:
        return problem
    infinite = F.abs(_AS_NUMBER[attribute.type.kind](value)) == F.lit(last)
    return problem.when(infinite, F.lit(f"{attribute.name}: an infinite {attribute.type}, which PSoup does not take"))


def _inside(time: Column, bounds: tuple[int | None, int | None]) -> list[Column]:
    since, until = bounds
    conditions = []
    if since is not None:
        conditions.append(time >= F.timestamp_micros(F.lit(since)))
    if until is not None:
        conditions.append(time <= F.timestamp_micros(F.lit(until)))
    return conditions
