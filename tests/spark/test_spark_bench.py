"""Every row of the benchmarks of Spark is measured once, tiny, in the session of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spark import spark as feed
from benchmarks.spark import spark_backfill, spark_expression, spark_stand
from psoup_testing.spark.session import needs_java
from psoup_testing.suite.bench import failures, names, run_bench

pytestmark = [needs_java, pytest.mark.slow]  # `make bench-spark` runs the same rows at their size

ROWS = (
    "spark.feed.q1024.durable spark.backfill.q4096 spark.backfill.overhead spark.attach.p99 spark.folds"
    " spark.stand.q4096"
)


def test_every_row_is_measured_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def shared() -> Iterator[Any]:
        yield spark

    def in_this_session(folder: Path, rows: int, queries: int) -> tuple[float, str]:
        return rows / spark_expression.evaluate(spark, str(folder), rows, queries), "in this session"

    for module in (feed, spark_backfill, spark_stand):
        monkeypatch.setattr(module, "spark_session", shared)
    monkeypatch.setattr(spark_expression, "measure", in_this_session)
    code, rows = run_bench(monkeypatch, tmp_path / "bench.json", "--tiny", "--only", "spark")
    assert failures(rows) == {}
    assert code == 0
    assert names(rows) == tuple(ROWS.split())
