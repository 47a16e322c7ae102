"""The demo's output: answers as small tables, and times in New York's time zone."""

from __future__ import annotations

import datetime as dt
import re
import sys
from typing import Any
from zoneinfo import ZoneInfo

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from psoup_client import Answer, Completeness
from psoup_client.phrases import counted

NEW_YORK = ZoneInfo("America/New_York")
SHOWN_ROWS = 5
_COMPANY = re.compile(r" (Inc\.|Corporation|Co\.)$")
_WIDTH = 100  # of a file or pipe; a terminal has its own


def make_console() -> Console:
    """Open a console on standard output, which also suits a file. It obeys NO_COLOR."""
    width = None if sys.stdout.isatty() else _WIDTH
    return Console(highlight=False, emoji=False, markup=False, width=width)


def clock(moment: dt.datetime) -> str:
    """Write an instant in New York's time: Thu 4 Jul 2013 15:30."""
    local = moment.astimezone(NEW_YORK)
    return f"{local:%a} {local.day} {local:%b %Y %H:%M}"


def short(moment: dt.datetime) -> str:
    """Write an instant as `clock` does, without the year, because a table must fit 80 columns."""
    return clock(moment).replace(" 2013 ", " ")


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line of the story."""
    console.print(Text(text, style=style))


def print_answer(console: Console, title: str, manner: str, answer: Answer, window: str) -> None:
    """Print the title, the first rows, their number, and the answer's completeness.

    `manner`: the options of the invocation, in words; "" without any. `window`: the query's window.
    """
    console.print()
    console.print(Text(title, style="bold cyan"))
    if manner:
        console.print(Text(f"  {manner}", style="cyan"))
    if len(answer):
        console.print(_table(answer))
    console.print(Text(f"  {_count(answer)}; {_window(answer.completeness, window)}.", style="dim"))
    console.print(Text(f"  {answer.completeness.sentence()}", style="dim"))


def _table(answer: Answer) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1), header_style="")
    rows = answer.to_arrow().slice(0, SHOWN_ROWS).to_pylist()
    for name in answer.columns:
        number = any(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in rows)
        table.add_column(Text(name.replace("_", " ")), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_value(name, value)) for name, value in row.items()))
    return table


def _value(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "airline":
        return _COMPANY.sub("", str(value))
    if isinstance(value, dt.datetime):
        return short(value)
    if isinstance(value, float):
        return f"{value:.0f}"
    return str(value)


def _count(answer: Answer) -> str:
    rows = counted(len(answer), "row") if len(answer) else "No rows"
    return f"{rows}, {SHOWN_ROWS} shown" if len(answer) > SHOWN_ROWS else rows


def _window(completeness: Completeness, window: str) -> str:
    kind = completeness.window_kind
    end = short(completeness.end) if completeness.end else "now"
    if "ROWS" in window:
        return f"{kind}: so many departures up to {end}"
    begin = short(completeness.begin) if completeness.begin else "the oldest flight"
    return f"{kind}: from {begin} to {end}"
