"""SELECT: from the syntax tree to a `StandingQuery`.

    FROM (sources, windows) -> WHERE (factors) -> SELECT list -> GROUP BY, HAVING -> ORDER BY, LIMIT -> the plan
             several sources -> WHERE split: a statement for each side, and the factors of the Join

This module replaces `*` by columns, so a registered query does not change when a stream's schema does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from psoup.expressions.tree import Expr, Literal
from psoup.model import BIGINT
from psoup.plan.canonical import factor_text, literal_text
from psoup.plan.hop import grouped
from psoup.plan.nodes import (
    Distinct,
    Join,
    Limit,
    Node,
    OrderKey,
    Output,
    Project,
    Sort,
    Source,
    windowed,
)
from psoup.plan.standing_query import Selection, StandingQuery
from psoup.sql.binder import Binder
from psoup.sql.elsewhere.advice import advised
from psoup.sql.from_list import FromList, Lookup, from_list
from psoup.sql.group_by import Groups, SingleValues, group_keys, having_condition, in_having
from psoup.sql.hop import written_hops
from psoup.sql.join_conditions import filled, side_text, split
from psoup.sql.over_plan import OverPlan, qualify_condition
from psoup.sql.parser.guards import tokens_of
from psoup.sql.parser.parse_tree import parse, untie
from psoup.sql.refusals import (
    refuse_clauses,
    refuse_node,
    refuse_statement,
    refuse_syntax,
    refuse_tokens,
)
from psoup.sql.select_list import distinct_keys, listed_outputs, order_keys
from psoup.sql.source import StatementText
from psoup.sql.time_domains import mixed_domains
from psoup.sql.where.factors import factors_of

__all__ = ["Lookup", "bind_select", "clause_text", "selected"]

MAX_CONJUNCTS = 500


Known = Callable[[str], StandingQuery | None]
"""A function that returns the query of a side's statement without parsing, or None.

