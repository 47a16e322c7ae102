"""The printing of rows: tables for people, and JSON lines, CSV or Arrow for programs."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from typing import Any, NoReturn, TextIO

import pyarrow as pa
import pyarrow.csv
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from psoup_cli.legible import legible, legible_json
from psoup_client.times import python_values
from psoup_proto.column_names import unique_names

SAMPLE = 1_000
"""The number of first rows that decide the widths of a table's columns."""

_GAP = "   "
"""The blanks between columns, as in the part of a table that Rich prints."""

_AGAIN_SECONDS = 2.0
"""The seconds between two prints of a watched table."""

_TRAILING = re.compile(r" +$", re.MULTILINE)

WIDE = 10_000  # the width of a table that a program reads, so that no line is folded


def console(file: TextIO | None = None) -> Console:
    """Open a console for `file` (standard output by default). It obeys NO_COLOR, and a pipe gets whole lines."""
    file = file or sys.stdout
    return Console(file=file, highlight=False, emoji=False, markup=False, width=None if file.isatty() else WIDE)


def show(value: Any) -> str:
    """Write a value as people read it: times in UTC without needless digits, NULL for None."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return iso(value).replace("T", " ")
    if isinstance(value, str):
        return legible(value)
    return str(value)


def iso(value: dt.datetime) -> str:
    """Write a time in ISO 8601, in UTC: 2013-07-04T12:00:00Z."""
    return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def to_the_second(value: dt.datetime | str) -> dt.datetime | str:
    """Remove the fraction of a second, for a table that people read. Any other text is unchanged."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            return value
    return value.replace(microsecond=0)


def plain(value: Any) -> Any:
    """Convert a value to a JSON value. Times and decimals become texts, and so do NaN and the infinities."""
    if isinstance(value, dt.datetime):
        return iso(value)
    if isinstance(value, dt.date | Decimal):
        return str(value)
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value


def print_json(row: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    print(legible_json(json.dumps(plain(row), ensure_ascii=False, allow_nan=False)))


def print_table(names: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[bool] = ()) -> None:
    """Print a table without borders; `right` says which columns are aligned to the right.

    The first SAMPLE rows decide the widths of the columns. Later rows are printed as they come; a longer value shifts
    the columns to its right. So any number of rows takes the memory of the sample.
    """
    left = iter(rows)
    sample = [[show(value) for value in row] for row in islice(left, SAMPLE)]
    names = list(map(legible, names))
    widths = [max(map(cell_len, column)) for column in zip(names, *sample, strict=True)]
    aligned = [position < len(right) and right[position] for position in range(len(names))]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name, to_right in zip(names, aligned, strict=True):
        table.add_column(Text(name), justify="right" if to_right else "left", overflow="fold")
    for texts in sample:
        table.add_row(*map(Text, texts))
    _print(table)
    for row in left:
        cells = zip(map(show, row), widths, aligned, strict=True)
        print(_GAP.join(_padded(text, width, to_right) for text, width, to_right in cells).rstrip())


def print_list(
    names: Sequence[str], rows: Iterable[Sequence[Any]], facts: Iterable[Mapping[str, Any]], right: Sequence[bool] = ()
) -> None:
    """Print a list: on a terminal as a table of `rows`, in a pipe as CSV.

    The CSV has the names and values of `facts`, as --json prints them, except values that are lists.
    """
    if sys.stdout.isatty():
        print_table(names, rows, right)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, item in enumerate(facts):
        cells = {name: _cell(value) for name, value in item.items() if not isinstance(value, list | tuple)}
        if not number:
            writer.writerow(cells)
        writer.writerow(cells.values())


def _cell(value: Any) -> Any:
    """Convert a value for CSV, as for JSON, but NULL is empty and a text has no quotes."""
    value = plain(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | Mapping) else value


def _print(table: Table) -> None:
    """Print a table without the blanks after its last column."""
    out = console()
    with out.capture() as captured:
        out.print(table)
    print(_TRAILING.sub("", captured.get()), end="")


def _padded(text: str, width: int, right: bool) -> str:
    missing = " " * (width - (len(text) if text.isascii() else cell_len(text)))
    return missing + text if right else text + missing


def print_pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair on each line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(legible(name), style="bold"), Text(show(value)))
    _print(table)


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows as tuples of Python values."""
    return zip(*map(python_values, batch.columns), strict=True)


def numeric(schema: pa.Schema) -> list[bool]:
    """Return for each column whether it has numbers."""
    t = pa.types
    return [t.is_integer(f.type) or t.is_floating(f.type) or t.is_decimal(f.type) for f in schema]


def print_batches(format: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Print rows as `csv`, `json` or `arrow` (an IPC stream), as they arrive. Returns their number."""
    writers = {"csv": _csv, "json": _json, "arrow": _arrow}
    return writers[format](schema, batches)


def _json(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    count, names = 0, unique_names(schema.names)
    for batch in batches:
        for row in rows_of(batch):
            print_json(dict(zip(names, row, strict=True)))
        count += batch.num_rows
    return count


def _csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    sys.stdout.flush()
    sink = sys.stdout.buffer
    text = pa.schema([pa.field(f.name, pa.string() if pa.types.is_temporal(f.type) else f.type) for f in schema])
    count = 0
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with pyarrow.csv.CSVWriter(sink, text, write_options=options) as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays([_times_as_text(c) for c in batch.columns], schema=text))
            count += batch.num_rows
    sink.flush()
    return count


def _times_as_text(column: pa.Array) -> pa.Array:
    if not pa.types.is_temporal(column.type):
        return column
    values = python_values(column)
    return pa.array([None if value is None else plain(value) for value in values], pa.string())


def _arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    sys.stdout.flush()
    count = 0
    with pa.ipc.new_stream(sys.stdout.buffer, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    sys.stdout.buffer.flush()
    return count


@contextmanager
def row_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, if that is a terminal.

    The yielded function takes the finished rows and all rows.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def byte_bar(description: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on standard error, if that is a terminal.

    The yielded function takes the name of the present work, the finished bytes and all bytes.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(description, total=None)
        yield lambda name, done, total: bar.update(task, description=name, completed=done, total=total)


def live_table(table: Callable[[], list[tuple[str, ...]]], right: Collection[str]) -> NoReturn:
    """Show a table every two seconds, until Ctrl-C.

    The first line names the columns; `right`: the columns of numbers.
    """
    with Live(console=console(), auto_refresh=False, screen=False) as live:
        while True:
            lines = [tuple(map(legible, line)) for line in table()]
            widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
            aligned = [
                "  ".join(
                    cell.rjust(width) if name in right else cell.ljust(width)
                    for name, cell, width in zip(lines[0], line, widths, strict=True)
                )
                for line in lines
            ]
            live.update(Text("\n".join(aligned), no_wrap=True, overflow="ellipsis"), refresh=True)
            time.sleep(_AGAIN_SECONDS)


def watched(show: Callable[[], None]) -> NoReturn:
    """Call `show` every two seconds, until Ctrl-C. Each output is flushed, for a program that reads it at once."""
    while True:
        show()
        sys.stdout.flush()
        time.sleep(_AGAIN_SECONDS)
