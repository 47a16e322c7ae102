"""SELECT: from its syntax to a `StandingQuery`.

    FROM (sources, windows) -> WHERE (factors) -> SELECT list -> ORDER BY, LIMIT -> the plan
             several sources -> WHERE split: a statement for each side, and the factors of the Join

`*` is expanded here, so a registered query does not change when a stream's schema does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from psoup.expressions.tree import AttributeRef, Expr, Literal
from psoup.model import BIGINT, RESERVED_NAMES
from psoup.plan.canonical import factor_text, literal_text
from psoup.plan.nodes import Distinct, Join, Limit, Node, OrderKey, Output, Project, Sort, Source
from psoup.plan.standing import Selection, StandingQuery
from psoup.sql.binder import Binder
from psoup.sql.from_list import FromList, Lookup, from_list
from psoup.sql.guards import tokens_of
from psoup.sql.parsing import parse, untie
from psoup.sql.refusals import (
    refuse_clauses,
    refuse_conjuncts,
    refuse_node,
    refuse_statement,
    refuse_syntax,
    refuse_tokens,
)
from psoup.sql.source import StatementText, nearest
from psoup.sql.splitting import apart, filled, side_text, split
from psoup.sql.where.factors import factors_of

__all__ = ["MAX_OUTPUTS", "Lookup", "bind_select", "clause_text", "selected"]

MAX_CROSSED = 10_000
"""Rows that may be asked of a join in which nothing connects some of the sources."""

MAX_OUTPUTS = 4_000
MAX_NAME = 256
"""Longest name of a column of the answer that is made from an expression's text; longer ones are cut."""


def selected(source: StatementText, lookup: Lookup, names: Sequence[str] = ()) -> StandingQuery:
    """The standing query of a SELECT, from its text. Raises SqlError."""
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "SELECT")
    refuse_tokens(source, tokens)
    node = parse(source, tokens)
    if not isinstance(node, exp.Select):
        raise refuse_node(source, node)
    try:
        return bind_select(source, node, lookup, names)
    finally:
        untie(node)


def bind_select(
    source: StatementText,
    select: exp.Select,
    lookup: Lookup,
    names: Sequence[str],
    parameters: Mapping[int, Literal] | None = None,
) -> StandingQuery:
    """The standing query of a parsed SELECT; `parameters` as for `Binder`. Raises SqlError."""
    refuse_clauses(source, select)
    distinct = _distinct(source, select)
    origin = from_list(source, select, lookup, names)
    refuse_syntax(source, select)
    binder = Binder(source, origin.names, parameters)
    where = select.args.get("where")
    if where is not None:
        refuse_conjuncts(source, where.this)
    if origin.joined:
        return _bind_join(source, select, origin, binder, lookup, parameters or {})
    factors = factors_of(None if where is None else binder.condition(where.this))
    ((spec, _),) = origin.names.sources
    leaf = Source(0, spec, origin.windows[0])
    plan = _plan(source, select, binder, leaf, distinct)
    clause = clause_text(spec.name, [factor_text(factor) for factor in factors])
    return StandingQuery(source.text, (Selection(leaf, clause, factors),), plan)


def _bind_join(
    source: StatementText,
    select: exp.Select,
    origin: FromList,
    binder: Binder,
    lookup: Lookup,
    parameters: Mapping[int, Literal],
) -> StandingQuery:
    """The standing query of a SELECT over several streams: each side is bound as the statement that it is."""
    where = select.args.get("where")
    constants = {start: literal_text(literal) for start, literal in parameters.items()}
    found = split(source, origin, None if where is None else where.this, binder, filled(source.text, constants))
    leaves = tuple(
        Source(place, spec, own, alias)
        for place, ((spec, alias), own) in enumerate(zip(origin.names.sources, origin.windows, strict=True))
    )
    _check_domains(source, leaves, select)
    texts = [side_text(origin, place, conditions) for place, conditions in enumerate(found.texts)]
    sides = tuple(selected(StatementText(text), lookup) for text in texts)
    selections = tuple(Selection(leaf, side.clause, side.factors) for leaf, side in zip(leaves, sides, strict=True))
    join = Join(leaves, tuple(found.keys), tuple(found.bands), tuple(found.rest))
    plan = _plan(source, select, binder, join, _distinct(source, select))
    crossed = apart(len(leaves), (*found.keys, *found.bands))
    if crossed:
        _check_crossed(source, select, plan, crossed, [alias for _, alias in origin.names.sources])
    return StandingQuery(source.text, selections, plan, sides)


