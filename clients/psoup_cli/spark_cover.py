"""psoup spark cover: queries that came later, evaluated over what is on disk, by a job; and how far a job is."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import print_json
from psoup_cli.spark import Conf, Master, PatienceSeconds, open_session, spark_module


def cover(
    query_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID ...]", help="Queries of one stream.", show_default=False)
    ] = None,
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="NAME", help="All queries that stand on this stream.")
    ] = None,
    patience: PatienceSeconds = 600.0,
    master: Master = "local[*]",
    conf: Conf = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup spark cover q-7f3a91c2-12
      psoup spark cover --stream flights

    Evaluate queries over the chunks on disk that nothing has evaluated for them: history that was attached, and
    archives. Answers are the same before and after, and afterwards an invocation reads what was found; psoup explain
    says which part is covered. A job that is killed leaves nothing that is seen; run it again. The service's data
    directory must be on a file system that Spark shares.
    """
    if not query_ids and stream is None:
        raise typer.BadParameter("name queries by their IDs, or all of a stream with --stream NAME")
    psoup_spark = spark_module()
    with connect(address) as client:
        where = client.address
        client.info()  # known to be there before Spark starts
    spark = open_session(master, conf)
    with psoup_spark.spark_errors(), job_meter(stream or "cover") as progress:
        wanted = query_ids or ()
        result = psoup_spark.cover(spark, wanted, stream=stream, address=where, patience=patience, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(result))
    elif result.chunks:
        found = f"{result.rows:,} rows in {result.chunks:,} chunks for {result.queries:,} queries"
        before = f"{result.before:,} chunks had been covered{_gone(result.gone)}"
        message(f"Evaluated {found}: {result.matches:,} matches; {before}.")
    else:
        message(f"Nothing to do: {result.before:,} chunks on disk are covered{_gone(result.gone)}.")


def _gone(count: int) -> str:
    return f", {count:,} expired or were covered by another job meanwhile" if count else ""


@contextmanager
def job_meter(name: str) -> Iterator[Callable[[Any], None] | None]:
    """Rows of all, chunks, rows a second of a job, on standard error; None if that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        task, shown = bars.add_task(f"{name}: starting", total=None), Meter(name)
        yield lambda progress: bars.update(
            task, description=shown.text(progress), completed=progress.rows, total=progress.total or None
        )


class Meter:
    """Progress as a line of text: the rate is of the time since the first rows were there."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def text(self, progress: Any) -> str:
        """The line for a `psoup_spark.Progress`."""
        now, (ended, tasks) = self._clock(), progress.tasks
        parts = [f"{self._name}: {progress.phase}"]
        if progress.total:
            parts.append(f"{progress.rows:,} of {progress.total:,} rows")
        if progress.rows and self._first is None:
            self._first = now, progress.rows
        if self._first is not None:
            start, rows = self._first
            rate = (progress.rows - rows) / (now - start) if now > start else 0.0
            parts.append(f"{progress.chunks:,} chunks" + (f", {rate:,.0f} rows/s" if rate else ""))
        elif tasks:
            parts.append(f"{ended} of {tasks} tasks")
        return ", ".join(parts)
