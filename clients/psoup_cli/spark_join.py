"""psoup spark join: a stream whose data meets its queries on Spark; one or several services serve the answers."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import print_json
from psoup_cli.spark import (
    Checkpoint,
    Conf,
    Every,
    Folder,
    Format,
    Master,
    Once,
    Options,
    PatienceSeconds,
    Schema,
    Select,
    meter,
    open_session,
    pairs,
    spark_module,
    trigger_of,
)


def join(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Whose rows they are.", show_default=False)],
    checkpoint: Checkpoint,
    attach: Annotated[
        list[str] | None,
        typer.Option("--attach", metavar="HOST:PORT", help="A service that serves the stream; may be given again."),
    ] = None,
    shared: Annotated[
        str | None,
        typer.Option("--shared", metavar="DIR", help="Where batches are written; by default with the first service."),
    ] = None,
    format: Format = "parquet",
    path: Folder = None,
    option: Options = None,
    schema: Schema = None,
    select: Select = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--mapping", metavar="COLUMN=EXPRESSION", help="What a column is, in Spark's SQL; may be repeated."
        ),
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option("--quarantine", metavar="DIR", help="Where rows go that do not fit, with the reason.")
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
      psoup spark join clicks --path incoming/ --checkpoint join-clicks
      psoup spark join clicks --path /lake/clicks --checkpoint /lake/join-clicks --master spark://host:7077
        --shared /lake/psoup --attach one:7433 --attach two:7433

    For a stream that outgrows one machine: Spark sorts its rows, evaluates all registered queries over them, and
    writes both to shared storage; services attach that, each batch once, and serve the answers. Whatever is killed,
    the same command with the same checkpoint goes on. Such a stream takes no pushes.
    """
    trigger = trigger_of(every, once)
    psoup_spark = spark_module()
    source = psoup_spark.Source(format, path, pairs("--option", option), schema, select)
    with connect(attach[0] if attach else address) as client:
        info = client.describe(stream)  # known to be there before Spark starts
        where = client.address
    # Java is started by a fork, which a client that is open does not survive.
    with psoup_spark.spark_errors():
        rows = source.open(open_session(master, conf), info)
        with meter(stream, lambda result: result.rows) as progress:
            running = psoup_spark.join(
                rows,
                stream,
                checkpoint=checkpoint,
                addresses=[where, *(attach or [])[1:]],
                shared=shared,
                mapping=pairs("--mapping", mapping),
                quarantine=quarantine,
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
        message(_summary(running.result))


def _summary(result: Any) -> str:
    said = f"Attached {result.rows:,} rows in {result.chunks:,} chunks"
    for count, what in (
        (result.held, "wait for the watermark"),
        (result.late, "came late"),
        (result.ahead, "are too far past the clock"),
        (result.bad, "do not fit"),
    ):
        said += f"; {count:,} {what}" if count else ""
    return f"{said}."
