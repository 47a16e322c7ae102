"""Errors of Spark, converted to errors of the SDK: one sentence instead of two stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, SparkRuntimeException

from psoup_client import InvalidData, PSoupError

_PREAMBLE = "terminated with exception: "
_ABORTED = re.compile(r"executor \S+\): ")
"""The text that Spark writes before the exception of a task."""


_WORKER = "thrown from the Python worker"
_RAISED = re.compile(r"[A-Za-z_][\w.]*: ")
"""The beginning of the line in a stack trace that names the exception."""


class SparkFailed(PSoupError):
    """Spark refused or failed; the cause is Spark's own exception."""

    reason = "SPARK_FAILED"


@contextmanager
def spark_errors() -> Iterator[None]:
    """Convert Spark's errors inside the block to SparkFailed."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        raise SparkFailed(f"Spark: {_sentence(problem)}") from problem


@contextmanager
def refused_values() -> Iterator[None]:
    """Convert errors from our own expressions (`raise_error`) inside the block to InvalidData.

    Spark wraps these errors later, so the conversion happens here.
    """
    try:
        yield
    except SparkRuntimeException as problem:
        if problem.getCondition() != "USER_RAISED_EXCEPTION":
            raise
        raise InvalidData((problem.getMessageParameters() or {}).get("errorMessage", str(problem))) from problem


def _sentence(problem: PySparkException | Py4JJavaError) -> str:
    """Extract the sentence that describes the problem. For an aborted job it is the message of the exception in the
    worker.
    """
    text = str(problem.java_exception.getMessage() if isinstance(problem, Py4JJavaError) else problem)
    text = _ABORTED.split(text.split(_PREAMBLE, 1)[-1], maxsplit=1)[-1].split(" SQLSTATE")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in text.splitlines() if _RAISED.match(line)] if lines and _WORKER in lines[0] else []
    return raised[-1] if raised else lines[0] if lines else type(problem).__name__
