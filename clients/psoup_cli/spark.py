"""psoup spark feed, and what the commands of Spark share. PySpark is imported when a command needs it."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import print_json
from psoup_cli.push import summary
from psoup_client import PSoupError

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

Master = Annotated[str, typer.Option("--master", metavar="URL", help="The Spark master.")]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of the Spark session; may be given again."),
]
Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help="Where Spark remembers what was taken.", show_default=False)
]
Format = Annotated[str, typer.Option("--source", metavar="FORMAT", help="A streaming source of Spark.")]
Folder = Annotated[
    str | None, typer.Option("--path", metavar="DIR", help="The folder that files arrive in, for file sources.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the source; may be given again."),
]
Schema = Annotated[
    str | None, typer.Option("--schema", metavar="DDL", help="What the files hold, if not the columns of the stream.")
]
Select = Annotated[
    str | None,
    typer.Option("--select", metavar="EXPRESSIONS", help="What becomes of the source's columns, in Spark's SQL."),
]
Every = Annotated[
    str | None, typer.Option("--every", metavar="INTERVAL", help="Take a batch this often; by default at once.")
]
Once = Annotated[bool, typer.Option("--once", help="Take what is there, then end.")]
PatienceSeconds = Annotated[
    float, typer.Option("--patience", metavar="SECONDS", help="Wait this long for a service that is away.", min=0)
]


class NoSpark(PSoupError):
    """PySpark is not installed."""

    reason = "NO_SPARK"


def spark_module() -> ModuleType:
    """`psoup_spark`; raises NoSpark, which names the extra."""
    try:
        import psoup_spark
    except ModuleNotFoundError as problem:
        if problem.name not in ("pyspark", "pandas", "py4j"):
            raise
        raise NoSpark(f"{problem.name} is not installed; install the extra: pip install 'psoup[spark]'") from None
    return psoup_spark


def open_session(master: str, conf: list[str] | None) -> Any:
    """The Spark session of one command, after its --master and --conf."""
    return spark_module().session(master, conf=pairs("--conf", conf))


def pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """KEY=VALUE texts as a dict; a usage error for what is none."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{flag} {text!r} is not of the form KEY=VALUE")
        found[key] = value
    return found


def trigger_of(every: str | None, once: bool) -> dict[str, Any] | None:
    """What --every and --once mean to Spark; a usage error for both."""
    if every and once:
        raise typer.BadParameter("--once ends after what is there, and --every goes on; give one of them")
    return {"availableNow": True} if once else {"processingTime": every} if every else None


@app.command("feed", short_help="Feed a stream from a Structured Streaming source.")
def feed(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Where the rows go.", show_default=False)],
    checkpoint: Checkpoint,
    format: Format = "parquet",
    path: Folder = None,
    option: Options = None,
    schema: Schema = None,
    select: Select = None,
    watermark: Annotated[
        str | None,
        typer.Option("--watermark", metavar="DELAY", help="Nothing comes later than this: the stream's heartbeat."),
    ] = None,
    every: Every = None,
    once: Once = False,
    patience: PatienceSeconds = 600.0,
    master: Master = "local[*]",
    conf: Conf = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup spark feed flights --path incoming/ --checkpoint feed-flights
      psoup spark feed flights --source csv --option header=true --path incoming/ --checkpoint c --once
      psoup spark feed ticks --source rate --option rowsPerSecond=1000 --checkpoint c
        --select "timestamp AS at, value AS n" --watermark "10 seconds"

    Run a Structured Streaming query from a source of Spark into a stream, each row exactly once: whatever is killed,
    the same command with the same checkpoint goes on. Columns go by name. A batch of files is at most 64 MB unless
    --option maxBytesPerTrigger or maxFilesPerTrigger says otherwise.
    """
    trigger = trigger_of(every, once)
    psoup_spark = spark_module()
    source = psoup_spark.Source(format, path, pairs("--option", option), schema, select, watermark)
    with connect(address) as client:
        info = client.describe(stream)  # known to be there before Spark starts
        where = client.address
    # Java is started by a fork, which a client that is open does not survive.
    with psoup_spark.spark_errors():
        rows = source.open(open_session(master, conf), info)
        with meter(stream, lambda result: result.accepted) as progress:
            running = psoup_spark.feed(
                rows,
                stream,
                checkpoint=checkpoint,
                address=where,
                trigger=trigger,
                patience=patience,
                progress=progress,
            )
            try:
                running.wait()
            finally:
                running.stop()
    if as_json:
        print_json(dataclasses.asdict(running.result))
    else:
        message(summary(running.result))


@contextmanager
def meter(stream: str, count: Callable[[Any], int]) -> Iterator[Callable[[int, Any], None]]:
    """A line on standard error, if that is a terminal: batches, rows (`count` of a batch's result), rows a second."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"{stream}: waiting for rows")
        rows, start = 0, time.monotonic()

        def tell(number: int, result: Any) -> None:
            nonlocal rows
            rows += count(result)
            rate = rows / max(time.monotonic() - start, 1e-3)
            bar.update(task, description=f"{stream}: batch {number}, {rows:,} rows, {rate:,.0f} rows/s")

        yield tell
