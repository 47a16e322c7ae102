"""Functions of the operator in jobs: what calls them is evaluated by a job that has the same, and by no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, InvalidData
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
ROWS = 600
MODULE = """
import pyarrow.compute as pc
from psoup.functions import function

@function(["BIGINT"], "BIGINT", version=VERSION)
def step(n):
    return pc.divide(n, 100)
"""
SQL = "SELECT n, step(n) AS s FROM past WHERE step(n) = 3 AND n % 2 = 0"
WANTED = [(n, 3) for n in range(300, 400, 2)]


def test_a_job_that_has_the_same_functions_evaluates_for_the_service(spark: Any, tmp_path: Path) -> None:
    from psoup_spark import backfill, cover

    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(MODULE.replace("VERSION", "1"))
    second.write_text(MODULE.replace("VERSION", "2").replace("100", "10"))
    settings = Settings(port=0, functions=(str(first),), archive_seconds=0)
    store = DurableStore(tmp_path / "data", reserve_bytes=0)
    with serving(settings, store=store) as service, Client(service.address, timeout=60) as client:
        client.create_stream("CREATE STREAM past (at TIMESTAMP, n BIGINT) TIMESTAMP BY at")
        query = client.register(SQL)
        frame = spark.range(ROWS).selectExpr("timestamp_seconds(id) AS at", "id AS n")
        for place, modules in enumerate(([str(first)], [str(second)], [])):
            part = frame.where(f"n >= {200 * (2 - place)} AND n < {200 * (3 - place)}")
            told: dict[str, Any] = {"address": client.address, "chunk_rows": 64, "functions": modules}
            assert backfill(part, "past", job=f"part {place}", **told).rows == 200
        assert client.query(query.id).explain() is not None
        for modules in ([], [str(second)]):
            with pytest.raises(InvalidData, match=r"calls step@1\[BIGINT: BIGINT\], a function that this job does not"):
                cover(spark, [query.id], address=client.address, functions=modules)
        with pytest.raises(InvalidData, match=r"declares no function|cannot be imported|there is no file"):
            cover(spark, [query.id], address=client.address, functions=[str(tmp_path / "none.py")])
        done = cover(spark, [query.id], address=client.address, functions=[str(first)])
        assert (done.rows, done.matches) == (400, 50)
        assert query.invoke().rows() == WANTED
        shown = client.register("SELECT step(n) AS s FROM past WHERE n = 5")
        with pytest.raises(InvalidData, match="calls step, a function"):
            cover(spark, [shown.id], address=client.address)
        ran = CliRunner().invoke(
            app, ["spark", "cover", shown.id, "--address", client.address, "--functions", str(first)]
        )
        assert ran.exit_code == 0, ran.output
        assert shown.invoke().rows() == [(0,)]
