"""Backfills that are killed: the worker that writes, and the driver, its Java with it, at a named point.

    python -m psoup_testing.spark.spark_kills ADDRESS STREAM POINT

runs the job "killed" of `ROWS` rows, and dies by SIGKILL at a POINT:

    begun     the directory of the run is there, nothing is in it
    writing   workers have written all chunks, and there is no manifest
    whole     the manifest is there, nothing is attached
    attached  the service has it, and the driver does not know
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from psoup_spark import backfill as public
from psoup_spark import session
from psoup_spark.backfill import BackfillResult, ChunkWriter
from psoup_testing.spark.session import CONF

ROWS = 3_000
CHUNK_ROWS = 256
DEFINITION = "(at TIMESTAMP, n BIGINT) TIMESTAMP BY at"
QUERY = "SELECT n FROM {} WHERE n % 3 = 1"


def history(spark: Any) -> Any:
    """The rows of the job; times come five times."""
    return spark.range(ROWS).selectExpr("timestamp_seconds(id DIV 5) AS at", "id AS n")


def expected() -> list[int]:
    """The answer of `QUERY` over the rows."""
    return [n for n in range(ROWS) if n % 3 == 1]


def backfill(spark: Any, address: str, stream: str, **rest: Any) -> BackfillResult:
    """Run the job."""
    return public(history(spark), stream, job="killed", address=address, chunk_rows=CHUNK_ROWS, **rest)


class KilledWriter(ChunkWriter):
    """The process of every first attempt dies by SIGKILL after its first chunk."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As a Writer does."""
        for facts in super().__call__(batches):
            yield facts
            context = TaskContext.get()
            if context is not None and context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)


STEPS = {
    "begun": ("write_directory", False),
    "writing": ("write_manifest", False),
    "whole": ("attach", False),
    "attached": ("attach", True),
}
"""The points, and before or after which function of the module, or method of its client, they are."""


@contextmanager
def at_point(point: str, act: Callable[[], None]) -> Iterator[None]:
    """Have `act` happen, once, when a backfill of this process comes to the point."""
    (name, late), module = STEPS[point], sys.modules["psoup_spark.backfill"]
    owner = module.Client if name == "attach" else module
    original, left = getattr(owner, name), [act]

    def step(*args: Any, **rest: Any) -> Any:
        if left and not late:
            left.pop()()
        done = original(*args, **rest)
        if left and late:
            left.pop()()
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, step)
        yield


def run_driver(address: str, stream: str, point: str) -> None:
    """Run the driver above to its end, by SIGKILL."""
    command = [sys.executable, "-m", "psoup_testing.spark.spark_kills", address, stream, point]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environment, start_new_session=True, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr


def _main(address: str, stream: str, point: str) -> None:
    spark = session("local[2,3]", conf=CONF)
    with at_point(point, lambda: os.killpg(0, signal.SIGKILL)):
        backfill(spark, address, stream)


if __name__ == "__main__":
    _main(*sys.argv[1:])
