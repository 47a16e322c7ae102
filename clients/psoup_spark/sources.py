"""The streaming source of a feed, from options of a command line: format, path, options, expressions.

files with a schema (Parquet, ORC, Avro)     the schema of the files that exist now
files without one (CSV, JSON)                the stream's columns, unless the options give a schema
anything else (rate, Kafka, sockets)         the source's own schema
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from psoup_client import InvalidData, StreamInfo
from psoup_client.columns.casts import TimeUnit
from psoup_spark.epochs import as_times
from psoup_spark.nanoseconds import as_instants, marked
from psoup_spark.schemas import spark_schema

BATCH_BYTES = 64 * 1024 * 1024
"""The size in bytes of a batch of files, unless the options say otherwise. The service holds a batch in memory."""

_SELF_DESCRIBING = ("parquet", "orc", "avro")
_LIMITS = {"maxbytespertrigger", "maxfilespertrigger"}


@dataclass(frozen=True, slots=True)
class Source:
    """The options of a source. `schema` is DDL, `select` expressions of Spark's SQL, `watermark` a delay like "1
    minute".

    `time_unit`: the unit of numbers counted from 1970. Spark converts only the column of the watermark; other columns
    stay numbers.
    """

    format: str = "parquet"
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    select: str | None = None
    watermark: str | None = None
    time_unit: TimeUnit | None = None

    def open(self, spark: SparkSession, stream: StreamInfo) -> DataFrame:
        """Open the streaming frame for `stream`. Raises InvalidData for a watermark on a stream without event time."""
        rows = self._load(spark, stream)
        if self.select is not None:
            rows = rows.selectExpr(*expressions(self.select))
        if self.watermark is None:
            return rows
        if not stream.time_column:
            raise InvalidData(f"a watermark needs a time column, and stream {stream.name!r} has the clock's time")
        if self.time_unit is not None and stream.time_column in rows.columns:
            rows = as_times(rows, stream.time_column, self.time_unit)
        return rows.withWatermark(stream.time_column, self.watermark)

    def _load(self, spark: SparkSession, stream: StreamInfo) -> DataFrame:
        reader = spark.readStream.format(self.format).options(**self.options)
        if self.path is None:
            return (reader.schema(self.schema) if self.schema else reader).load()
        if not {name.lower() for name in self.options} & _LIMITS:
            reader = reader.option("maxBytesPerTrigger", str(BATCH_BYTES))
        if self.schema is not None:
            reader = reader.schema(self.schema)
        elif self.format.lower() in _SELF_DESCRIBING:
            files = spark.read.format(self.format).options(**self.options).load(self.path)
            return as_instants(marked(reader.schema(files.schema).load(self.path), files))
        else:
            reader = reader.schema(spark_schema(stream, counted=self.time_unit is not None))
        return reader.load(self.path)


def expressions(text: str) -> list[str]:
    """Split a SELECT list into its expressions, at the commas outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        else:
            depth += (letter in "([") - (letter in ")]")
            if letter == "," and depth == 0:
                parts.append(text[start:place])
                start = place + 1
    return [*parts, text[start:]]
