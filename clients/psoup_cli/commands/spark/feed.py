"""psoup spark feed: a stream from a Structured Streaming source, each row exactly once."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from psoup_cli.commands.spark.options import (
    Checkpoint,
    Conf,
    Every,
    Folder,
    Format,
    JobRefusal,
    Master,
    Once,
    Options,
    PatienceSeconds,
    Refused,
    Schema,
    Select,
    TimeUnit,
    trigger_of,
    unit_of,
)
from psoup_cli.commands.spark.progress import Tell
from psoup_cli.commands.spark.run import open_session, run_stream, spark_module
from psoup_cli.commands.streams.push import facts, summary
from psoup_cli.common import Address, AsJson, Since, message
from psoup_cli.feed_options import pairs
from psoup_cli.output import print_json

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream that takes the rows.", show_default=False)]
Watermark = Annotated[
    str | None,
    typer.Option("--watermark", metavar="DELAY", help="Rows come at most this late; gives the stream its heartbeats."),
]


def feed(
    stream: Stream,
    checkpoint: Checkpoint,
    format: Format = "parquet",
    path: Folder = None,
    option: Options = None,
    schema: Schema = None,
    select: Select = None,
    time_unit: TimeUnit = None,
    watermark: Watermark = None,
    refused: Refused = JobRefusal.COUNT,
    every: Every = None,
    once: Once = False,
    since: Since = None,
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

    Run a Structured Streaming query from a source of Spark into a stream, each row exactly once. If any part was
    killed, the same command with the same checkpoint goes on. Columns are found by name. A batch of files is at most 64
    MB unless --option maxBytesPerTrigger or maxFilesPerTrigger says otherwise.
    """
    trigger, unit = trigger_of(every, once), unit_of(time_unit)
    psoup_spark = spark_module()
    source = psoup_spark.Source(format, path, pairs("--option", option), schema, select, watermark, unit)

    def start(rows: Any, where: str, tell: Tell) -> Any:
        arguments: dict[str, Any] = {"address": where, "trigger": trigger, "patience": patience, "since": since or 0}
        arguments |= {"time_unit": unit, "refused": refused.value}
        return psoup_spark.feed(rows, stream, checkpoint=checkpoint, progress=tell, **arguments)

    session = partial(open_session, master, conf)
    result = run_stream(source, stream, address, session, start, lambda batch: batch.accepted)
    if as_json:
        print_json(facts(result))
    else:
        message(summary(result))
