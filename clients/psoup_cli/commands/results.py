"""psoup results: which of the newest tuples satisfy which queries, as a picture.

tuple    1 2 3        tuples down, queries across: as many as the terminal has room for
4711     # . #
4712     . . #
matched  1 0 2
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, NamedTuple

import typer
from bitarray import frozenbitarray
from rich.cells import cell_len

from psoup_cli.common import Address, AsJson, Labels, Timeout, WaitFor, connect, labels_of, message
from psoup_cli.output import WIDE, print_json, show
from psoup_client import Results
from psoup_client.times import to_micros

_MOST = 1_000
"""Tuples and queries that are drawn for a reader that is a program."""

_SHOWN, _GAP, _ID_WIDTH = 40, "   ", 8
"""Characters of a key, between two names, and of the ID of a tuple."""

_HINT = "--query, --label, --begin, --end and --last say what to show."


def results(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    query: Annotated[
        list[str] | None, typer.Option("--query", metavar="TEXT", help="ID or key of a query to show; repeatable.")
    ] = None,
    label: Labels = None,
    begin: Annotated[str | None, typer.Option("--begin", metavar="TIME", help="Tuples from this time on.")] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="Tuples up to this time.")] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", "-n", metavar="N", min=1, help="The newest N tuples; else those there is room for."),
    ] = None,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup results flights
      psoup results listings --label user=u3 --last 100
      psoup results listings --query search-1 --query search-2 --begin 2026-07-01T12:00:00Z

    Draw which tuples satisfy which queries: tuples down, the newest last, queries across; below, how many of these each
    query has. Windows of the queries are not applied. What there is no room for is left out, and said. With --json each
    line is a tuple with the IDs of its queries.
    """
    if query and label:
        raise typer.BadParameter("--query names queries; leave --label out")
    room = _room(as_json)
    tuples = last if last and as_json else min(room.tuples, last or room.tuples)
    with connect(address, timeout) as client:
        found = client.results(
            stream,
            query or None,
            _time("--begin", begin),
            _time("--end", end),
            labels=labels_of(label) or None,
            last=tuples + 1,
            limit=room.queries,
            accept_truncation=True,
            wait_for=wait_for,
        )
    more = found.end_id - found.first_id > tuples != last  # --last leaves out what was not asked for
    first = max(found.end_id - tuples, found.first_id)
    columns = [found[query_id][first - found.first_id :] for query_id in found]
    if as_json:
        for at, row in enumerate(zip(*columns, strict=True) if columns else ()):
            ids = [query_id for query_id, bit in zip(found, row, strict=True) if bit]
            print_json({"tuple_id": first + at, "query_ids": ids})
    shown = len(found) if as_json else _draw(found, first, columns, room)
    left = ["older tuples"] * more + ["later queries"] * found.more + ["names of queries"] * (shown < len(found))
    if left:
        message(f"Left out: {', '.join(left)}. {_HINT}")


class _Room(NamedTuple):
    """Tuples, queries and lines of names that there is room for, and characters in a line."""

    tuples: int
    queries: int
    names: int
    width: int


def _room(as_json: bool) -> _Room:
    """The room on the terminal; a program has more."""
    if as_json or not sys.stdout.isatty():
        return _Room(_MOST, _MOST, _MOST, WIDE)
    width, height = shutil.get_terminal_size()
    names = max(height // 3, 1)
    return _Room(max(height - names - 4, 1), max((width - _ID_WIDTH) // 2, 1), names, width)


def _time(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else to_micros(text)
    except ValueError as problem:
        raise typer.BadParameter(f"{option}: {problem}") from None


def _draw(found: Results, first: int, columns: Sequence[frozenbitarray], room: _Room) -> int:
    """Print the picture, and names as far as there is room; returns how many queries are named."""
    if not columns:
        message("No query is on that stream, or has those labels.")
        return 0
    print("tuple".ljust(_ID_WIDTH), *(str((at + 1) % 10) for at in range(len(columns))))
    for at, row in enumerate(zip(*columns, strict=True)):
        print(str(first + at).ljust(_ID_WIDTH), *("#" if bit else "." for bit in row))
    names = (key or query_id for key, query_id in zip(found.query_keys, found.query_ids, strict=True))
    texts = [
        f"{at + 1} {show(name)[:_SHOWN]}: {column.count()}"
        for at, (name, column) in enumerate(zip(names, columns, strict=True))
    ]
    named = 0
    for line in islice(_lines(texts, room.width), room.names):
        print(_GAP.join(line))
        named += len(line)
    return named


def _lines(texts: Sequence[str], width: int) -> Iterator[list[str]]:
    """The texts that stand side by side, as many as a line has room for."""
    line, used = list[str](), 0
    for text in texts:
        needed = len(_GAP) + cell_len(text)
        if line and used + needed > width + len(_GAP):
            yield line
            line, used = [], 0
        line.append(text)
        used += needed
    if line:
        yield line
