"""psoup dump, psoup load: a stream as Parquet files, and back."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from psoup_cli.commands.streams.push import summary
from psoup_cli.common import Address, AsJson, Since, connect, message
from psoup_cli.output import print_json, row_bar
from psoup_client.phrases import counted, verb


def dump(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="A folder that does not exist yet.", show_default=False)
    ],
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup dump flights flights-dump
      duckdb -c "SELECT count(*) FROM 'flights-dump/*.parquet'"

    Write all kept tuples of a stream as Parquet files in a new folder, with their IDs and times (_id, _time). A file
    beside them describes the stream. psoup load makes a stream from the folder.
    """
    with connect(address) as client, row_bar(stream) as progress:
        dumped = client.dump(stream, destination, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(dumped))
        return
    message(f"Dumped {counted(dumped.rows, 'row')} to {destination}, {counted(len(dumped.files), 'file')}.")
    if dumped.pending:
        message(
            f"{counted(dumped.pending, 'tuple')} still waiting for the watermark"
            f" {verb(dumped.pending, 'is', 'are')} not in it; see: psoup heartbeat"
        )


def load(
    source: Annotated[Path, typer.Argument(metavar="DUMP", help="A folder that psoup dump made.", show_default=False)],
    stream: Annotated[
        str | None,
        typer.Option("--stream", metavar="NAME", help="Load into this stream; by default the stream of the dump."),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Load even if the stream has tuples of another origin.")
    ] = False,
    since: Since = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup load flights-dump
      psoup load flights-dump --stream flights_2013

    Push a dump into a stream. A missing stream is created. Each row is taken once: an interrupted or repeated load goes
    on where it ended. In a stream without a time column the tuples get the time of the load.

    A stream that has other tuples is refused unless you add --append, because its rows might be doubled. Rows that its
    watermark has passed are not sent. The exit code is 0 only if all rows of the dump are in the stream.
    """
    with connect(address) as client, row_bar("loaded") as progress:
        result = client.load(source, stream, append=append, since=since or 0, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(result))
        return
    message(summary(result))
    if result.duplicates:
        message(f"{counted(result.duplicates, 'batch')} had been loaded before.")
