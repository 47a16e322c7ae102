"""Options of the commands that print answers."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from psoup_client.times import to_micros

SHOWN_ROWS = 100
"""The default number of rows that a table shows."""


class Format(StrEnum):
    """The formats of a printed answer."""

    table = "table"
    csv = "csv"
    json = "json"
    arrow = "arrow"


AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="TIME", help="Set NOW to this time (ISO 8601; without a zone, UTC); no later tuple is shown."
    ),
]
Windows = Annotated[
    list[str] | None,
    typer.Option(
        "--window",
        metavar="'BEGIN ... END ...'",
        help="Answer over this window, not the query's own; ALIAS='BEGIN ...' for a source of a join, repeatable.",
    ),
]
AcceptTruncation = Annotated[
    bool, typer.Option("--accept-truncation", help="Answer over the kept tuples, if the window begins before them.")
]
JsonRows = Annotated[bool, typer.Option("--json", help="The same as --format json: an object on each line.")]
ShownRows = Annotated[int, typer.Option("--rows", min=0, help="Rows shown in a table; 0 means all.")]
AnswerFormat = Annotated[Format | None, typer.Option("--format", help="By default a table on a terminal, else CSV.")]
ManyKeys = Annotated[
    list[str] | None, typer.Option("--key", metavar="TEXT", help="The query with this key; repeatable.")
]


def windows_of(texts: list[str]) -> dict[str, Any]:
    """Read --window: a window for all sources, or windows by the names of sources in the statement."""
    named = [text.partition("=") for text in texts if "=" in text]
    if len(named) < len(texts) > 1 or len({alias.strip() for alias, _, _ in named}) < len(named):
        raise typer.BadParameter("give --window once, or as ALIAS='BEGIN ... END ...' once for each source")
    if named:
        return {"windows": {alias.strip(): window for alias, _, window in named}}
    return {"window": texts[0]} if texts else {}


def chosen_form(single: bool, choice: Format | None, as_json: bool) -> Format:
    """Choose the format: the given one, else a table on a terminal, CSV for a single answer, or JSON."""
    if as_json and choice not in (None, Format.json):
        raise typer.BadParameter("--json and another --format exclude each other")
    terminal = sys.stdout.isatty()
    if choice is Format.arrow and terminal:
        raise typer.BadParameter("Arrow is binary: send it to a file, --format arrow > answer.arrow")
    if as_json or choice is not None:
        return choice or Format.json
    return Format.table if terminal else Format.csv if single else Format.json


def instant_of(as_of: str | None) -> int | None:
    """Read the time of --as-of, in microseconds."""
    try:
        return None if as_of is None else to_micros(as_of)
    except ValueError as problem:
        raise typer.BadParameter(f"--as-of: {problem}") from None
