"""psoup spark backfill: history of a stream, from any batch source of Spark."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psoup_cli.commands.spark.options import (
    Conf,
    Folds,
    Functions,
    Mapping,
    Master,
    Options,
    PatienceSeconds,
    Quarantine,
    TimeUnit,
    unit_of,
)
from psoup_cli.commands.spark.progress import job_meter
from psoup_cli.commands.spark.run import open_session, spark_module
from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.feed_options import pairs
from psoup_cli.output import print_json
from psoup_client.phrases import counted

if TYPE_CHECKING:
    from psoup_spark import BackfillResult

Input = Annotated[
    list[str], typer.Option("--input", metavar="PATH", help="Files or folders, * among them; may be given again.")
]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Leave out older rows.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Leave out later rows.")]
Job = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="NAME",
        help="Name of the job; each name is attached once. By default the input and its bounds.",
    ),
]


Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream that gets a history.", show_default=False)]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="A batch source of Spark.")]


def backfill(
    stream: Stream,
    input: Input,
    format: Format = "parquet",
    option: Options = None,
    mapping: Mapping = None,
    since: Since = None,
    until: Until = None,
    job: Job = None,
    quarantine: Quarantine = None,
    fold: Folds = None,
    functions: Functions = None,
    time_unit: TimeUnit = None,
    patience: PatienceSeconds = 600.0,
    master: Master = "local[*]",
    conf: Conf = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup spark backfill flights --input 'history/*.parquet'
      psoup spark backfill trades --input trades.csv --format csv --option header=true
        --mapping at="to_timestamp(day)" --quarantine bad-trades --until 2024-01-01T00:00:00Z

    Attach the rows of any batch source to a stream as its history, before its live data. Rows are mapped and cast to
    its columns, sorted by time, and attached in one step. A killed job changes no answer; run it again. The service's
    data directory must be on a file system that Spark shares.
    """
    unit, psoup_spark = unit_of(time_unit), spark_module()
    options, columns = pairs("--option", option), pairs("--mapping", mapping)
    name = job or " ".join([*input, since or "", until or ""]).strip()
    with connect(address) as client:
        client.describe(stream)  # so that a missing stream or service is reported before Spark starts
        where = client.address
    spark = open_session(master, conf)
    with psoup_spark.spark_errors(), job_meter(stream) as progress:
        rows = psoup_spark.nanoseconds.marked(spark.read.format(format).options(**options).load(input))
        bounds: dict[str, Any] = {"since": since, "until": until, "time_unit": unit}
        arguments: dict[str, Any] = {"address": where, "patience": patience, "progress": progress}
        arguments |= {"functions": functions or (), "fold": fold or ()}
        result = psoup_spark.backfill(
            rows, stream, job=name, mapping=columns, quarantine=quarantine, **bounds, **arguments
        )
    _report(name, result, as_json)


def _report(name: str, result: BackfillResult, as_json: bool) -> None:
    """Print the outcome of the job in words, or as JSON."""
    if as_json:
        print_json(dataclasses.asdict(result))
    elif result.duplicate:
        message(f"The job {name!r} had been attached before; nothing was done.")
    else:
        aside = f"; set aside in {result.quarantine}: {counted(result.bad, 'row')}" if result.bad else ""
        folds = f", with folds of {counted(result.folded, 'aggregate')}" if result.folded else ""
        message(f"Attached {counted(result.rows, 'row')} in {counted(result.chunks, 'chunk')}{folds}{aside}.")
