"""psoup push: rows of a file into a stream."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from psoup_cli.common import Address, AsJson, Timeout, connect, message
from psoup_cli.files import Piece, format_of, open_rows
from psoup_cli.output import iso, print_json
from psoup_client import Client, InvalidData, Producer, PSoupError, PushResult, ResourceExhausted
from psoup_client.wording import counted, verb


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
    places = _Places(file)
    with client.producer(stream) as producer, _bar() as progress:
        task = progress.add_task(f"{info.name}", total=Path(file).stat().st_size if file != "-" else None)
        try:
            for piece in open_rows(file, kind, info, nulls):
                places.add(piece, producer.result)
                producer.push(piece.rows)
                progress.update(task, completed=piece.position)
                if file == "-":
                    producer.flush()  # whoever types or tails wants his rows in now
            return producer.flush()
        except (InvalidData, ResourceExhausted) as problem:
            raise places.named(problem, _taken(producer)) from None


def _push_whole(
    client: Client, stream: str, file: str, kind: str, nulls: tuple[str, ...], batch_id: str | None
) -> PushResult:
    info = client.describe(stream)
    places = _Places(file)
    with _bar() as progress:
        task = progress.add_task(f"{info.name}", total=Path(file).stat().st_size if file != "-" else None)
        try:
            with client.stage(stream, producer=batch_id) as stage:
                for piece in [] if stage.result else open_rows(file, kind, info, nulls):
                    places.add(piece, PushResult())
                    stage.add(piece.rows)
                    progress.update(task, completed=piece.position)
        except (InvalidData, ResourceExhausted) as problem:
            raise places.named(problem, "No row was taken.") from None
    assert stage.result is not None
    return stage.result


def _taken(producer: Producer) -> str:
    """What became of the rows before the one at fault, when what was sent before it has arrived."""
    try:
        taken = producer.flush().accepted
    except (InvalidData, ResourceExhausted):
        taken = producer.result.accepted
    return f"{counted(taken, 'row')} before it {verb(taken, 'was', 'were')} taken."


class _Places:
    """Where the rows of a file are that were sent, and not replied to yet."""

    def __init__(self, file: str) -> None:
        self._file = "standard input" if file == "-" else file
        self._pieces: deque[tuple[int, Callable[[int], str]]] = deque()
        self._rows = 0

    def add(self, piece: Piece, replied: PushResult) -> None:
        """The next piece; those that were replied to are forgotten."""
        done = replied.accepted + replied.late + replied.ahead
        while len(self._pieces) > 1 and self._pieces[1][0] <= done:
            self._pieces.popleft()
        self._pieces.append((self._rows, piece.place))
        self._rows += len(piece.rows)

    def named(self, problem: PSoupError, outcome: str) -> PSoupError:
        """The same problem, with the place in the file instead of the row, and what became of the others."""
        row, pushed = problem.facts.get("row", ""), problem.facts.get("pushed_row", "")
        message = re.sub(r"^part '[^']*': ", "", problem.message)  # ours: the file knows nothing of parts
        if row.isdigit() and self._pieces:
            first, place = self._pieces[-1]
            if pushed.isdigit():  # refused by the service: perhaps of an earlier piece
                first, place = next(p for p in reversed(self._pieces) if p[0] <= int(pushed))
            found = place(int(pushed) - first if pushed.isdigit() else int(row))
            message, count = re.subn(rf"\brow {row}\b", found, message, count=1)
            message = message if count else f"{found}: {message}"
        return type(problem)(f"{self._file}: {message}\n{outcome}", reason=problem.reason, facts=problem.facts)


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
