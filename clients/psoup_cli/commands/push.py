"""psoup push: rows of a file into a stream."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from psoup_cli.common import Address, AsJson, Since, Timeout, connect, message
from psoup_cli.files import FilePiece, format_of, open_rows
from psoup_cli.output import iso, print_json
from psoup_client import (
    Client,
    FailedPrecondition,
    InvalidData,
    Producer,
    PSoupError,
    PushResult,
    ResourceExhausted,
    Stage,
    StreamInfo,
)
from psoup_client.wording import counted, verb


class FileFormat(StrEnum):
    """Formats that can be read."""

    csv = "csv"
    json = "json"
    parquet = "parquet"
    arrow = "arrow"


def push(
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="The stream that takes the rows.", show_default=False)
    ],
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.", show_default=False)],
    format: Annotated[
        FileFormat | None, typer.Option("--format", help="Format of the file, if its name does not tell.")
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option("--null", metavar="TEXT", help="CSV: read this text as NULL (an empty field is NULL, too)."),
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
    since: Since = None,
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

    Rows that are too late, or too far ahead of the clock, are refused and counted, and the others taken. The exit code
    is 5 if rows were refused and none was taken.
    """
    _check_name(batch_id, whole, since)
    source = _PushedFile(file, kind_of(file, format), ("", *(null or ())))
    with connect(address, timeout) as client:
        if whole:
            begin = partial(client.stage, stream, producer=batch_id, since=since or 0)
            result = _push_whole(source, client, stream, begin)
        else:
            result = _push_file(source, client, stream)
    _tell(source, result, as_json)


def _check_name(batch_id: str | None, whole: bool, since: int | None) -> None:
    """Raise BadParameter for options that say nothing without another."""
    if batch_id is not None and not whole:
        raise typer.BadParameter("--id names a file that is taken as a whole; give --whole too")
    if batch_id == "":
        raise typer.BadParameter("--id is empty; name the file, or leave --id out")
    if since is not None and batch_id is None:
        raise typer.BadParameter("--since is said of a name; give --whole and --id too")


def kind_of(file: str, given: FileFormat | None) -> str:
    """Find out the format of a file; raises BadParameter if that is unclear, or if the file is missing."""
    try:
        kind = format_of(file, given.value if given else None)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    if file != "-" and not Path(file).is_file():
        raise typer.BadParameter(f"{file} is not a file")
    return kind


def _tell(source: _PushedFile, result: PushResult, as_json: bool) -> None:
    """Tell the outcome for the rows; raises FailedPrecondition (reason ROWS_REFUSED) if all were refused."""
    refused = result.late + result.ahead
    if as_json:
        print_json(dataclasses.asdict(result))
    if refused and not result.accepted:
        why = "too late" if not result.ahead else "too far ahead" if not result.late else "too late or too far ahead"
        raise FailedPrecondition(
            f"{source.name}: {counted(refused, 'row')} {verb(refused, 'is', 'are')} {why}, and none was taken",
            reason="ROWS_REFUSED",
        )
    if not as_json:
        message(summary(result) if source.rows or result.accepted else f"{source.name} has no rows.")


def _push_file(source: _PushedFile, client: Client, stream: str) -> PushResult:
    info = client.describe(stream)
    with client.producer(stream) as producer:
        try:
            for piece in source.pieces(info, lambda: producer.result):
                producer.push(piece.rows)
                if source.size is None:
                    producer.flush()  # a user who types or tails wants the rows in now
            return producer.flush()
        except (InvalidData, ResourceExhausted) as problem:
            raise source.named(problem, _taken(producer)) from None


def _push_whole(source: _PushedFile, client: Client, stream: str, begin: Callable[[], Stage]) -> PushResult:
    info = client.describe(stream)
    try:
        with begin() as stage:
            for piece in () if stage.result else source.pieces(info, PushResult):
                stage.add(piece.rows)
    except (InvalidData, ResourceExhausted) as problem:
        raise source.named(problem, "No row was taken.") from None
    assert stage.result is not None
    return stage.result


def _taken(producer: Producer) -> str:
    """Wait for the rows that were sent before the one at fault; returns the outcome for them."""
    try:
        taken = producer.flush().accepted
    except (InvalidData, ResourceExhausted):
        taken = producer.result.accepted
    return f"{counted(taken, 'row')} before it {verb(taken, 'was', 'were')} taken."


class _PushedFile:
    """A file of rows, with a bar while it is read; and where the rows are that were sent, and not replied to yet."""

    def __init__(self, file: str, kind: str, nulls: tuple[str, ...]) -> None:
        self._file, self._kind, self._nulls = file, kind, nulls
        self._pieces: deque[tuple[int, Callable[[int], str]]] = deque()
        self.name = "standard input" if file == "-" else file
        self.size = Path(file).stat().st_size if file != "-" else None
        """Bytes; None if that is not known."""
        self.rows = 0
        """Rows that were read so far."""

    def pieces(self, info: StreamInfo, replied: Callable[[], PushResult]) -> Iterator[FilePiece]:
        """Give the rows of the file; the places of those that were `replied` to are forgotten."""
        with _bar() as progress:
            task = progress.add_task(f"{info.name}", total=self.size)
            for piece in open_rows(self._file, self._kind, info, self._nulls):
                self._add(piece, replied())
                yield piece
                progress.update(task, completed=piece.position)

    def _add(self, piece: FilePiece, replied: PushResult) -> None:
        done = replied.accepted + replied.late + replied.ahead
        while len(self._pieces) > 1 and self._pieces[1][0] <= done:
            self._pieces.popleft()
        self._pieces.append((self.rows, piece.place))
        self.rows += len(piece.rows)

    def named(self, problem: PSoupError, outcome: str) -> PSoupError:
        """Make the same problem with the place in the file instead of the row, and the outcome for the others."""
        row, pushed = problem.facts.get("row", ""), problem.facts.get("pushed_row", "")
        message = re.sub(r"^part '[^']*': ", "", problem.message)  # ours: the file knows nothing of parts
        if row.isdigit() and self._pieces:
            first, place = self._pieces[-1]
            if pushed.isdigit():  # refused by the service: perhaps of an earlier piece
                first, place = next(p for p in reversed(self._pieces) if p[0] <= int(pushed))
            where = place(int(pushed) - first if pushed.isdigit() else int(row))
            message, count = re.subn(rf"\brow {row}\b", where, message, count=1)
            message = message if count else f"{where}: {message}"
        return type(problem)(f"{self.name}: {message}\n{outcome}", reason=problem.reason, facts=problem.facts)


def summary(result: PushResult) -> str:
    """Write the outcome for the rows in a sentence."""
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
