"""psoup backup, psoup restore: a copy of everything, and the way back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from psoup_cli.commands.directory.doctor import NOT_EXAMINED
from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import byte_bar, print_json
from psoup_client.phrases import counted
from psoup_client.times import to_micros

Progress = Callable[[str, int, int], None]
"""Takes the name of the present work, the finished bytes and all bytes."""


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
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder that psoup backup made, or a copy that psoup serve --replicate made.",
            show_default=False,
        ),
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The new data directory: empty, or missing.", show_default=False)
    ],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Of a copy: as of this time (ISO 8601; without a zone, UTC).", show_default=False
        ),
    ] = None,
    sequence: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Of a copy: as of this event.", show_default=False)
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Of a copy: go on with it, and stop the service that wrote it.")
    ] = False,
) -> None:
    """\b
    Examples:
      psoup restore /backups/monday psoup-data
      psoup restore s3://bucket/psoup psoup-data --at 2026-11-28T10:15:00Z
      psoup serve --data-dir psoup-data

    Make a data directory of a backup, after examining it. Streams, tuples, queries and producers are as they were.
    Queries get new IDs, because the original service may still answer to the old ones. psoup queries lists the new IDs.

    A copy of psoup serve --replicate can be restored as of an event (--sequence) or a moment (--at).

    With --take-over the new directory goes on with the copy: psoup serve --data-dir DIR --replicate SOURCE. The service
    that wrote the copy stops at its next write to it, or within seconds. Its directory is not served with this copy any
    more.
    """
    from psoup.errors import PSoupError

    try:
        with byte_bar("restored") as progress:
            reached = _restored(source, directory, at, sequence, take_over, progress)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    message(
        f"Restored {directory}: everything up to event {reached:,}. Queries have new IDs from the next start on (psoup"
        f" queries lists them), and their keys are as they were. Start it: psoup serve --data-dir {directory}"
        f"{f' --replicate {source}' if take_over else ''}"
    )


def _restored(
    source: str, directory: Path, at: str | None, sequence: int | None, take_over: bool, progress: Progress
) -> int:
    """Restore a backup or a copy. Returns the last event that was restored."""
    from psoup.errors import InvalidInput
    from psoup_proto.file_names import DATABASE
    from psoup_storage.durable.tools.backup import restore as restore_backup
    from psoup_storage.replica.restore import Wanted, is_copy, restore_copy

    if not is_copy(source):
        if not (Path(source) / DATABASE).exists():
            raise InvalidInput(f"{source} is neither a backup (psoup backup) nor a copy (psoup serve --replicate)")
        if at is not None or sequence is not None or take_over:
            raise InvalidInput(
                f"{source} is a backup, which has one moment; --at, --sequence and --take-over are for copies"
            )
        return restore_backup(source, directory, progress)
    if take_over and (at is not None or sequence is not None):
        raise typer.BadParameter("--take-over restores everything that the copy has; leave out --at and --sequence")
    if at is not None and sequence is not None:
        raise typer.BadParameter("--at and --sequence exclude each other; give one of them")
    wanted = Wanted()
    if at is not None:
        try:
            wanted = wanted._replace(time=to_micros(at))
        except ValueError as problem:
            raise typer.BadParameter(str(problem)) from None
    if sequence is not None:
        wanted = wanted._replace(sequence=sequence)
    restored = restore_copy(source, directory, wanted, progress, takes_over=take_over)
    if restored.missing:
        message(f"psoup: the copy has later events, which cannot be restored: {restored.missing}")
    return restored.sequence