def _check_domains(source: StatementText, leaves: Sequence[Source], select: exp.Select) -> None:
    """Refuse streams of both time domains: they have no NOW in common."""
    by_domain = {leaf.spec.event_time: leaf for leaf in leaves}
    if len(by_domain) > 1:
        timed, other = by_domain[True].spec.name, by_domain[False].spec.name
        raise source.error(
            f"stream {timed!r} has a time of its own and {other!r} that of the service's clock: they have no NOW in"
            " common",
            select.args["joins"][by_domain[False].place - 1 if by_domain[False].place else 0],
            hint=f"create {other} with TIMESTAMP BY a column",
            reason="MIXED_TIME_DOMAINS",
        )


def _check_crossed(
    source: StatementText, select: exp.Select, plan: Node, crossed: Sequence[int], aliases: Sequence[str]
) -> None:
    """Refuse a join in which nothing connects some sources with the first, unless few rows of it are asked for."""
    if isinstance(plan, Limit) and plan.rows is not None and plan.rows + plan.skip <= MAX_CROSSED:
        return
    others = ", ".join(alias for place, alias in enumerate(aliases) if place not in crossed)
    raise source.error(
        f"nothing connects {', '.join(aliases[place] for place in crossed)} with {others}: every tuple of the one would"
        " meet every tuple of the other",
        select.args["joins"][crossed[0] - 1],
        hint=f"say what they have in common (a.k = b.k, or a.t <= b.t), or ask for few rows: LIMIT {MAX_CROSSED:,} at"
        " most",
        reason="CROSS_JOIN",
    )


def _plan(source: StatementText, select: exp.Select, binder: Binder, origin: Node, distinct: bool) -> Node:
    """The plan for the tuples that satisfy WHERE, from the leaves up. Raises SqlError."""
    outputs = _outputs(source, select, binder)
    keys = _order(source, select, binder, outputs, distinct)
    limit = _limit(source, binder, select.args.get("limit"))
    skip = _count(source, binder, select.args.get("offset"), "OFFSET") or 0
    plan: Node = Project(origin, outputs)
    if distinct:
        plan = Distinct(plan)
    if keys:
        plan = Sort(plan, keys)
    return Limit(plan, limit, skip) if limit is not None or skip else plan


def clause_text(stream: str, factors: Sequence[str]) -> str:
    """The canonical FROM-WHERE of factors, given by their texts in order."""
    return f"FROM {stream} WHERE {' AND '.join(factors)}" if factors else f"FROM {stream}"


def _outputs(source: StatementText, select: exp.Select, binder: Binder) -> tuple[Output, ...]:
    outputs: list[Output] = []
    seen: set[str] = set()
    if not select.expressions:
        raise source.error("the SELECT list is empty", select, hint="write * for all columns")
    for item in select.expressions:
        for output in _item(source, item, binder):
            folded = output.name.lower()
            if folded in seen:
                raise source.error(
                    f"the answer would have two columns {output.name!r}",
                    item,
                    hint=_way_out(binder, item, output),
                    reason="DUPLICATE_COLUMN",
                )
            seen.add(folded)
            outputs.append(output)
        if len(outputs) > MAX_OUTPUTS:
            raise source.error(f"a query has at most {MAX_OUTPUTS:,} columns", item)
    return tuple(outputs)


def _way_out(binder: Binder, item: exp.Expr, output: Output) -> str:
    """How to name two columns apart, for a hint."""
    sources, expr = binder.names.sources, output.expr
    if len(sources) == 1 or not isinstance(expr, AttributeRef) or isinstance(item, exp.Alias):
        return "name one with AS"
    alias = sources[expr.source].alias
    if not item.find(exp.Star):
        return f"name one with AS: {alias}.{expr.name} AS {alias}_{expr.name}"
    before = {name.lower() for spec, _ in sources[: expr.source] for name in spec.schema.names}
    shared = [name for name in sources[expr.source].spec.schema.names if name.lower() in before]
    named = ", ".join(f"{alias}.{name} AS {alias}_{name}" for name in shared[:3])
    return f"leave out what has a name twice, or name it: {alias}.* EXCLUDE ({', '.join(shared[:12])}), {named}"


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
        name = expr.name if isinstance(expr, AttributeRef) else _text_of(source, item)
    if name.lower() in RESERVED_NAMES and not (isinstance(expr, AttributeRef) and expr.name == name.lower()):
        raise source.error(f"{name!r} is reserved", item, hint="use another name")
    return [Output(name, expr)]


