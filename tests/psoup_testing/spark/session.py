"""Spark for tests: one small session for a process, and a driver that is killed where a test says so.

Without Java the tests that ask for it are skipped, and say so by name.

    python -m psoup_testing.spark.session ADDRESS STREAM FOLDER CHECKPOINT POINT BATCH

feeds what is in FOLDER, a file in each batch, and dies by SIGKILL, its Java with it, at a POINT of BATCH:

    begun      the stage is open, nothing is sent
    sent       all parts are there, nothing is committed
    committed  the service has the batch, and Spark does not know
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

POINTS = ("begun", "sent", "committed")
SCHEMA = "n long, t string"
CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # nothing here runs long enough for the second compiler, or for a collector with threads, to pay
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
JDBC = Path("/usr/share/java/postgresql.jar")
"""PostgreSQL's driver, where Debian's package libpostgresql-jdbc-java puts it."""
if JDBC.exists():
    CONF["spark.driver.extraClassPath"] = str(JDBC)
needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java 17, and there is none"
)


def small_session() -> Any:
    """The session of this process: two cores, a driver of 1 GB; a task that fails is tried again."""
    from psoup_spark import session

    os.environ["PYTHONPATH"] = _paths()  # for the workers
    return session("local[2,3]", conf=CONF)


def _paths() -> str:
    return os.pathsep.join(path for path in sys.path if path)


def files(spark: Any, folder: Path) -> Any:
    """The Parquet files of a folder as a stream, one in each batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run_driver(address: str, stream: str, folder: Path, checkpoint: Path, point: str, batch: int) -> int:
    """Run the driver above to its end; returns its exit code, -9 if it was killed."""
    command = [sys.executable, "-m", "psoup_testing.spark.session"]
    command += [address, stream, str(folder), str(checkpoint), point, str(batch)]
    environment = {**os.environ, "PYTHONPATH": _paths()}
    done = subprocess.run(command, env=environment, start_new_session=True, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    return done.returncode


def _die() -> None:
    os.killpg(0, signal.SIGKILL)


def _dying_at(point: str, batch: int) -> Callable[[int, Any], None]:
    """Arrange for death at the point; returns the feed's progress."""
    from psoup_spark import row_sender

    begin, commit = row_sender.begin, row_sender.commit

    def dying_begin(client: Any, target: Any, of: Any) -> Any:
        stage = begin(client, target, of)
        if point == "begun" and of.number == batch:
            _die()
        return stage

    def dying_commit(client: Any, target: Any, of: Any, *rest: Any) -> Any:
        if point == "sent" and of.number == batch:
            _die()
        return commit(client, target, of, *rest)

    row_sender.begin, row_sender.commit = dying_begin, dying_commit

    def progress(number: int, result: Any) -> None:
        if point == "committed" and number == batch:
            _die()

    return progress


def _main(address: str, stream: str, folder: str, checkpoint: str, point: str, batch: str) -> None:
    from psoup_spark import feed

    spark = small_session()
    progress = _dying_at(point, int(batch))
    trigger = {"availableNow": True}
    rows = files(spark, Path(folder))
    feed(rows, stream, checkpoint=checkpoint, address=address, trigger=trigger, progress=progress).wait()


if __name__ == "__main__":
    _main(*sys.argv[1:])
