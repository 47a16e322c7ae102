"""The shapes of the trees of composed statements, and the test for them.

    whole     Select | SetOperation | Subquery | Values      begin, end: BEGIN and END of the whole statement
                                                             with_=With(expressions=[CTE, …]): the items of WITH
    CTE       CTE(this=whole, alias=TableAlias(this=Identifier, columns=[Identifier, …]))
    set       Union | Intersect | Except (this=query, expression=query, distinct=False for ALL, order, limit, offset)
              query: Select | SetOperation | Values | Subquery(this=query)
              meta[OPERATOR]: the offset of the operator. a UNION b INTERSECT c: the right side is Subquery(Intersect).
    FROM      Table(this=Identifier, alias=TableAlias, window)          a stream, or an item of WITH
              Subquery(this=query, alias=TableAlias(this, columns), window)
              Values(expressions=[Tuple(expressions=[…]), …], alias=TableAlias(this, columns))
              Subquery(this=Table(joins=[Join, …]), alias)              a join in parentheses; joins may be empty
              The window in brackets is `window` of the item or of its alias: before or after the alias.
              AS OF s is `as_of` of the item or of its alias: the Identifier s.
    Join      Join(this=item of FROM, method, side, kind, on=condition | using=[Identifier, …])
              a, b                                  meta[COMMA] is set. A comma binds less tightly than JOIN.
              [INNER] JOIN, CROSS JOIN              kind None, INNER, CROSS
              LEFT | RIGHT | FULL [OUTER] JOIN      side LEFT, RIGHT, FULL; kind None, OUTER
              [LEFT] SEMI | ANTI JOIN               kind SEMI, ANTI; side None, LEFT
              ASOF [LEFT | …] JOIN                  method ASOF; side
              NATURAL [LEFT | …] JOIN               method NATURAL; side; kind
    EXISTS    Exists(this=query). NOT EXISTS is Not(Exists).
    IN        In(this=x, query=Subquery(this=query)). x NOT IN is Not(In).
    scalar    Subquery(this=query) as an operand.

Each condition under AND, in WHERE and ON of every Select, has EXTENT in its `meta`. Each Select, Values, Subquery and
Exists has `start`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from psoup.sql.aggregates import AGGREGATES
from psoup.sql.parser.syntax import BoundsNode


@dataclass(frozen=True, slots=True)
class NestedJoin:
    """A join in parentheses, or the first of several JOINs before one ON: its first item, its JOINs, and its name."""

    first: exp.Expr
    joins: list[exp.Join]
    alias: exp.Expr | None


QUERIES = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)
"""The nodes of queries."""

_INSIDE = (exp.SetOperation, exp.Subquery, exp.Exists, exp.Values, exp.CTE)
_ALONE = frozenset({"INNER", "CROSS"})
_BOUNDS = frozenset({"begin", "end"})
_COMPUTING = ("distinct", "group", "having", "qualify", "order", "limit", "offset")


def is_composed(tree: exp.Expr) -> bool:
    """Whether a statement is composed. O(nodes).

    A composed statement has another statement inside, or a join with a rule for rows without a partner. New names for
    the columns of a source make it composed, too. So does WHERE in the brackets of a window.
    """
    if isinstance(tree, exp.Subquery | exp.SetOperation):
        return True
    for node in tree.walk():
        if isinstance(node, _INSIDE) or (isinstance(node, exp.Select) and node is not tree):
            return True
        if isinstance(node, exp.Join) and (is_partner_join(node) or node.this.args.get("joins")):
            return True
        if isinstance(node, exp.Table) and as_of(node) is not None:
            return True
        if isinstance(node, exp.TableAlias) and node.args.get("columns"):
            return True
        if isinstance(node, BoundsNode) and node.args.get("where") is not None:
            return True
    return False


def as_of(table: exp.Expr) -> exp.Expr | None:
    """The name after AS OF of an item of FROM, or None."""
    alias = table.args.get("alias")
    node: exp.Expr | None = table.args.get("as_of") or (alias and alias.args.get("as_of"))
    return node


def renames_columns(select: exp.Select, joined: Sequence[exp.Expr]) -> bool:
    """Whether an item of FROM has new names for its columns: `FROM s AS t(a, b)`. `joined`: the items of its JOINs."""
    origin = select.args.get("from_")
    aliases = [table.args.get("alias") for table in (*joined, *(() if origin is None else (origin.this,)))]
    return any(alias is not None and alias.args.get("columns") for alias in aliases)


def is_partner_join(join: exp.Join) -> bool:
    """Whether a join is neither an inner nor a cross join."""
    kind = join.args.get("kind")
    return bool(join.args.get("method") or join.args.get("side") or (kind and kind not in _ALONE))


def join_words(join: exp.Join) -> str:
    """The words before JOIN, such as LEFT or ASOF LEFT. "" for a comma and a plain JOIN."""
    words = [word for part in ("method", "side", "kind") if (word := join.args.get(part))]
    return " ".join(word for word in words if word != "OUTER" or len(words) == 1)


def nested_join(table: exp.Expr) -> NestedJoin | None:
    """The join that stands at the place of one item of FROM. None for a stream and a subselect."""
    joins = table.args.get("joins")
    if joins:
        return NestedJoin(_without_joins(table), joins, None)
    inner = table.this
    if not isinstance(table, exp.Subquery) or not (isinstance(inner, exp.Table) or inner.args.get("joins")):
        return None
    if isinstance(inner, exp.Select | exp.SetOperation):
        return None
    return NestedJoin(_without_joins(inner), inner.args.get("joins") or [], table.args.get("alias"))


def _without_joins(table: exp.Expr) -> exp.Expr:
    """The item of FROM alone. The node is a new one, because a tree may be bound several times."""
    alone = type(table)()
    alone.args = {name: value for name, value in table.args.items() if name != "joins"}
    alone.meta.update(table.meta)
    alone.parent = table.parent
    return alone


def bare(query: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it, unless they have a part of their own, such as ORDER BY."""
    while isinstance(query, exp.Subquery) and not any(
        value for name, value in query.args.items() if name not in ("this", "alias", "window")
    ):
        query = query.this
    return query


