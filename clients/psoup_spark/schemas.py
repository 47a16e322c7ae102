"""The schema of a stream in Spark's types, and a check before sending whether a frame fits the stream."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from psoup_client import InvalidData, StreamInfo
from psoup_client.columns.casts import TimeOptions, TimeUnit
from psoup_client.columns.convert import to_table


def spark_schema(stream: StreamInfo, *, counted: bool = False) -> StructType:
    """The stream's columns as a Spark schema. All columns may be NULL, because files promise nothing.

    `counted`: times may come as numbers, so Spark reads them as texts.
    """
    fields = from_arrow_schema(stream.schema)
    texts = [field.name for field in fields if counted and isinstance(field.dataType, TimestampType)]
    kinds = [(field.name, StringType() if field.name in texts else field.dataType) for field in fields]
    return StructType([StructField(name, kind, True) for name, kind in kinds])


def check_fits(schema: StructType, stream: StreamInfo, time_unit: TimeUnit | None = None) -> None:
    """Raise InvalidData, which names the column, if rows of `schema` can never fit the stream.

    This compares names and types only; the sender checks the values. Costs nothing.
    """
    try:
        arrow = to_arrow_schema(schema, timezone="UTC")
    except Exception as problem:  # PySpark raises a class that is not public
        raise InvalidData(f"the frame has a column that Arrow has no type for: {problem}; select others") from None
    names = [name.lower() for name in arrow.names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidData(f"column {twice!r} comes twice; give it once", facts={"column": twice})
    to_table(arrow.empty_table(), stream, TimeOptions(time_unit))