The template of a join has the queries of its sides.
"""


def selected(
    source: StatementText, lookup: Lookup, names: Sequence[str] = (), known: Known | None = None
) -> StandingQuery:
    """The standing query of a SELECT, from its text. `known`: finds the queries of sides without parsing. Raises
    SqlError."""
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "SELECT")
    with advised(source, tokens, lookup):
        refuse_tokens(source, tokens)
        node = parse(source, tokens)
        if not isinstance(node, exp.Select):
            raise refuse_node(source, node)
        try:
            return bind_select(source, node, lookup, names, known=known)
        finally:
            untie(node)


def bind_select(
    source: StatementText,
    select: exp.Select,
    lookup: Lookup,
    names: Sequence[str],
    parameters: Mapping[int, Literal] | None = None,
    known: Known | None = None,
) -> StandingQuery:
    """The standing query of a parsed SELECT. `parameters` as for `Binder`, `known` as for `selected`. Raises
    SqlError."""
    refuse_clauses(source, select)
    distinct = _distinct(select)
    origin = from_list(source, select, lookup, names)
    refuse_syntax(source, select)
    binder = Binder(source, origin.names, parameters)
    where = select.args.get("where")
    if where is not None:
        check_conjuncts(source, where.this)
    if origin.joined:
        return _bind_join(source, select, origin, binder, lookup, parameters or {}, known)
    factors = factors_of(None if where is None else binder.condition(where.this))
    ((spec, _),) = origin.names.sources
    leaf = Source(0, spec, origin.windows[0], partition=origin.partitions[0])
    plan = _plan(source, select, binder, windowed(leaf), distinct)
    clause = clause_text(spec.name, [factor_text(factor) for factor in factors])
    return StandingQuery(source.text, (Selection(leaf, clause, factors),), plan)


def _bind_join(
    source: StatementText,
    select: exp.Select,
    origin: FromList,
    binder: Binder,
    lookup: Lookup,
    parameters: Mapping[int, Literal],
    known: Known | None,
) -> StandingQuery:
    """The standing query of a SELECT over several streams. It binds the statement of each side."""
    where = select.args.get("where")
    constants = {start: literal_text(literal) for start, literal in parameters.items()}
    parts = split(source, origin, None if where is None else where.this, binder, filled(source.text, constants))
    leaves = tuple(
        Source(place, spec, window, alias, partition=partition)
        for place, ((spec, alias), window, partition) in enumerate(
            zip(origin.names.sources, origin.windows, origin.partitions, strict=True)
        )
    )
    _check_domains(source, leaves, select)
    texts = [side_text(origin, place, conditions) for place, conditions in enumerate(parts.texts)]
    known_sides = [None if known is None else known(text) for text in texts]
    sides = tuple(side or selected(StatementText(text), lookup) for side, text in zip(known_sides, texts, strict=True))
    selections = tuple(Selection(leaf, side.clause, side.factors) for leaf, side in zip(leaves, sides, strict=True))
    join = Join(tuple(map(windowed, leaves)), tuple(parts.keys), tuple(parts.bands), tuple(parts.rest))
    plan = _plan(source, select, binder, join, _distinct(select))
    return StandingQuery(source.text, selections, plan, sides)


def check_conjuncts(source: StatementText, where: exp.Expr) -> None:
    """Refuse a WHERE of more than MAX_CONJUNCTS conditions joined by AND."""
    count, at = 1, where
    while isinstance(at, exp.And | exp.Paren):
        count += isinstance(at, exp.And)
        at = at.this
    if count > MAX_CONJUNCTS:
        raise source.error(
            f"WHERE joins {count:,} conditions, more than {MAX_CONJUNCTS}", where, hint="use IN or BETWEEN"
        )


def _check_domains(source: StatementText, leaves: Sequence[Source], select: exp.Select) -> None:
    """Refuse a join of streams of several time domains, because they have no common NOW."""
    if (mixed := mixed_domains(leaves)) is not None:
        at = select.args["joins"][mixed.place - 1 if mixed.place else 0]
        raise source.error(mixed.message, at, hint=mixed.hint, reason="MIXED_TIME_DOMAINS")


def bind_in_having(select: exp.Select, binder: Binder) -> Callable[[exp.Expr], Expr]:
    """A function that binds expressions in the HAVING of a statement. Raises SqlError."""
    outputs = listed_outputs(binder.source, select, binder)
    return in_having(binder, outputs, group_keys(binder.source, select, binder, outputs))


def plan_above(source: StatementText, select: exp.Select, binder: Binder, rows: Node) -> Node:
    """The plan of a SELECT over `rows`, the node of its FROM and WHERE. Raises SqlError."""
    return _plan(source, select, binder, rows, _distinct(select))


def _plan(source: StatementText, select: exp.Select, binder: Binder, origin: Node, distinct: bool) -> Node:
    """The plan of a statement: its nodes over `origin`, the Source or Join of the tuples that satisfy WHERE. Raises
    SqlError."""
    outputs = listed_outputs(source, select, binder)
    grouped_by = group_keys(source, select, binder, outputs)
    having = having_condition(source, select, binder, outputs, grouped_by)
    keys = order_keys(source, select, binder, outputs, distinct)
    qualify = qualify_condition(source, select, binder, outputs)
    first_of = distinct_keys(source, select, binder, outputs)
    group, rewritten = select.args.get("group"), _itself
    if grouped_by or having is not None or binder.measures.listed or _names_keys(group, select):
        if binder.single_values:
            single = SingleValues(binder, grouped_by, select)
            outputs = tuple(Output(output.name, single.of(output.expr)) for output in outputs)
            keys = tuple(OrderKey(single.of(key.expr), key.descending, key.nulls_first) for key in keys)
            having = None if having is None else single.of(having)
        groups = Groups(source, grouped(origin, grouped_by, binder.measures.listed), select)
        outputs, keys, origin = groups.outputs(outputs), groups.order(keys), groups.node(having)
        rewritten = groups.of
    over = OverPlan(origin, binder.windows.listed, rewritten)
    outputs, keys = over.outputs(outputs), over.order(keys)
    if qualify is not None:
        over.qualify(qualify)
    if first_of:
        over.keep_first(first_of, keys)
    limit = _limit(source, binder, select.args.get("limit"))
    skip = _count(source, binder, select.args.get("offset"), "OFFSET") or 0
    plan: Node = Project(over.node, outputs)
    if distinct:
        plan = Distinct(plan)
    if keys:
        plan = Sort(plan, keys)
    return Limit(plan, limit, skip) if limit is not None or skip else plan


def clause_text(stream: str, factors: Sequence[str]) -> str:
    """The canonical FROM-WHERE text of these factors."""
    return f"FROM {stream} WHERE {' AND '.join(factors)}" if factors else f"FROM {stream}"


def _distinct(select: exp.Select) -> bool:
    """Whether equal rows count once. DISTINCT ON is another matter."""
    distinct = select.args.get("distinct")
    return distinct is not None and distinct.args.get("on") is None


def _names_keys(group: exp.Expr | None, select: exp.Select) -> bool:
    """Whether a GROUP BY makes groups without a key that reads tuples, and without an aggregate."""
    return group is not None and (not group.args.get("all") or bool(written_hops(select)))


def _itself(expr: Expr) -> Expr:
    return expr


def _limit(source: StatementText, binder: Binder, node: exp.Expr | None) -> int | None:
    if node is not None and (not isinstance(node, exp.Limit) or node.expressions):
        raise source.unsupported("FETCH", node, hint="use LIMIT n")
    return _count(source, binder, node, "LIMIT")


def _count(source: StatementText, binder: Binder, node: exp.Expr | None, word: str) -> int | None:
    """The constant number of rows in LIMIT or OFFSET. None without the clause, and for NULL."""
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