def unwrapped(tree: exp.Expr) -> exp.Expr:
    """A whole statement without the parentheses around it. BEGIN and END after them move to the statement inside."""
    while isinstance(tree, exp.Subquery):
        inner, parts = tree.this, {name for name, value in tree.args.items() if value and name != "this"}
        if not parts <= _BOUNDS or (parts and _BOUNDS & {name for name, value in inner.args.items() if value}):
            return tree
        for name in parts:
            inner.set(name, tree.args[name])
        tree = inner
    return tree


def operands(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the SELECTs and VALUES of a set operation, in the order of the text. A query alone yields itself."""
    waiting = [query]
    while waiting:
        node = bare(waiting.pop())
        if isinstance(node, exp.SetOperation):
            waiting += [node.expression, node.this]
        else:
            yield node


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions joined by AND, in the order of the text. A condition in parentheses keeps them."""
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        inner = node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.And):
            waiting += [inner.expression, inner.this]
        else:
            yield node


def is_selection(select: exp.Select) -> bool:
    """Whether a SELECT only selects and joins: its rows are joined tuples in their order, one row for each."""
    if select.args.get("from_") is None or any(select.args.get(part) for part in _COMPUTING):
        return False
    return not any(
        isinstance(node, exp.Window) or (isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES)
        for item in select.expressions
        for node in item.walk(prune=lambda node: isinstance(node, QUERIES))
    )


def is_existence(node: exp.Expr) -> bool:
    """Whether a node is EXISTS (SELECT …), or IN (SELECT …)."""
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None)


def negated(node: exp.Expr) -> tuple[exp.Expr, bool]:
    """A condition without NOT and parentheses around it, and whether the number of NOTs is odd."""
    odd = False
    while isinstance(node, exp.Paren | exp.Not):
        odd ^= isinstance(node, exp.Not)
        node = node.this
    return node, odd
