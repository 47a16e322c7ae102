"""A generated expression of Spark SQL for all queries: the matching queries of each row, as an array.

    python -m benchmarks.spark.spark_expression FOLDER ROWS QUERIES     over the first rows of the Parquet files there

In a process of its own, as what Spark does with it may not end: `measure` cuts it off.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.tool.workload import make_queries

LIMIT_S = 120.0
"""Seconds, Spark's start among them, after which it is cut off."""


def measure(folder: Path, rows: int, queries: int) -> tuple[float, str]:
    """Tuples/s (0: it did not end well), and how it ended."""
    command = [sys.executable, "-m", "benchmarks.spark.spark_expression", str(folder), str(rows), str(queries)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, problem = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return 0.0, f"{rows:,} tuples: cut off after {LIMIT_S:.0f} s"
    if process.returncode:
        said = [line for line in problem.splitlines() if line.strip()] or ["no word"]
        return 0.0, f"{rows:,} tuples: failed, {said[-1].strip()[:100]}"
    seconds = float(output.split()[-1])
    return rows / seconds, f"{rows:,} tuples in {seconds:.0f} s"


def _main(folder: str, rows: str, queries: str) -> None:
    from psoup_spark import session

    spark = session("local[2]", conf={"spark.driver.memory": "1g"})
    print(evaluate(spark, folder, int(rows), int(queries)))
    spark.stop()


def evaluate(spark: Any, folder: str, rows: int, queries: int) -> float:
    """Seconds of one expression for so many queries over the first rows of the files."""
    matched = ", ".join(
        f"IF({query.predicate()}, {number}, NULL)" for number, query in enumerate(make_queries(queries, 4))
    )
    frame = spark.read.parquet(folder).limit(rows)
    frame.count()
    start = time.perf_counter()
    matches = frame.selectExpr(f"array_compact(array({matched})) AS found")
    matches.write.mode("overwrite").parquet(str(Path(folder).with_name("one")))
    return time.perf_counter() - start


if __name__ == "__main__":
    _main(*sys.argv[1:])
