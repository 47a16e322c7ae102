"""The outline of a SELECT: the relations that it names with their places, and its window.

SELECT s.price FROM streams.trades s JOIN queries."hot" h USING (sym) BEGIN (NOW - 1 HOUR)
                    └ schema ┘ └name┘                                 └──── window ────┘
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from psoup.sql.composed.composition import own_window
from psoup.sql.parser.guards import check_budget, tokens_of
from psoup.sql.parser.parse_tree import parse, untie
from psoup.sql.source import StatementText
from psoup.sql.templates.holes import find_holes

_LONG = 2_048
"""The most characters of a text that the event loop parses, in some milliseconds. A thread parses longer ones."""


@dataclass(frozen=True, slots=True)
class Named:
    """A relation in FROM: text[start:stop] is its name, with its schema. `folded`: the name is not in quotes."""

    start: int
    stop: int
    schema: str
    name: str
    folded: bool
    aliased: bool
    windowed: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """The outline of a text.

    `prefixes`: the parts of the text with the schema of a column. `window`: the part with BEGIN and END at the end, or
    None. `rows`: it counts rows. `bracketed`: a source has a window in brackets. `alone`: the statement is SELECT * of
    one relation, without anything else. `end`: the end of the last word. `single`: the relation of a SELECT with one
    relation in FROM; else None. `items`: for each item of the SELECT list the name of its column, "*", or None for
    another expression.
    """

    relations: tuple[Named, ...]
    prefixes: tuple[tuple[int, int], ...]
    window: tuple[int, int] | None
    rows: bool
    bracketed: bool
    alone: bool
    end: int
    single: Named | None
    items: tuple[str | None, ...]

    @property
    def has_windows(self) -> bool:
        """Whether the statement states a window."""
        return self.bracketed or self.window is not None


async def outlined(text: str) -> Outline:
    """The outline of a SELECT. Raises SqlError."""
    return outline(text) if len(text) <= _LONG else await asyncio.to_thread(_outline, text)


@lru_cache(256)
def outline(text: str) -> Outline:
    """The outline of a SELECT that is short. Raises SqlError."""
    return _outline(text)


def _outline(text: str) -> Outline:
    check_budget(text)
    source = StatementText(text)
    tokens, _ = find_holes(source, tokens_of(source))
    tree = parse(source, tokens)
    try:
        items = {node.alias.lower() for node in tree.find_all(exp.CTE)}
        tables = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
        windowed = [own_window(source, node) is not None for node in tree.find_all(exp.Table, exp.Subquery)]
        stored = [table for table in tables if table.args.get("db") or table.name.lower() not in items]
        named = [_named(source, table) for table in stored]
        begins, only = _window_start(tokens), _single(tree)
        end = tokens[-1].end + 1
        return Outline(
            tuple(named),
            tuple(_prefix(column) for column in tree.find_all(exp.Column) if column.args.get("db")),
            None if begins is None else (begins, end),
            begins is not None and " ROW" in text[begins:end].upper(),
            any(windowed),
            _is_alone(tree) and not any(windowed) and begins is None,
            end,
            next((name for name, table in zip(named, stored, strict=True) if table is only), None),
            tuple(map(_item, tree.expressions)) if isinstance(tree, exp.Select) else (),
        )
    finally:
        untie(tree)


def _named(source: StatementText, table: exp.Table) -> Named:
    parts = [part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part is not None]
    return Named(
        int(parts[0].meta["start"]),
        int(parts[-1].meta["end"]) + 1,
        table.text("db").lower(),
        table.name,
        not table.this.args.get("quoted"),
        table.args.get("alias") is not None and table.args["alias"].this is not None,
        own_window(source, table) is not None,
    )


def _prefix(column: exp.Column) -> tuple[int, int]:
    """The part of the text with the schema of a column, up to the name of its relation."""
    return int(column.args["db"].meta["start"]), int(column.args["table"].meta["start"])


def _window_start(tokens: list[Token]) -> int | None:
    """The offset of BEGIN or END at the end of the statement; None without a window."""
    depth = cases = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind is TokenType.L_PAREN or kind is TokenType.L_BRACKET) - (
            kind is TokenType.R_PAREN or kind is TokenType.R_BRACKET
        )
        cases += kind is TokenType.CASE
        if kind is TokenType.END and cases:
            cases -= 1
        elif depth == 0 and kind in (TokenType.BEGIN, TokenType.END):
            return int(token.start)
    return None


def _single(tree: exp.Expr) -> exp.Expr | None:
    """The only relation in FROM of a SELECT; None for joins, subselects and set operations."""
    if not isinstance(tree, exp.Select) or tree.args.get("joins") or tree.args.get("laterals"):
        return None
    origin = tree.args.get("from_")
    table = None if origin is None else origin.this
    return table if isinstance(table, exp.Table) and not table.args.get("joins") else None


def _item(item: exp.Expr) -> str | None:
    """The name of a plain column in a SELECT list, "*" for all columns, and None for another expression."""
    while isinstance(item, exp.Alias | exp.Paren):
        item = item.this
    star = item.this if isinstance(item, exp.Column) else item
    if isinstance(star, exp.Star):
        return None if any(star.args.values()) else "*"
    return item.name if isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier) else None


def _is_alone(tree: exp.Expr) -> bool:
    if not isinstance(tree, exp.Select):
        return False
    rest = {key for key, value in tree.args.items() if value}
    stars = tree.expressions
    plain = len(stars) == 1 and isinstance(stars[0], exp.Star) and not any(stars[0].args.values())
    origin = tree.args.get("from_")
    return plain and rest == {"expressions", "from_"} and origin is not None and isinstance(origin.this, exp.Table)
