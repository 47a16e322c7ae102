"""A push of files: fitting rows go to a sender, the other rows to a file of rejects.

    files ──open_rows──> pieces ──sift──> tables ──> producer or stage ──> replies: numbers of late rows
                           └───────────────┴──> rejects: file, line, reason, row <───┘      without --rejects: an error

The place of a row is kept until the service has replied to it. On a terminal a bar shows the progress of reading.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from psoup_cli.files.options import FileOptions
from psoup_cli.files.row_files import FilePiece, Refused, open_rows
from psoup_client import (
    Client,
    FailedPrecondition,
    InvalidData,
    PSoupError,
    PushResult,
    RefusedRows,
    RowsRefused,
    StreamInfo,
)
from psoup_client.columns.convert import to_table
from psoup_client.columns.zones import have_no_zone
from psoup_client.ingest.deletions import check_table, marked, of_keys
from psoup_client.ingest.patches import as_patches, check_same_columns
from psoup_client.ingest.row_filter import sift

SHOWN = 10
"""The number of rejected rows to print if they are not written to a file."""

_LONGEST_ROW = 65_536

_LATE = "it is too late: its time is below the watermark of the stream"
_ZONELESS = "The times have no zone and were taken as UTC; if that is wrong, give --timezone NAME"
_OLDER = (
    "Late rows are older than the newest row by more than the stream's LATENESS: push files in the order of time, or"
    " give the stream a greater one (ALTER STREAM … LATENESS)"
)
_EARLY = (
    "Rows that are too far ahead are later than the service's clock by more than the stream's AHEAD: correct their"
    " times, or give the stream a greater one (ALTER STREAM … AHEAD)"
)
_AHEAD = "it is too far ahead of the clock: the sender's clock is fast, or the stream needs a greater AHEAD"


class Rejects:
    """The rejected rows. They are counted, and written to a CSV file if one is given."""

    def __init__(self, path: str | None, files: Sequence[str]) -> None:
        self.count = 0
        self.first: list[str] = []
        """The first rejected rows, for a message."""
        self._file: TextIO | None = None
        if path is not None:
            for file in files:
                if file != "-" and os.path.exists(path) and os.path.samefile(path, file):
                    raise InvalidData(f"--rejects {path} is the file that is read; name another")
            self._file = open(path, "w", newline="", encoding="utf-8")  # noqa: SIM115 - closed by `close`
            self._rows = csv.writer(self._file, lineterminator="\n")
            self._rows.writerow(("file", "line", "reason", "row"))

    def add(self, file: str, refused: Sequence[Refused]) -> None:
        """Count and write rejected rows of one file, in the order of their places."""
        for row in refused:
            self.count += 1
            if len(self.first) < SHOWN:
                self.first.append(f"{file}: {row}")
            self.note(file, row)

    def note(self, file: str, row: Refused) -> None:
        """Write a row without counting it, because the service has counted it. Does nothing without a file."""
        if self._file is not None:
            text = row.row if len(row.row) <= _LONGEST_ROW else row.row[:_LONGEST_ROW] + "…"
            self._rows.writerow((file, row.number, row.reason, text))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, slots=True)
class _Sent:
    """A sent piece: the numbers of its rows among all rows, their places in the file, and their original texts."""

    first: int
    stop: int
    file: str
    place: Callable[[int], str]
    written: Callable[[int], str]


@dataclass
class PushedFiles:
    """The rows of files, with the places of sent rows that have no reply yet.

    `rejects`: takes rows that do not fit; None: the first such row is an error. `text_bytes`: the greatest size of a
    text. `deletes`: whether the rows delete their keys from a table. `patches`: whether they are patches.
    """

    files: Sequence[tuple[str, str]]
    options: FileOptions
    rejects: Rejects | None = None
    rows: int = 0
    """The number of rows that `tables` has yielded."""
    text_bytes: int = 0
    deletes: bool = False
    patches: bool = False
    zoneless: bool = False
    """Whether the times in the files have no zone, and were taken as UTC."""

    _refused: deque[RefusedRows] = field(default_factory=deque)
    """Rows that the service refused, and that are not in the file of rejects yet."""
    _sent: deque[_Sent] = field(default_factory=deque)
    _file: str = ""

    @property
    def name(self) -> str:
        """The name of the input for messages."""
        return _name(self.files[0][0]) if len(self.files) == 1 else f"{len(self.files)} files"

    @property
    def live(self) -> bool:
        """Whether rows come from a pipe. They are then pushed at once, because a user may type them."""
        return any(path == "-" for path, _ in self.files)

    def target(self, client: Client, stream: str) -> StreamInfo:
        """Describe the stream or the table, with the columns that are read. Raises FailedPrecondition for deletions
        from a stream, for patches of one, and for a derived stream.
        """
        info = client.describe(stream)
        if info.derived is not None:
            raise FailedPrecondition(
                f"stream {info.name!r} is derived by the service, which alone adds its rows; push the rows into its"
                f" sources: {', '.join(info.derived.sources)}",
                reason="DERIVED",
            )
        if self.patches:
            check_table(info, "--patch")
        if not self.deletes:
            return info
        check_table(info, "--delete")
        return of_keys(info)

    def table(self, rows: Any, info: StreamInfo) -> pa.Table:
        """Convert rows of `tables` to the columns of a push. Raises InvalidData."""
        table = to_table(rows, info, self.options.times)
        if self.patches:
            return as_patches(info, table)
        return marked(table) if self.deletes else table

    def tables(self, info: StreamInfo, replied: Callable[[], PushResult]) -> Iterator[Any]:
        """Yield the rows of the files. Places of rows that `replied` counts are forgotten."""
        sizes = [0 if path == "-" else Path(path).stat().st_size for path, _ in self.files]
        with _bar() as progress:
            task = progress.add_task(info.name, total=None if self.live else sum(sizes), rows=0)
            for at, (path, kind) in enumerate(self.files):
                self._file = _name(path)
                for piece in open_rows(path, kind, info, self.options):
                    zoneless = self.options.times.zone is None and have_no_zone(piece.rows, info.time_column)
                    self.zoneless = self.zoneless or zoneless
                    rows, place, written = self._taken(piece, info)
                    self._add(_Sent(self.rows, self.rows + len(rows), self._file, place, written), replied())
                    if len(rows):
                        yield rows
                    progress.update(task, completed=sum(sizes[:at]) + piece.position, rows=self.rows)

    def _taken(self, piece: FilePiece, info: StreamInfo) -> tuple[Any, Callable[[int], str], Callable[[int], str]]:
        """Return the rows of a piece that may be sent.

        Also returns a function for their places in the file, and one for their original texts.
        """
        if self.patches:
            _check_patches(piece)
        if self.rejects is None:
            piece.check()
            return piece.rows, piece.place, piece.written
        sifted = sift(piece.rows, info, self.options.times, self.text_bytes)
        others = [Refused(piece.place(row), why, piece.written(row)) for row, why in sifted.refused.items()]
        self.rejects.add(self._file, sorted(piece.refused + others, key=lambda row: row.number))
        rows = sifted.kept
        return sifted.table, lambda row: piece.place(int(rows[row])), lambda row: piece.written(int(rows[row]))

    def _add(self, sent: _Sent, replied: PushResult) -> None:
        self.write_refused()
        done = replied.accepted + replied.late + replied.ahead
        while len(self._sent) > 1 and self._sent[1].first <= done:
            self._sent.popleft()
        self._sent.append(sent)
        self.rows = sent.stop

    def take_refused(self, refused: RefusedRows) -> None:
        """Store rows that the service refused, by their numbers among all yielded rows. Any thread may call it."""
        self._refused.append(refused)

    def write_refused(self) -> None:
        """Write the rows that the service has refused so far."""
        while self._refused:
            refused = self._refused.popleft()
            for sent in self._sent:
                self._write(refused, sent)

    def find_refused(self, refused: RefusedRows, info: StreamInfo) -> None:
        """Write refused rows whose places are forgotten. This reads the files once more; a pipe's places are never
        forgotten.
        """
        if self.live:
            self.take_refused(refused)
            self.write_refused()
            return
        again = replace(self, rejects=Rejects(None, ()), rows=0, _refused=deque(), _sent=deque())
        for _ in again.tables(info, lambda: PushResult(accepted=again.rows)):
            self._write(refused, again._sent[-1])

    def _write(self, refused: RefusedRows, sent: _Sent) -> None:
        assert self.rejects is not None
        for numbers, why in ((refused.late, _LATE), (refused.ahead, _AHEAD)):
            for number in numbers[bisect_left(numbers, sent.first) : bisect_left(numbers, sent.stop)]:
                row = number - sent.first
                self.rejects.note(sent.file, Refused(sent.place(row), why, sent.written(row)))

    def named(self, problem: PSoupError, outcome: str) -> PSoupError:
        """Return the same error with the place in the file instead of the row. `outcome`: a sentence about the other
        rows.
        """
        row, pushed = problem.facts.get("row", ""), problem.facts.get("pushed_row", "")
        message = re.sub(r"^part '[^']*': ", "", problem.message)  # the user knows no parts, only the file
        file = self._file or self.name
        if row.isdigit() and self._sent:
            sent = self._sent[-1]
            if pushed.isdigit():  # the service refused it, perhaps in an earlier piece
                sent = next(p for p in reversed(self._sent) if p.first <= int(pushed))
            where, file = sent.place(int(pushed) - sent.first if pushed.isdigit() else int(row)), sent.file
            message, count = re.subn(rf"\brow {row}\b", where, message, count=1)
            message = message if count else f"{where}: {message}"
        message = f"{_with_flags(message)}{self._hints(problem)}\n{outcome}"
        return type(problem)(f"{file}: {message}", reason=problem.reason, facts=problem.facts)

    def hints(self, late: int, ahead: int) -> list[str]:
        """Return sentences about rows that were refused for their times, without their full stops."""
        zoneless = bool(late + ahead) and self.zoneless
        return [*[_ZONELESS] * zoneless, *[_OLDER] * bool(late), *[_EARLY] * bool(ahead)]

    def _hints(self, problem: PSoupError) -> str:
        hints = self.hints(problem.late, problem.ahead) if isinstance(problem, RowsRefused) else []
        hints = [hint for hint in hints if hint != _EARLY]  # the service's message has it
        return "".join(f". {hint}" for hint in hints)

    def refused(self, problem: RowsRefused, info: StreamInfo) -> RowsRefused:
        """Return the same error with the place of the first refused row, for rows sent as a whole. None was taken.

        If the place is forgotten, this reads the files once more; a pipe keeps the number of the row.
        """
        row, message = problem.facts.get("row", ""), _with_flags(problem.message) + self._hints(problem)
        sent = self._piece_of(int(row), info) if row.isdigit() else None
        if sent is None:
            return RowsRefused(f"{self.name}: {message}", reason=problem.reason, facts=problem.facts)
        message = re.sub(rf"\brow {row}\b", sent.place(int(row) - sent.first), message, count=1)
        return RowsRefused(f"{sent.file}: {message}", reason=problem.reason, facts=problem.facts)

    def _piece_of(self, row: int, info: StreamInfo) -> _Sent | None:
        """Find the piece with a row, by its number among all rows."""
        for sent in self._sent:
            if sent.first <= row < sent.stop:
                return sent
        if self.live:
            return None
        again = replace(self, rejects=self.rejects and Rejects(None, ()), rows=0, _refused=deque(), _sent=deque())
        for _ in again.tables(info, lambda: PushResult(accepted=again.rows)):
            if again.rows > row:
                return again._sent[-1]
        return None


def _check_patches(piece: FilePiece) -> None:
    """Raise InvalidData, with the place in the file, if rows of JSON lines lack columns that other rows have."""
    try:
        check_same_columns(piece.rows)
    except InvalidData as problem:
        place = piece.place(int(problem.facts["row"]))
        raise InvalidData(re.sub(r"^row \d+", place, problem.message)) from None


def _with_flags(message: str) -> str:
    """Write the arguments of `Client.push` in a message as the flags of the command."""
    return re.sub(r'\brefused="(\w+)"', r"--refused \1", message)


def _name(path: str) -> str:
    return "standard input" if path == "-" else path


class RowSpeed(ProgressColumn):
    """The number of rows read, and the rows per second."""

    def render(self, task: Task) -> Text:
        """Write the number and the rate."""
        rows, seconds = task.fields["rows"], task.elapsed or 0.0
        return Text(f"{rows:,} rows" + (f", {rows / seconds:,.0f} rows/s" if seconds > 0.5 else ""))


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        RowSpeed(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
