"""FROM: the streams of a statement with their names and windows, and the conditions of JOIN … ON and USING.

    FROM flights f [RANGE 1 DAY] JOIN weather w USING (origin)
      source 0: flights, called f, window BEGIN (NOW - 1 DAY) END (NOW)
      source 1: weather, called w, unbounded, because only flights has a window in brackets
      conditions: f.origin = w.origin

A window after WHERE applies to all sources, and then no source may have a window in brackets. This module refuses joins
that are not inner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from psoup.errors import SqlError
from psoup.model import StreamSpec, WindowClause
from psoup.plan.inputs import RowsPerKey
from psoup.plan.sides import MOST_JOINED
from psoup.sql.instead import feature_hint, join_hint
from psoup.sql.last_rows import rows_per_key
from psoup.sql.names import NamedStream, Names, listed
from psoup.sql.source import StatementText, nearest
from psoup.sql.windows import window

Lookup = Callable[[str], StreamSpec | None]


@dataclass(frozen=True, slots=True)
class FromList:
    """The FROM of a statement: its sources, and a window for each.

    `conditions`: the conditions of ON. `using`: the pairs of columns that USING makes equal. `partitions`: for each
    source the rows for each key of its window, None for other windows.
    """

    names: Names
    windows: tuple[WindowClause, ...]
    conditions: tuple[exp.Expr, ...] = ()
    using: tuple[tuple[exp.Expr, exp.Expr], ...] = ()
    partitions: tuple[RowsPerKey | None, ...] = ()

    @property
    def joined(self) -> bool:
        """Whether FROM has several sources."""
        return len(self.windows) > 1


def from_list(source: StatementText, select: exp.Select, lookup: Lookup, names: Sequence[str]) -> FromList:
    """Bind the FROM of a SELECT, with the windows of its sources. Raises SqlError."""
    origin = select.args.get("from_")
    if origin is None:
        raise source.error("FROM is missing", len(source.text), hint="name the stream: SELECT ... FROM stream")
    joins = select.args.get("joins") or []
    if len(joins) >= MOST_JOINED:
        raise source.error(
            f"FROM names {len(joins) + 1} sources, more than {MOST_JOINED}",
            joins[MOST_JOINED - 1],
            hint="split the query",
            reason="TOO_MANY_SOURCES",
        )
    for join in joins:
        _check_join(source, join)
    tables = [origin.this, *(join.this for join in joins)]
    named: list[NamedStream] = []
    for table in tables:
        item = named_stream(source, table, lookup, names)
        _check_name(source, item, named, table)
        named.append(item)
    windows = _windows(source, select, tables, named)
    conditions = tuple(join.args["on"] for join in joins if join.args.get("on") is not None)
    merged, using = _using(source, joins, named)
    partitions = tuple(
        rows_per_key(source, _own_window(source, table), item, place)
        for place, (table, item) in enumerate(zip(tables, named, strict=True))
    )
    return FromList(Names(source, named, merged), windows, conditions, using, partitions)


def _check_join(source: StatementText, join: exp.Join) -> None:
    words = [join.args.get(part) for part in ("method", "side", "kind")]
    written = " ".join(word for word in words if word)
    if written not in ("", "INNER", "CROSS"):
        raise source.unsupported(f"{written} JOIN", join, hint=join_hint(written))
    for key, value in join.args.items():
        if value and key not in ("this", "kind", "on", "using"):
            raise source.unsupported(f"this form of {source.written(join)!r} in FROM", join, hint=join_hint(""))


def named_stream(source: StatementText, table: exp.Expr, lookup: Lookup, names: Sequence[str]) -> NamedStream:
    """The stream of one item of FROM, and its name in the statement."""
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        if isinstance(table.this, exp.Anonymous):
            hint = "FROM takes streams; push the rows into one"
            raise source.unsupported(f"the table function {table.this.name[:64]}()", table, hint=hint)
        raise source.unsupported("FROM other than streams and subselects", table)
    for key, value in table.args.items():
        if value and key not in ("this", "alias", "window", "as_of"):
            features = {"db": "a stream's name of several parts", "pivots": "PIVOT"}
            feature = features.get(key, f"this form of {source.written(table)!r} in FROM")
            hint = f"leave out what stands before it: FROM {table.name}" if key == "db" else feature_hint(feature)
            raise source.unsupported(feature, table, hint=hint)
    name = table.name
    spec = lookup(name)
    if spec is None:
        all_names = f"the streams and tables are {listed(names)}" if names else "create it first"
        hint = nearest(name, names) or all_names
        raise source.error(f"there is no stream or table {name[:128]!r}", table, hint=hint, reason="UNKNOWN_STREAM")
    alias = table.args.get("alias")
    return NamedStream(spec, spec.name if alias is None else alias.name)


def _check_name(source: StatementText, item: NamedStream, others: Sequence[NamedStream], table: exp.Expr) -> None:
    if any(item.alias.lower() == other.alias.lower() for other in others):
        raise source.error(
            f"two sources of FROM are called {item.alias!r}",
            table,
            hint=f"name one with AS: {item.spec.name} AS {item.spec.name[:1]}2",
            reason="DUPLICATE_SOURCE",
        )


def refuse_window_of_table(source: StatementText, spec: StreamSpec, node: exp.Expr) -> SqlError:
    """The error for a window, at `node`, of a table."""
    return source.error(
        f"{spec.name!r} is a table, which has no window: an answer has the rows that hold at NOW",
        node,
        hint="leave the window out; as_of asks for the rows of an earlier time",
        reason="WINDOW_OF_TABLE",
    )


def _windows(
    source: StatementText, select: exp.Select, tables: Sequence[exp.Expr], named: Sequence[NamedStream]
) -> tuple[WindowClause, ...]:
    """The window of each source: its own window in brackets, or the window after WHERE. Raises SqlError."""
    begin, end = select.args.get("begin"), select.args.get("end")
    windows = [_own_window(source, table) for table in tables]
    for node, (spec, _) in zip(windows, named, strict=True):
        if node is not None and spec.table is not None:
            raise refuse_window_of_table(source, spec, node)
    bracketed = [node for node in windows if node is not None]
    if not bracketed:
        clause = window(source, begin, end)
        outer = begin if begin is not None else end
        if outer is not None and all(spec.table is not None for spec, _ in named):
            raise refuse_window_of_table(source, named[0].spec, outer)
        return tuple(clause if spec.table is None else WindowClause() for spec, _ in named)
    outer = begin if begin is not None else end
    if outer is not None:
        raise source.error(
            "a window in brackets and BEGIN or END do not go together",
            bracketed[0],
            hint="give each source its window in brackets, or all of them one after WHERE",
            reason="TWO_WINDOWS",
        )
    parts = [(None, None) if node is None else (node.args.get("begin"), node.args.get("end")) for node in windows]
    return tuple(window(source, *part) for part in parts)


def _own_window(source: StatementText, table: exp.Expr) -> exp.Expr | None:
    """The window in brackets of one item of FROM."""
    alias = table.args.get("alias")
    windows = [node for node in (table.args.get("window"), alias and alias.args.get("window")) if node is not None]
    if len(windows) > 1:
        raise source.error("a source has one window", windows[1], reason="TWO_WINDOWS")
    return windows[0] if windows else None


def _using(
    source: StatementText, joins: Sequence[exp.Join], named: Sequence[NamedStream]
) -> tuple[dict[str, int], tuple[tuple[exp.Expr, exp.Expr], ...]]:
    """Bind the columns of all USING clauses.

    Returns each column with the place of its first source, and the pairs of columns that must be equal.
    """
    merged: dict[str, int] = {}
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    for place, join in enumerate(joins, 1):
        for node in join.args.get("using") or ():
            folded = node.name.lower()
            before = [at for at in range(place) if named[at].spec.schema.index(folded) is not None]
            if not before or named[place].spec.schema.index(folded) is None:
                missing = named[place] if before else named[0]
                names = missing.spec.schema.names
                raise source.error(
                    f"USING ({node.name[:128]}): {missing.alias!r} has no such column",
                    node,
                    hint=nearest(node.name, names)
                    or f"its columns are {listed(names)}; other names join by ON a.k = b.j",
                    reason="UNKNOWN_COLUMN",
                )
            first = merged.setdefault(folded, before[0])
            if first == before[0] and len(before) > 1 and folded not in _paired(pairs):
                raise source.error(
                    f"{node.name[:128]!r} is a column of {' and of '.join(named[at].alias for at in before)}",
                    node,
                    hint="write ON, and say whose",
                    reason="AMBIGUOUS_COLUMN",
                )
            pairs.append((_column(node, named[first].alias), _column(node, named[place].alias)))
    return merged, tuple(pairs)


def _paired(pairs: Sequence[tuple[exp.Expr, exp.Expr]]) -> set[str]:
    return {left.name.lower() for left, _ in pairs}


def _column(node: exp.Expr, alias: str) -> exp.Column:
    """The syntax node of the column `alias.name`, for a name in USING. It has the place of that name."""
    column = exp.Column(this=exp.to_identifier(node.name, quoted=True), table=exp.to_identifier(alias, quoted=True))
    column.meta.update(node.meta)
    return column
