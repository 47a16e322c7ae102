"""psoup push: rows of a file into a stream."""

from __future__ import annotations

import dataclasses
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from psoup_cli.common import Address, AsJson, Timeout, connect, message
from psoup_cli.files import format_of, open_rows
from psoup_cli.output import iso, print_json
from psoup_client import Client, InvalidData, Producer, PSoupError, PushResult, ResourceExhausted
from psoup_client.wording import counted


class FileFormat(StrEnum):
    """Formats that can be read."""

    csv = "csv"
    json = "json"
    parquet = "parquet"
    arrow = "arrow"


def push(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Where the rows go.", show_default=False)],
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.", show_default=False)],
    format: Annotated[
        FileFormat | None, typer.Option("--format", help="What the file is, if its name does not say.")
    ] = None,
    null: Annotated[
        list[str] | None, typer.Option("--null", metavar="TEXT", help="CSV: this means NULL (besides an empty field).")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Take the file as a whole or not at all, visible all at once.")
    ] = False,
    batch_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="With --whole: take a file of this name once, also if it is sent again (within a week).",
        ),
    ] = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup push flights flights.parquet
      psoup push flights flights.csv --null NA
      psoup push flights monday.parquet --whole --id monday
      tail -f events.jsonl | psoup push events - --format json

    Push the rows of a CSV, JSON lines, Parquet or Arrow file. Columns are found by name; types come from the stream.
    Lost connections are repaired on the way, and no row is taken twice. A batch that does not fit, or finds no room,
    ends the push; the message says how many rows were taken before it, none with --whole.
    """
    try:
        kind = format_of(file, format.value if format else None)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    if file != "-" and not Path(file).is_file():
        raise typer.BadParameter(f"{file} is no file")
    if batch_id is not None and not whole:
        raise typer.BadParameter("--id names a file that is taken as a whole; give --whole too")
    if batch_id == "":
        raise typer.BadParameter("--id is empty; name the file, or leave --id out")
    nulls = ("", *(null or ()))
    with connect(address, timeout) as client:
        if whole:
            result = _push_whole(client, stream, file, kind, nulls, batch_id)
        else:
            result = _push_file(client, stream, file, kind, nulls)
    if as_json:
        print_json(dataclasses.asdict(result))
    else:
        message(summary(result))


def _push_file(client: Client, stream: str, file: str, kind: str, nulls: tuple[str, ...]) -> PushResult:
    info = client.describe(stream)
    with client.producer(stream) as producer, _bar() as progress:
        task = progress.add_task(f"{info.name}", total=Path(file).stat().st_size if file != "-" else None)
        rows = 0
        try:
            for piece, position in open_rows(file, kind, info, nulls):
                producer.push(piece)
                rows += len(piece)
                progress.update(task, completed=position)
                if file == "-":
                    producer.flush()  # whoever types or tails wants his rows in now
            return producer.flush()
        except (InvalidData, ResourceExhausted) as problem:
            raise _located(problem, producer, file, rows) from None


def _push_whole(
    client: Client, stream: str, file: str, kind: str, nulls: tuple[str, ...], batch_id: str | None
) -> PushResult:
    info = client.describe(stream)
    rows = 0
    with _bar() as progress:
        task = progress.add_task(f"{info.name}", total=Path(file).stat().st_size if file != "-" else None)
        try:
            with client.stage(stream, producer=batch_id) as stage:
                for piece, position in [] if stage.result else open_rows(file, kind, info, nulls):
                    stage.add(piece)
                    rows += len(piece)
                    progress.update(task, completed=position)
        except (InvalidData, ResourceExhausted) as problem:
            raise _placed(problem, file, rows, "No row was taken.") from None
    assert stage.result is not None
    return stage.result


def _located(problem: PSoupError, producer: Producer, file: str, rows: int) -> PSoupError:
    """The same problem with the row's place in the file, after what was sent before it has arrived."""
    try:
        taken = producer.flush().accepted
    except (InvalidData, ResourceExhausted):
        taken = producer.result.accepted
    return _placed(problem, file, rows, f"{taken:,} rows before it were taken.")


def _placed(problem: PSoupError, file: str, rows: int, outcome: str) -> PSoupError:
    """`rows`: of the file before the piece that does not fit."""
    row = problem.facts.get("row", "")
    place = f" (row {rows + int(row)} of the file, counted from 0)" if row.isdigit() and rows else ""
    message = f"{file}: {problem.message}{place}\n{outcome}"
    return type(problem)(message, reason=problem.reason, facts=problem.facts)


def summary(result: PushResult) -> str:
    """What became of the rows, in a sentence."""
    refused = [f"{n:,} {why}" for n, why in ((result.late, "too late"), (result.ahead, "too far ahead")) if n]
    if result.duplicates and result.duplicates == result.batches:
        return f"Nothing was sent: {counted(result.accepted, 'row')} had been taken before under this name."
    text = f"{counted(result.accepted, 'row')} taken in {counted(result.batches, 'batch')}"
    text += f"; refused: {', '.join(refused)}" if refused else ""
    return text + (f"; watermark {iso(result.watermark)}." if result.watermark else ".")


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
