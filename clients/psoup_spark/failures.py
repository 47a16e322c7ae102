"""Errors of Spark as errors of the SDK: one sentence instead of two stack traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from psoup_client import PSoupError

_PREAMBLE = "terminated with exception: "


class SparkFailed(PSoupError):
    """Spark refused or failed; the cause is Spark's own exception."""

    reason = "SPARK_FAILED"


@contextmanager
def spark_errors() -> Iterator[None]:
    """Inside the block what Spark raises becomes SparkFailed."""
    try:
        yield
    except PySparkException as problem:
        text = str(problem).split(_PREAMBLE, 1)[-1].split(" SQLSTATE")[0]
        raise SparkFailed(f"Spark: {text.splitlines()[0] if text else type(problem).__name__}") from problem
