"""PARTITION BY in brackets: its syntax becomes a `RowsPerKey`, the last rows of each key of a stream.

    FROM trades t [PARTITION BY sym ROWS 10]      keys: t.sym      rows: 10
    FROM trades t [ROWS 10 WHERE price > 5]       no keys          rows: 10, and only matching tuples count

Keys are columns of the source. OVER takes expressions as keys, and is evaluated over the rows that satisfy WHERE.
"""

from __future__ import annotations

from sqlglot import exp

from psoup.expressions.tree import AttributeRef
from psoup.model import NOW, WindowClause
from psoup.plan.inputs import RowsPerKey
from psoup.sql.binder import Binder
from psoup.sql.names import NamedStream, Names
from psoup.sql.source import StatementText
from psoup.sql.windows import row_count, window

MOST_KEYS = 16
"""The most columns of one PARTITION BY in brackets."""
MOST_ROWS = 2**31 - 1
"""The most rows of each key."""

_PART = "PARTITION BY"
"""The value of `Binder.part` for the keys."""
_COLUMNS = "push the value as a column, or take QUALIFY row_number() OVER (PARTITION BY …) in a subselect"


def rows_per_key(source: StatementText, node: exp.Expr | None, stream: NamedStream, place: int) -> RowsPerKey | None:
    """The last rows of each key in a window in brackets. None for other windows, and for None.

    `place`: the place of the stream in FROM. Raises SqlError for keys that are not columns of the stream, and for a
    number of rows out of range.
    """
    if node is None:
        return None
    keys: list[exp.Expr] = node.args.get("partition") or []
    matching = node.args.get("where") is not None
    if not keys:
        rows = _rows_of_matches(source, node) if matching else None
        return None if rows is None else RowsPerKey((), rows, matching)
    if len(keys) > MOST_KEYS:
        problem = f"PARTITION BY has {len(keys)} keys, more than {MOST_KEYS}"
        raise source.error(problem, keys[MOST_KEYS], hint="fewer columns")
    binder = Binder(source, Names(source, [stream]))
    columns = dict.fromkeys(_column(source, binder, key, place) for key in keys)
    rows = row_count(source, node.args["rows"], "PARTITION BY … ROWS n")
    if rows > MOST_ROWS:
        raise source.error(f"PARTITION BY … ROWS {rows} is more than {MOST_ROWS:,} rows", node.args["rows"])
    return RowsPerKey(tuple(columns), rows, matching)


def bounds_of(source: StatementText, node: exp.Expr | None) -> WindowClause:
    """The bounds of a window in brackets, or of none. Unbounded if the window has the last rows of each key."""
    if node is None:
        return WindowClause()
    bounds = window(source, node.args.get("begin"), node.args.get("end"))
    return WindowClause() if bounds.by_rows and node.args.get("where") is not None else bounds


def _rows_of_matches(source: StatementText, node: exp.Expr) -> int | None:
    """The rows of a window of rows with WHERE in its brackets. None for a window of time."""
    bounds = window(source, node.args.get("begin"), node.args.get("end"))
    if bounds.end.rows is not None or (bounds.by_rows and bounds.end != NOW):
        raise source.unsupported("WHERE in a window of rows that does not end at NOW", node, hint="[ROWS 50 WHERE …]")
    return bounds.begin.rows


def _column(source: StatementText, binder: Binder, node: exp.Expr, place: int) -> AttributeRef:
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Column):
        raise source.unsupported("an expression in PARTITION BY of a window", node, hint=_COLUMNS)
    with binder.within(_PART):
        column = binder.bind(node)
    if not isinstance(column, AttributeRef):
        raise source.unsupported("an expression in PARTITION BY of a window", node, hint=_COLUMNS)
    return AttributeRef(column.type, column.index, column.name, place)
