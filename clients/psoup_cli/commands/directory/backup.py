"""psoup backup, psoup restore: a copy of everything, and the way back."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from psoup_cli.commands.directory.doctor import NOT_EXAMINED
from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import byte_bar, print_json
from psoup_client.phrases import counted


def backup(
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="A folder that does not exist yet.", show_default=False)
    ],
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup backup /backups/monday
      psoup backup /backups/monday --address 10.0.0.5:7433

    Copy all data of a running service, as of one event, and examine the copy. The copy is a data directory: psoup
    restore copies it again, and psoup doctor examines it again.
    """
    with connect(address) as client, byte_bar("copied") as progress:
        result = client.backup(destination, progress=progress)
    _examine(destination)
    if as_json:
        print_json(dataclasses.asdict(result))
    else:
        size = f"{counted(result.files, 'file')}, {counted(result.bytes, 'byte')}"
        message(f"Copied to {destination}: everything up to event {result.sequence:,}; {size}.")


def _examine(path: Path) -> None:
    from psoup.errors import PSoupError
    from psoup_storage.durable.tools.doctor import examine

    try:
        with byte_bar("examined") as progress:
            report = examine(path, progress=progress)
    except PSoupError as problem:
        message(f"psoup: the copy was made, and could not be examined: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    if not report.well:
        message(f"psoup: the copy is damaged; see psoup doctor {path}, and the service's own directory")
        raise typer.Exit(1)


def restore(
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="A folder that psoup backup made.", show_default=False)
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The new data directory: empty, or missing.", show_default=False)
    ],
) -> None:
    """\b
    Examples:
      psoup restore /backups/monday psoup-data
      psoup serve --data-dir psoup-data

    Make a data directory of a backup, after examining it. Streams, tuples, queries and producers are as they were.
    Queries get new IDs, because the original service may still answer to the old ones. psoup queries lists the new IDs.
    """
    from psoup.errors import PSoupError
    from psoup_storage.durable.tools.backup import restore as copy

    try:
        with byte_bar("restored") as progress:
            sequence = copy(backup, directory, progress)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    message(
        f"Restored {directory}: everything up to event {sequence:,}. Queries have new IDs from the next start on (psoup"
        f" queries lists them), and their keys are as they were. Start it: psoup serve --data-dir {directory}"
    )
