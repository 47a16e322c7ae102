"""The SELECT list and ORDER BY: the columns of rows, and their order.

SELECT sym, price * 2 AS twice, x.* EXCLUDE (qty)   ->   a name and an expression for each column
ORDER BY 2 DESC, qty                                ->   keys: each by a column's place, its name, or an expression
"""

from __future__ import annotations

from sqlglot import exp

from psoup.expressions.tree import AttributeRef, Expr, Literal
from psoup.model import BIGINT, RESERVED_NAMES
from psoup.plan.nodes import OrderKey, Output
from psoup.sql.binder import Binder
from psoup.sql.output_names import OutputNames, output_names
from psoup.sql.refusals import refuse_node
from psoup.sql.source import StatementText, nearest

MAX_OUTPUTS = 4_000
MAX_NAME = 256
"""The longest name, in characters, that a column of the answer gets from the text of its expression. Longer texts
are cut."""


def listed_outputs(source: StatementText, select: exp.Select, binder: Binder) -> tuple[Output, ...]:
    """The columns of the answer. Raises SqlError."""
    outputs: list[Output] = []
    binder.windows.declare(source, select.args.get("windows") or ())
    if not select.expressions:
        raise source.error("the SELECT list is empty", select, hint="write * for all columns")
    for item in select.expressions:
        outputs += _item(source, item, binder)
        if len(outputs) > MAX_OUTPUTS:
            raise source.error(f"a query has at most {MAX_OUTPUTS:,} columns", item)
    return tuple(outputs)


def _item(source: StatementText, item: exp.Expr, binder: Binder) -> list[Output]:
    star = item.this if isinstance(item, exp.Column) else item
    if isinstance(star, exp.Star):
        return _star(source, item, star, binder)
    if isinstance(item, exp.Alias):
        name, expr = item.alias, binder.bind(item.this)
        if not name.strip():
            raise source.error("a column needs a name", item)
    else:
        expr = binder.bind(item)
        name = binder.names.called(item)
        if not name:
            name = expr.name if isinstance(expr, AttributeRef) and expr.source >= 0 else _text_of(source, item)
    if name.lower() in RESERVED_NAMES and not (isinstance(expr, AttributeRef) and expr.name == name.lower()):
        raise source.error(f"{name!r} is reserved", item, hint="use another name")
    return [Output(name, expr)]


def _star(source: StatementText, item: exp.Expr, star: exp.Star, binder: Binder) -> list[Output]:
    """The columns of `*` or `x.*`, without the columns in EXCLUDE. An expression in REPLACE replaces the column of
    its name."""
    if star.args.get("rename"):
        raise source.unsupported("* with RENAME", star, hint="list the columns, with AS")
    columns = binder.names.star(item)
    names, taken = {column.name.lower() for column in columns}, set[str]()
    excluded = {_named(source, node, node.name, "EXCLUDE", names, taken) for node in star.args.get("except_") or ()}
    replaced = {
        _named(source, node, node.alias, "REPLACE", names, taken): binder.bind(node.this)
        for node in star.args.get("replace") or ()
        if isinstance(node, exp.Alias)
    }
    left = [column for column in columns if column.name.lower() not in excluded]
    if not left:
        raise source.error("nothing is left of *", star, hint="leave out fewer columns")
    return [Output(column.name, replaced.get(column.name.lower(), column.expr)) for column in left]


def _named(source: StatementText, node: exp.Expr, name: str, word: str, names: set[str], taken: set[str]) -> str:
    """The name of a column in EXCLUDE or REPLACE, in lower case."""
    folded = name.lower()
    if folded not in names:
        hint = nearest(name, names)
        raise source.error(f"* has no column {name[:128]!r} for {word}", node, hint=hint, reason="UNKNOWN_COLUMN")
    if folded in taken:
        raise source.error(f"{name[:128]!r} is named twice after *", node)
    taken.add(folded)
    return folded


def _text_of(source: StatementText, item: exp.Expr) -> str:
    start, stop = item.meta.get("span", (0, 0))
    return " ".join(source.text[start:stop].split())[:MAX_NAME] or "column"


def order_keys(
    source: StatementText, select: exp.Select, binder: Binder, outputs: tuple[Output, ...], distinct: bool
) -> tuple[OrderKey, ...]:
    """The keys of ORDER BY, () without the clause. Raises SqlError."""
    order = select.args.get("order")
    if order is None:
        return ()
    names, selected = output_names(outputs), {output.expr for output in outputs}
    keys = []
    for item in order.expressions:
        if not isinstance(item, exp.Ordered):
            raise refuse_node(source, item)
        if item.args.get("with_fill") is not None:
            raise source.unsupported("WITH FILL", item)
        descending, nulls_first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
        if _is_all(item.this) and len(order.expressions) == 1:
            return tuple(OrderKey(output.expr, descending, nulls_first) for output in outputs)
        expr = _order_expr(source, item.this, binder, names, outputs)
        if distinct and expr not in selected:
            raise source.error(
                "SELECT DISTINCT can only be ordered by what it selects", item, hint="add the expression to the list"
            )
        keys.append(OrderKey(expr, descending, nulls_first))
    return tuple(keys)


def _is_all(node: exp.Expr) -> bool:
    """Whether `node` is the word ALL, which stands for every column of the SELECT list."""
    return isinstance(node, exp.Column) and node.name.upper() == "ALL" and not node.this.quoted and not node.table


def _order_expr(
    source: StatementText, node: exp.Expr, binder: Binder, names: OutputNames, outputs: tuple[Output, ...]
) -> Expr:
    expr = binder.order_key(node, names)
    if not isinstance(expr, Literal) or isinstance(node, exp.Column):  # a column may have one value in all rows
        return expr
    if expr.type != BIGINT or not isinstance(expr.value, int):
        raise source.error("ORDER BY a constant orders nothing", node, hint="name a column")
    if not 1 <= expr.value <= len(outputs):
        raise source.error(f"the SELECT list has no column {expr.value}; its last is {len(outputs)}", node)
    return outputs[expr.value - 1].expr


def distinct_keys(
    source: StatementText, select: exp.Select, binder: Binder, outputs: tuple[Output, ...]
) -> tuple[Expr, ...]:
    """The keys of DISTINCT ON, named as in ORDER BY. () without it. Raises SqlError."""
    distinct = select.args.get("distinct")
    keys = None if distinct is None else distinct.args.get("on")
    if distinct is None or keys is None:
        return ()
    nodes = keys.expressions if isinstance(keys, exp.Tuple) else [keys]
    if not nodes:
        raise source.error("DISTINCT ON needs a key", distinct, hint="DISTINCT ON (k) keeps the first row of each k")
    names = output_names(outputs)
    return tuple([_order_expr(source, node, binder, names, outputs) for node in nodes])
