"""The Spark session and the run of a streaming query, for all commands of Spark. They import PySpark on demand."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperGroup

from psoup_cli.commands.spark.progress import Tell, meter
from psoup_cli.common import connect
from psoup_cli.feed_options import pairs
from psoup_client import PSoupError

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def spark() -> None:
    """\b
    Examples:
      psoup spark feed flights --path incoming/ --checkpoint feed-flights
      psoup spark backfill flights --input 'history/*.parquet'
      psoup spark stand clicks --path incoming/ --checkpoint stand-clicks
      psoup spark cover --stream flights

    Feed streams from Spark, attach history, and evaluate queries there. Needs the extra psoup[spark], and Java.
    """


class NoSpark(PSoupError):
    """PySpark is not installed."""

    reason = "NO_SPARK"


def spark_module() -> ModuleType:
    """Import and return `psoup_spark`. Raises NoSpark, which names the missing extra."""
    try:
        import psoup_spark
    except ModuleNotFoundError as problem:
        if problem.name not in ("pyspark", "pandas", "py4j"):
            raise
        raise NoSpark(f"{problem.name} is not installed; install the extra: pip install 'psoup[spark]'") from None
    return psoup_spark


def open_session(master: str, conf: list[str] | None) -> Any:
    """Open the Spark session of one command from its options --master and --conf."""
    return spark_module().session(master, conf=pairs("--conf", conf))


def run_stream(
    source: Any,
    stream: str,
    address: str | None,
    session: Callable[[], Any],
    start: Callable[[Any, str, Tell], Any],
    rows_of: Callable[[Any], int],
) -> Any:
    """Run a streaming query until it ends or the user interrupts the command. Returns its result.

    `start` begins the query. It gets the rows, the service's address and a function that receives progress. `rows_of`
    returns the number of rows in a batch's result.
    """
    with connect(address) as client:
        info = client.describe(stream)  # so that a missing stream is reported before Spark starts
        where = client.address
    # Spark starts Java by a fork, and an open client does not survive it.
    with spark_module().spark_errors():
        rows = source.open(session(), info)
        with meter(stream, rows_of) as progress:
            running = start(rows, where, progress)
            try:
                running.wait()
            finally:
                running.stop()
    return running.result
