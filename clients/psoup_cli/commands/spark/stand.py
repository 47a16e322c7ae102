"""psoup spark stand: a job that evaluates a stream's queries on Spark. One or several services serve the answers."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Annotated, Any

import typer

from psoup_cli.commands.spark.options import (
    Checkpoint,
    Conf,
    Every,
    Folder,
    Folds,
    Format,
    Functions,
    JobRefusal,
    Mapping,
    Master,
    Once,
    Options,
    PatienceSeconds,
    Quarantine,
    Refused,
    Schema,
    Select,
    TimeUnit,
    trigger_of,
    unit_of,
)
from psoup_cli.commands.spark.progress import Tell
from psoup_cli.commands.spark.run import open_session, run_stream, spark_module
from psoup_cli.common import Address, AsJson, message
from psoup_cli.feed_options import pairs
from psoup_cli.output import print_json
from psoup_client.phrases import counted

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream that gets the rows.", show_default=False)]
Attach = Annotated[
    list[str] | None,
    typer.Option("--attach", metavar="HOST:PORT", help="Attach batches to this service; may be given again."),
]
Shared = Annotated[
    str | None,
    typer.Option("--shared", metavar="DIR", help="Folder for batches; by default that of the first service."),
]


def stand(
    stream: Stream,
    checkpoint: Checkpoint,
    attach: Attach = None,
    shared: Shared = None,
    format: Format = "parquet",
    path: Folder = None,
    option: Options = None,
    schema: Schema = None,
    select: Select = None,
    mapping: Mapping = None,
    quarantine: Quarantine = None,
    time_unit: TimeUnit = None,
    refused: Refused = JobRefusal.COUNT,
    every: Every = None,
    once: Once = False,
    fold: Folds = None,
    functions: Functions = None,
    patience: PatienceSeconds = 600.0,
    master: Master = "local[*]",
    conf: Conf = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup spark stand clicks --path incoming/ --checkpoint stand-clicks
      psoup spark stand clicks --path /lake/clicks --checkpoint /lake/stand-clicks --master spark://host:7077
        --shared /lake/psoup --attach one:7433 --attach two:7433

    Use it for a stream that outgrows one machine. Spark sorts its rows, evaluates all registered queries over them, and
    writes rows and matches to shared storage. Services attach them, each batch once, and serve the answers. If any part
    was killed, the same command with the same checkpoint goes on. Such a stream takes no pushes.
    """
    trigger, unit = trigger_of(every, once), unit_of(time_unit)
    psoup_spark = spark_module()
    source = psoup_spark.Source(format, path, pairs("--option", option), schema, select, time_unit=unit)
    first, others = attach[0] if attach else address, (attach or [])[1:]
    settings: dict[str, Any] = {"shared": shared, "quarantine": quarantine, "mapping": pairs("--mapping", mapping)}
    settings |= {"time_unit": unit, "refused": refused.value, "functions": functions or (), "fold": fold or ()}

    def start(rows: Any, where: str, tell: Tell) -> Any:
        arguments: dict[str, Any] = {"trigger": trigger, "patience": patience, "progress": tell}
        return psoup_spark.stand(
            rows, stream, checkpoint=checkpoint, addresses=[where, *others], **settings, **arguments
        )

    session = partial(open_session, master, conf)
    result = run_stream(source, stream, first, session, start, lambda batch: batch.rows)
    if as_json:
        print_json(dataclasses.asdict(result))
    else:
        message(_summary(result))


def _summary(result: Any) -> str:
    said = f"Attached {counted(result.rows, 'row')} in {counted(result.chunks, 'chunk')}"
    for count, noun in (
        (result.held, "wait for the watermark"),
        (result.late, "came late"),
        (result.ahead, "are too far past the clock"),
        (result.bad, "do not fit"),
    ):
        said += f"; {count:,} {noun}" if count else ""
    return f"{said}."
