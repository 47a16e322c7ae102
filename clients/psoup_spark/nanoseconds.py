"""Columns of Parquet files with times in nanoseconds. Spark has no such type: it reads numbers, or refuses the file.

    footer of a file: at TIMESTAMP(NANOS)   ──> a long column that says so     ──> TIMESTAMP, where nothing is lost

In a session from `psoup_spark.session`, Spark reads numbers. The footer of a file names these columns.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField

SETTING = "spark.sql.legacy.parquet.nanosAsLong"
"""The setting that makes Spark read such columns as numbers."""

_MARK = "psoup.nanoseconds"
_NANOSECONDS = re.compile(r"^\s+\w+ int64 (.+) \(TIMESTAMP\(NANOS,\w+\)\)", re.MULTILINE)


def marked(frame: DataFrame, files: DataFrame | None = None) -> DataFrame:
    """Mark the columns of a frame that are times in nanoseconds in Parquet. Reads the footer of one file.

    The frame must be as Spark read it. `files`: a batch frame of the same files, if `frame` is a stream.
    """
    files = frame if files is None else files
    longs = {field.name for field in frame.schema if isinstance(field.dataType, LongType)}
    names = longs & _of_footer(files) if longs and frame.sparkSession.conf.get(SETTING, "false") == "true" else set()
    return frame.withColumns({name: F.col(f"`{name}`").alias(name, metadata={_MARK: True}) for name in names})


def _of_footer(files: DataFrame) -> set[str]:
    paths = files.inputFiles()
    spark: Any = files.sparkSession
    if not paths:
        return set()
    parquet = spark._jvm.org.apache.parquet.hadoop
    where = spark._jvm.org.apache.hadoop.fs.Path(paths[0])
    file = parquet.util.HadoopInputFile.fromPath(where, spark._jsc.hadoopConfiguration())
    reader = parquet.ParquetFileReader.open(file)
    try:
        return set(_NANOSECONDS.findall(reader.getFileMetaData().getSchema().toString()))
    finally:
        reader.close()


def are_nanoseconds(field: StructField) -> bool:
    """Whether `marked` has marked this column."""
    return bool(field.metadata.get(_MARK))


def as_instant(name: str) -> Column:
    """Convert a column of nanoseconds to times. A value becomes NULL if part of a microsecond would be lost."""
    return F.expr(f"if(`{name}` % 1000 = 0, timestamp_micros(`{name}` div 1000), NULL)")


def as_instants(frame: DataFrame) -> DataFrame:
    """Convert all marked columns to times. A value that would lose digits ends the query with an error."""
    values = dict[str, Column]()
    for field in frame.schema:
        if are_nanoseconds(field):
            said = f"column {field.name} has nanoseconds that a TIMESTAMP would lose: "
            bad = F.raise_error(F.concat(F.lit(said), F.col(f"`{field.name}`").cast("string")))
            lost = F.col(f"`{field.name}`").isNotNull() & as_instant(field.name).isNull()
            values[field.name] = F.when(lost, bad).otherwise(as_instant(field.name))
    return frame.withColumns(values) if values else frame
