"""psoup replica rejoin: a directory whose copy another service took over becomes a standby of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psoup_cli.commands.directory.doctor import NOT_EXAMINED
from psoup_cli.common import AsJson, message
from psoup_cli.output import byte_bar, iso, print_json
from psoup_client.phrases import counted
from psoup_client.times import from_micros

if TYPE_CHECKING:
    from psoup_storage.replica.rejoin import Rejoined


def rejoin(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The copy: s3://BUCKET/PREFIX, or a directory.", show_default=False)
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory of the older service.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """\b
    Examples:
      psoup replica rejoin s3://bucket/psoup psoup-data
      psoup serve --standby s3://bucket/psoup --data-dir psoup-data

    Turn a data directory into a standby of the copy, after another service took the copy over. No service may run on
    the directory.

    First, all that the copy lacks is kept in DIR/diverged: the rows of each stream as a Parquet file, and the other
    events in words. Then the old data is removed. If the command is cut off, run it again.
    """
    from psoup.errors import PSoupError
    from psoup_storage.replica.rejoin import rejoin as rejoin_copy

    try:
        with byte_bar("copied") as progress:
            result = rejoin_copy(source, directory, progress)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    if as_json:
        print_json(
            {"standby_before": result.before, "diverged": result.diverged and dataclasses.asdict(result.diverged)}
        )
    else:
        _show(result, source, directory)
    message(f"{directory} is a standby of {source}. Start it: psoup serve --standby {source} --data-dir {directory}")


def _show(result: Rejoined, source: str, directory: Path) -> None:
    diverged = result.diverged
    if result.before:
        message(f"{directory} was a standby already; nothing was changed.")
    if diverged is not None:
        print(
            f"Another service took over at {iso(from_micros(diverged.time))}. {source} lacks the events"
            f" {diverged.first:,} to {diverged.last:,} of {directory}. They are kept in {diverged.folder}:"
        )
        for stream in diverged.streams:
            tenant = "" if stream.tenant == "default" else f" of tenant {stream.tenant}"
            print(f"  {counted(stream.rows, 'row')} of {stream.stream}{tenant}: {stream.file}")
        print(f"  {counted(diverged.events, 'event')} in words: events.txt")
    elif not result.before:
        message(f"{source} has all events of {directory}, so nothing was kept apart.")
