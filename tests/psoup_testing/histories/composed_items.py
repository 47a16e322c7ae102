"""Items of FROM in random statements, each as text for PSoup and for DuckDB: streams, subselects, constants, joins.

    FROM s0 AS a1 [ROWS 3] LEFT JOIN (SELECT …) AS a2 ON …, (VALUES (1, 'a')) AS a3(v0, v1)
         Named             Step      Derived              Constants

For DuckDB a stream is the table of the tuples in its window, and each item has a column `_pos`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from psoup_testing.histories.windows import Window

Column = tuple[str, str]
"""A column's name and its kind: whole, double, decimal, text, time."""
Spans = Mapping["Named", tuple[int, int]]
"""The positions [first, stop) of the tuples in the window of each stream that a statement names."""


class Ranked(Protocol):
    """A statement, as text for PSoup and for DuckDB."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and kinds of the columns."""
        ...

    def streams(self) -> Iterator[Named]:
        """Every stream that is named, FROM before WHERE."""
        ...

    def text(self) -> str:
        """The statement for PSoup."""
        ...

    def ranked(self, spans: Spans) -> str:
        """The statement for DuckDB, with `_pos`: the position of the row in the order that PSoup promises."""
        ...


@dataclass(frozen=True)
class Named:
    """A stream in FROM, by its number. `shown`: whether its window is in brackets after it."""

    stream: int
    alias: str
    window: Window
    shown: bool
    columns: tuple[Column, ...]

    def text(self, spans: Spans | None) -> str:
        """The item in FROM; `spans`: for DuckDB."""
        if spans is None:
            bracket = f" [{self.window.sql()}]" if self.shown and self.window.sql() else ""
            return f"s{self.stream} AS {self.alias}{bracket}"
        first, stop = spans[self]
        return f"(SELECT * FROM s{self.stream} WHERE _pos >= {first} AND _pos < {stop}) AS {self.alias}"


@dataclass(frozen=True)
class Derived:
    """A statement in FROM. `item`: the name of the item of WITH that it is a use of."""

    statement: Ranked
    alias: str
    columns: tuple[Column, ...]
    item: str = ""

    def text(self, spans: Spans | None) -> str:
        """The item in FROM; `spans`: for DuckDB."""
        if spans is not None:
            return f"({self.statement.ranked(spans)}) AS {self.alias}"
        return f"{self.item} AS {self.alias}" if self.item else f"({self.statement.text()}) AS {self.alias}"


@dataclass(frozen=True)
class Constants:
    """Rows of constants in FROM."""

    rows: tuple[str, ...]
    alias: str
    columns: tuple[Column, ...]

    def text(self, spans: Spans | None) -> str:
        """The item in FROM; `spans`: for DuckDB."""
        names = ", ".join(name for name, _ in self.columns)
        if spans is None:
            return f"(VALUES {', '.join(f'({row})' for row in self.rows)}) AS {self.alias}({names})"
        rows = ", ".join(f"({row}, {place})" for place, row in enumerate(self.rows))
        return f"(SELECT * FROM (VALUES {rows}) AS v({names}, _pos)) AS {self.alias}"


Item = Named | Derived | Constants


_COUNTS = {"SEMI JOIN": "> 0", "ANTI JOIN": "= 0"}
"""The numbers of partners of the rows that a join keeps."""


@dataclass(frozen=True)
class Step:
    """An item of FROM. `word`: "" for the first, "," or the kind of the join. `nearest`: the column of ASOF, DESC or
    not. `more`: joins of the item, in parentheses with it.
    """

    word: str
    item: Item
    on: tuple[str, ...] = ()
    using: tuple[str, ...] = ()
    nearest: str = ""
    more: tuple[Step, ...] = ()

    @property
    def items(self) -> list[Item]:
        """The item, and the items of the parentheses, as far as later clauses can read them."""
        return [] if self.filters else [self.item, *(item for step in self.more for item in step.items)]

    @property
    def steps(self) -> list[Step]:
        """The step, and all steps in its parentheses."""
        return [self, *(inner for step in self.more for inner in step.steps)]

    @property
    def filters(self) -> bool:
        """Whether later clauses cannot read the item."""
        return "SEMI" in self.word or "ANTI" in self.word

    def text(self, spans: Spans | None) -> str:
        """The step after the text of the steps before it."""
        item, conditions = self.item.text(spans), " AND ".join(self.on)
        if self.more:
            item = f"({item}{''.join(step.text(spans) for step in self.more)})"
        if self.word in ("", ","):
            return f"{self.word} {item}"
        if self.nearest and spans is not None:
            kind = "LEFT JOIN" if "LEFT" in self.word else "JOIN"
            rows = (
                f"SELECT * FROM {item} WHERE {conditions} ORDER BY {self.nearest}, {self.item.alias}._pos DESC LIMIT 1"
            )
            return f" {kind} LATERAL ({rows}) AS {self.item.alias} ON TRUE"
        if self.filters and self.on and spans is not None:  # a SEMI JOIN of DuckDB 2.0 may turn NULL into another value
            some = f"SELECT count(*) AS n FROM {item} WHERE {conditions} HAVING count(*) {_COUNTS[self.word]}"
            return f" JOIN LATERAL ({some}) AS {self.item.alias} ON TRUE"
        word = self.word if spans is None else self.word.replace("NATURAL ", "")
        if self.using and not (spans is None and "NATURAL" in self.word):
            return f" {word} {item} USING ({', '.join(map(quoted, self.using))})"
        return f" {word} {item}" + (f" ON {conditions}" if self.on else "")


def quoted(name: str) -> str:
    """A column's name as it must be written alone: AT is a word of DuckDB."""
    return '"at"' if name == "at" else name
