"""A standing job's driver that is killed where a test says so.

    python -m psoup_testing.spark.spark_stand ADDRESSES STREAM FOLDER CHECKPOINT SHARED POINT BATCH

evaluates what is in FOLDER, a file in each batch, for the services at ADDRESSES (commas between them), and dies by
SIGKILL, its Java with it, at a POINT of BATCH:

    begun      nothing is written
    written    the directory is whole, and nowhere attached
    half       the first service has the batch
    attached   all services have the batch, and Spark does not know
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

STAND_POINTS = ("begun", "written", "half", "attached")
STAND_SCHEMA = "seen timestamp, n long, t string"


def standing_files(spark: Any, folder: Path) -> Any:
    """The Parquet files of a folder as a stream, one in each batch."""
    return spark.readStream.schema(STAND_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


@contextmanager
def dying_at(point: str, batch: int, die: Callable[[], None]) -> Iterator[None]:
    """Inside the block a job calls `die` when it comes to the point."""
    from psoup_spark import stand_job

    release, attach, shared = stand_job.release, stand_job.Client.attach, stand_job.BatchFolder
    calls = 0

    def dying_release(frame: Any, place: Any, *rest: Any) -> Any:
        if point == "begun" and place.number == batch:
            die()
        return release(frame, place, *rest)

    def dying_attach(client: Any, site: Any, name: str) -> Any:
        nonlocal calls
        calls += site.batch == batch
        if (point, calls) in (("written", 1), ("half", 2)) and site.batch == batch:
            die()
        return attach(client, site, name)

    class DyingPlace(shared):  # type: ignore[misc, valid-type]
        def withdraw(self, folders: list[str]) -> None:
            if point == "attached" and self.number == batch:
                die()
            super().withdraw(folders)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stand_job, "release", dying_release)
        patch.setattr(stand_job.Client, "attach", dying_attach)
        patch.setattr(stand_job, "BatchFolder", DyingPlace)
        yield


def run_standing_driver(
    addresses: Sequence[str], stream: str, folder: Path, checkpoint: Path, shared: Path, point: str, batch: int
) -> None:
    """Run the driver above until it is killed."""
    command = [sys.executable, "-m", "psoup_testing.spark.spark_stand", ",".join(addresses), stream]
    command += [str(folder), str(checkpoint), str(shared), point, str(batch)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environment, start_new_session=True, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr


def _main(addresses: str, stream: str, folder: str, checkpoint: str, shared: str, point: str, batch: str) -> None:
    from psoup_spark import stand
    from psoup_testing.spark.session import small_session

    with dying_at(point, int(batch), lambda: os.killpg(0, signal.SIGKILL)):
        rows = standing_files(small_session(), Path(folder))
        trigger = {"availableNow": True}
        places = addresses.split(",")
        stand(rows, stream, checkpoint=checkpoint, addresses=places, shared=shared, trigger=trigger).wait()


if __name__ == "__main__":
    _main(*sys.argv[1:])
