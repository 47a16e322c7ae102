"""PSoup and Spark: streams fed exactly once, history attached to them, and answers and streams as frames.

    spark = psoup_spark.session()
    psoup_spark.backfill(spark.read.parquet("years"), "flights", job="years")
    psoup_spark.cover(spark, [query.id])
    psoup_spark.feed(spark.readStream.schema(...).parquet("in"), "flights", checkpoint="checkpoint").wait()

Needs the extra: pip install 'psoup[spark]', and Java 17 or newer. Workers need the same packages as the driver.
"""

try:
    import pyspark  # noqa: F401 - so that a missing extra is reported here
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        "psoup_spark needs PySpark, which is not installed: pip install 'psoup[spark]'", name="pyspark"
    ) from problem

from psoup_spark.backfill import BackfillResult, backfill
from psoup_spark.cover import CoverResult, cover
from psoup_spark.datasource import register
from psoup_spark.failures import SparkFailed, spark_errors
from psoup_spark.feed import Feed, feed
from psoup_spark.progress import Progress
from psoup_spark.session import NoJava, session
from psoup_spark.sources import Source
from psoup_spark.stand_job import Stand, StandResult, stand

__all__ = [
    "BackfillResult",
    "CoverResult",
    "Feed",
    "NoJava",
    "Progress",
    "Source",
    "SparkFailed",
    "Stand",
    "StandResult",
    "backfill",
    "cover",
    "feed",
    "register",
    "session",
    "spark_errors",
    "stand",
]
