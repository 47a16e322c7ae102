"""A cluster: two workers in processes of their own on this machine, a driver with 1 GB, no jar of ours.

Feed, backfill and standing job run as they do on one machine; in a process of their own, as the session is another one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup.model import SECOND
from psoup_client import Client
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.slow, pytest.mark.timeout(900)]
ONCE = {"availableNow": True}
CONF = {"spark.executor.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
ROWS = 200_000


def write(folder: Path, number: int, first: int) -> None:
    folder.mkdir(exist_ok=True)
    times = pa.array([(first + n // 100) * SECOND for n in range(ROWS)], pa.timestamp("us", "UTC"))
    path = folder / f"{number:03}.parquet"
    pq.write_table(pa.table({"at": times, "n": range(ROWS)}), path, row_group_size=ROWS // 4)
    os.utime(path, (1_700_000_000 + number,) * 2)


def test_everything_runs_on_a_cluster_of_two_workers(tmp_path: Path) -> None:
    for name, first in (("past", 0), ("present", 10_000)):
        write(tmp_path / name, 0, first)
        write(tmp_path / name, 1, first + 2_500)
    with serving(store=DurableStore(tmp_path / "data", reserve_bytes=0)) as service, Client(service.address) as client:
        ids = []
        for stream in ("fed", "stood"):
            client.create_stream(f"CREATE STREAM {stream} (at TIMESTAMP NOT NULL, n BIGINT) TIMESTAMP BY at")
            ids.append(client.register(f"SELECT n FROM {stream} WHERE n % 1000 = 7 BEGIN (START)").id)
        command = [sys.executable, __file__, service.address, str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=800)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        assert len(said["hosts"]) == 2, "one executor did all"
        assert said["counts"] == [2 * ROWS] * 4, said
        for query in ids:
            found = client.query(query).invoke(wait_for=client.last_sequence).to_arrow().column("n").to_pylist()
            assert sorted(found) == sorted(4 * list(range(7, ROWS, 1_000)))


def executor(batches: Any) -> Any:
    """Which executor runs this partition."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"place": [os.getcwd()]})


def main(address: str, folder: Path) -> None:
    """In a process of its own: the session, and every kind of job."""
    import pyspark

    import psoup_spark

    spark = psoup_spark.session("local-cluster[2,1,1024]", conf=CONF)
    assert spark.sparkContext.getConf().get("spark.driver.memory") == "1g"
    hosts = {row.place for row in spark.range(0, 8, 1, 8).mapInArrow(executor, "place string").collect()}
    rows = spark.readStream.schema("at timestamp, n long").option("maxFilesPerTrigger", 1)
    present = rows.parquet(str(folder / "present"))
    fed = psoup_spark.feed(present, "fed", checkpoint=folder / "c1", address=address, trigger=ONCE)
    fed.wait()
    standing = psoup_spark.stand(present, "stood", checkpoint=folder / "c2", addresses=[address], trigger=ONCE)
    standing.wait()
    counts = [fed.result.accepted, standing.result.rows]
    past = spark.read.parquet(str(folder / "past"))
    counts += [psoup_spark.backfill(past, s, job="past", address=address).rows for s in ("fed", "stood")]
    print(json.dumps({"hosts": sorted(hosts), "counts": counts}))
    work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)  # where Spark has its executors work


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
