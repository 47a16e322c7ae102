"""HTML of results for notebooks: small tables of escaped text, which a notebook shows instead of `repr`.

rows   ──table──> the first 20 rows as HTML, and the number of rows      facts ──facts──> name and value in each row
a dataclass that is a `Facts` ──> its fields, as facts
list of streams, queries or costs ──Listing──> a list that a notebook shows as a table; so are its slices
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from html import escape
from itertools import islice
from typing import Any, SupportsIndex, TypeVar, overload

from psoup_client.phrases import counted

T = TypeVar("T")

SHOWN_ROWS = 20
"""The greatest number of rows that a table shows."""

SHOWN_COLUMNS = 40
"""The greatest number of columns that a table shows."""
_LINES = 100
"""The greatest number of lines of an explanation. For a join, each source has some lines."""
_CHARS = 200
"""The greatest number of characters of a value."""


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Build a table of the first rows."""
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    shown = islice(rows, SHOWN_ROWS)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def counted_table(names: Sequence[str], rows: Iterable[Sequence[Any]], count: int, noun: str) -> str:
    """Build a table of the first of `count` rows, followed by their number. Without rows, return only the number."""
    more = f", the first {SHOWN_ROWS} shown" if count > SHOWN_ROWS else ""
    return (table(names, rows) if count else "") + paragraph(counted(count, noun) + more)


def facts(pairs: Mapping[str, Any]) -> str:
    """Build a table of names and values. Values that are None or empty are left out."""
    shown = {name: value for name, value in pairs.items() if value is not None and value not in ("", {}, (), [])}
    head = '<tr><th style="text-align: left">{}</th>{}</tr>'
    rows = (head.format(_text(name), _left(value)) for name, value in shown.items())
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


class Facts:
    """A dataclass that a notebook shows as a table of names and values."""

    __slots__ = ()

    def _facts(self) -> dict[str, Any]:
        """Return the shown fields by their names."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every class that inherits this is a dataclass
        return {field.name: getattr(self, field.name) for field in fields if field.repr}

    def _repr_html_(self) -> str:
        return facts(self._facts())


def items(things: Sequence[Facts]) -> str:
    """Build a table with a row for each item. Returns "" for an empty list."""
    rows = [thing._facts() for thing in things[:SHOWN_ROWS]]
    return table([*rows[0]], [[*row.values()] for row in rows]) if rows else ""


def lines(texts: Sequence[str]) -> str:
    """Show the first lines in a monospaced font, unchanged."""
    more = [f"… {counted(len(texts) - _LINES, 'more line')}"] if len(texts) > _LINES else []
    return f"<pre>{chr(10).join(map(_text, [*texts[:_LINES], *more]))}</pre>"


def paragraph(text: str) -> str:
    """Build a paragraph with a text."""
    return f"<p>{escape(text)}</p>"


def shape_text(rows: int, columns: int, nouns: tuple[str, str] = ("row", "column")) -> str:
    """Describe the size of a table and the part that is shown. `nouns`: the words for a row and for a column."""
    row, column = nouns
    shown = [f"the first {counted(SHOWN_ROWS, row)}"] if rows > SHOWN_ROWS else []
    shown += [f"the first {counted(SHOWN_COLUMNS, column)}"] if columns > SHOWN_COLUMNS else []
    size = f"{counted(rows, row)} × {counted(columns, column)}"
    return f"{size}, {' and '.join(shown)} shown" if shown else size


class Listing(list[T]):
    """A list that a notebook shows as a table: `row` gives names and values of an item. Slices are such lists, too."""

    def __init__(self, items: Iterable[T], noun: str, row: Callable[[T], Mapping[str, Any]]) -> None:
        super().__init__(items)
        self._what = noun
        self._row = row

    @overload
    def __getitem__(self, place: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Listing[T]: ...

    def __getitem__(self, place: SupportsIndex | slice) -> T | Listing[T]:
        if isinstance(place, slice):
            return Listing(super().__getitem__(place), self._what, self._row)
        return super().__getitem__(place)

    def _repr_html_(self) -> str:
        rows = [self._row(item) for item in islice(self, SHOWN_ROWS)]
        return counted_table([*rows[0]] if rows else [], [[*row.values()] for row in rows], len(self), self._what)


def _cell(value: Any) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value}</td>'
    return _left(value)


def _left(value: Any) -> str:
    if isinstance(value, dt.datetime):
        value = value.isoformat(sep=" ").replace("+00:00", "Z")
    elif isinstance(value, Mapping):
        value = ", ".join(f"{name}={item}" for name, item in islice(value.items(), SHOWN_ROWS))
    elif isinstance(value, tuple | list):
        value = ", ".join(map(str, islice(value, SHOWN_ROWS)))
    return f'<td style="text-align: left">{_text(value)}</td>'


def _text(value: Any) -> str:
    text = str(value)
    return escape(text if len(text) <= _CHARS else f"{text[:_CHARS]}…")
