"""HTML of results for notebooks: small tables of escaped text, which a notebook shows instead of `repr`.

rows  ──table──> the first 20, as HTML      facts ──facts──> a name and its value a row
list of streams or queries ──Listing──> a list as any other, shown as a table
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from html import escape
from itertools import islice
from typing import Any, TypeVar

from psoup_client.wording import counted

T = TypeVar("T")

SHOWN_ROWS, SHOWN_COLUMNS = 20, 40
"""How much of a table is shown."""
_CHARS = 200
"""Characters of a value that are shown."""


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Make a table of the rows that are given, of the first columns if there are many."""
    head = "".join(f"<th>{_text(name)}</th>" for name in names[:SHOWN_COLUMNS])
    body = "".join(f"<tr>{''.join(map(_cell, row[:SHOWN_COLUMNS]))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(pairs: Mapping[str, Any]) -> str:
    """Make a table of names and values; values that are None or empty are left out."""
    shown = {name: value for name, value in pairs.items() if value is not None and value != "" and value != {}}
    head = '<tr><th style="text-align: left">{}</th>{}</tr>'
    rows = (head.format(_text(name), _cell(value)) for name, value in shown.items())
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def lines(text: str) -> str:
    """Show lines as they are, in letters of one width."""
    return f"<pre>{escape(text)}</pre>"


def paragraph(text: str) -> str:
    """Make a paragraph of a text."""
    return f"<p>{escape(text)}</p>"


def shape_text(rows: int, columns: int) -> str:
    """Say how large a table is, and how much of it is shown."""
    shown = [f"the first {SHOWN_ROWS} rows"] if rows > SHOWN_ROWS else []
    shown += [f"the first {SHOWN_COLUMNS} columns"] if columns > SHOWN_COLUMNS else []
    size = f"{counted(rows, 'row')} × {counted(columns, 'column')}"
    return f"{size}, {' and '.join(shown)} shown" if shown else size


class Listing(list[T]):
    """A list that a notebook shows as a table: `row` gives names and values of an item."""

    def __init__(self, items: Iterable[T], what: str, row: Callable[[T], Mapping[str, Any]]) -> None:
        super().__init__(items)
        self._what, self._row = what, row

    def _repr_html_(self) -> str:
        rows = [self._row(item) for item in islice(self, SHOWN_ROWS)]
        size = counted(len(self), self._what)
        if len(self) > SHOWN_ROWS:
            size += f", the first {SHOWN_ROWS} shown"
        return (table([*rows[0]], [[*row.values()] for row in rows]) if rows else "") + paragraph(size)


def _cell(value: Any) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value}</td>'
    if isinstance(value, dt.datetime):
        value = value.isoformat(sep=" ").replace("+00:00", "Z")
    elif isinstance(value, Mapping):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    return f'<td style="text-align: left">{_text(value)}</td>'


def _text(value: Any) -> str:
    text = str(value)
    return escape(text if len(text) <= _CHARS else f"{text[:_CHARS]}…")