def _star(source: StatementText, item: exp.Expr, star: exp.Star, binder: Binder) -> list[Output]:
    """The columns of `*` or `x.*`, without those of EXCLUDE, and with the expressions of REPLACE in place of others."""
    if star.args.get("rename"):
        raise source.unsupported("* with RENAME", star, hint="list the columns, with AS")
    attributes = binder.names.star(item)
    known, taken = {attribute.name.lower() for attribute in attributes}, set[str]()
    excluded = {_named(source, node, node.name, "EXCLUDE", known, taken) for node in star.args.get("except_") or ()}
    replaced = {
        _named(source, node, node.alias, "REPLACE", known, taken): binder.bind(node.this)
        for node in star.args.get("replace") or ()
        if isinstance(node, exp.Alias)
    }
    left = [attribute for attribute in attributes if attribute.name.lower() not in excluded]
    if not left:
        raise source.error("nothing is left of *", star, hint="leave out fewer columns")
    return [Output(attribute.name, replaced.get(attribute.name.lower(), attribute)) for attribute in left]


def _named(source: StatementText, node: exp.Expr, name: str, word: str, known: set[str], taken: set[str]) -> str:
    """A column that EXCLUDE or REPLACE names, in small letters."""
    folded = name.lower()
    if folded not in known:
        hint = nearest(name, known)
        raise source.error(f"* has no column {name[:128]!r} for {word}", node, hint=hint, reason="UNKNOWN_COLUMN")
    if folded in taken:
        raise source.error(f"{name[:128]!r} is named twice after *", node)
    taken.add(folded)
    return folded


def _text_of(source: StatementText, item: exp.Expr) -> str:
    start, stop = item.meta.get("span", (0, 0))
    return " ".join(source.text[start:stop].split())[:MAX_NAME] or "column"


def _distinct(source: StatementText, select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise source.unsupported("DISTINCT ON", distinct, hint="use DISTINCT")
    return distinct is not None


def _order(
    source: StatementText, select: exp.Select, binder: Binder, outputs: tuple[Output, ...], distinct: bool
) -> tuple[OrderKey, ...]:
    order = select.args.get("order")
    if order is None:
        return ()
    by_name = {output.name.lower(): output.expr for output in outputs}
    keys = []
    for item in order.expressions:
        if not isinstance(item, exp.Ordered):
            raise refuse_node(source, item)
        if item.args.get("with_fill") is not None:
            raise source.unsupported("WITH FILL", item)
        descending, nulls_first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
        if _is_all(item.this) and len(order.expressions) == 1:
            return tuple(OrderKey(output.expr, descending, nulls_first) for output in outputs)
        expr = _order_expr(source, item.this, binder, by_name, outputs)
        if distinct and expr not in by_name.values():
            raise source.error(
                "SELECT DISTINCT can only be ordered by what it selects", item, hint="add the expression to the list"
            )
        keys.append(OrderKey(expr, descending, nulls_first))
    return tuple(keys)


def _is_all(node: exp.Expr) -> bool:
    """Whether it is the word ALL: every column of the SELECT list."""
    return isinstance(node, exp.Column) and node.name.upper() == "ALL" and not node.this.quoted and not node.table


def _order_expr(
    source: StatementText, node: exp.Expr, binder: Binder, by_name: dict[str, Expr], outputs: tuple[Output, ...]
) -> Expr:
    expr = binder.order_key(node, by_name)
    if not isinstance(expr, Literal):
        return expr
    if expr.type != BIGINT or not isinstance(expr.value, int):
        raise source.error("ORDER BY a constant orders nothing", node, hint="name a column")
    if not 1 <= expr.value <= len(outputs):
        raise source.error(f"the SELECT list has no column {expr.value}; its last is {len(outputs)}", node)
    return outputs[expr.value - 1].expr


def _limit(source: StatementText, binder: Binder, node: exp.Expr | None) -> int | None:
    if node is not None and (not isinstance(node, exp.Limit) or node.expressions):
        raise source.unsupported("FETCH", node, hint="use LIMIT n")
    return _count(source, binder, node, "LIMIT")


def _count(source: StatementText, binder: Binder, node: exp.Expr | None, word: str) -> int | None:
    """The number of rows that LIMIT or OFFSET says, a constant; None for none, and for NULL."""
    if node is None:
        return None
    value = node.expression
    if not isinstance(value, exp.Expr):
        raise source.error(f"{word} needs a whole number", node, hint=f"write {word} 10")
    count = binder.constant(value)
    if count is None or (count.type != BIGINT and count.value is not None):
        raise source.error(f"{word} needs a whole number of at most 19 digits", node, hint=f"write {word} 10")
    if count.value is None:
        return None
    if int(count.value) < 0:
        raise source.error(f"{word} must not be negative", node, hint=f"write {word} 10")
    return int(count.value)
