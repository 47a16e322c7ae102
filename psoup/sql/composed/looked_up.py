"""Scalar subselects that read the SELECT around them by equalities: a grouped relation, joined by its keys.

    SELECT a.x, (SELECT max(b.y) FROM b WHERE b.k = a.k AND b.y > 0) AS m FROM a
      relation   SELECT b.k, max(b.y), true FROM b WHERE b.y > 0 GROUP BY b.k
      tree       a LEFT JOIN relation ON a.k = relation.k
      m          the second column of the relation

The relation has at most one row for each key. Without a row, a count is 0, and other
aggregates are NULL. The third column tells whether there is a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from psoup.errors import InvalidInput, NotSupported
from psoup.expressions.conversion import is_null_literal
from psoup.expressions.evaluate import constant
from psoup.expressions.tree import GROUPED, AttributeRef, Call, Expr, Literal, sources_of
from psoup.model import BOOLEAN
from psoup.plan.nodes import Aggregate, JoinKind, Measure, Node, Output, Project, Relation
from psoup.sql.binder import Binder
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.condition_places import Condition, Kept, Part, Tree
from psoup.sql.composed.shapes import is_existence
from psoup.sql.group_by import Groups
from psoup.sql.join_conditions import conjuncts
from psoup.sql.source import StatementText

_COUNTS = frozenset({"count", "approx_count_distinct"})
"""The measures that are 0 without tuples. Other measures are NULL."""

_WAY = "compare with the source around it by equalities in WHERE: (SELECT max(b.y) FROM b WHERE b.k = a.k)"


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A subselect as a relation with a row for each key. `equal`: its keys with the values around it, as conditions.
    `value`: the subselect's value. `outer`: the values around it."""

    relation: Relation
    equal: tuple[Condition, ...]
    value: Expr
    outer: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An equality of an expression of the subselect with an expression of the SELECT around it."""

    inner: Expr
    outer: Expr


def refuse_existence(source: StatementText, select: exp.Select) -> None:
    """Refuse EXISTS and IN (SELECT …) in a subselect that reads the SELECT around it. Raises SqlError."""
    where = select.args.get("where")
    for node in () if where is None else where.find_all(exp.Exists, exp.In):
        if is_existence(node):
            raise refused(source, "EXISTS and IN in a subselect as a value that reads a source outside of it", node)


def key_pairs(source: StatementText, conditions: Iterable[Condition], inner: frozenset[int]) -> list[KeyPair]:
    """The equalities in the conditions that read the SELECT around a subselect. `inner`: the subselect's places.

    Raises SqlError for another condition.
    """
    pairs = []
    for condition in conditions:
        for part in conjuncts(condition.expr):
            sides = part.args if isinstance(part, Call) and part.name == "eq" else ()
            mine = [side for side in sides if sources_of(side) and sources_of(side) <= inner]
            around = [side for side in sides if sources_of(side) and not sources_of(side) & inner]
            if len(mine) != 1 or len(around) != 1:
                feature = "a subselect as a value that reads a source outside of it other than by equalities"
                raise refused(source, feature, condition.node)
            pairs.append(KeyPair(mine[0], around[0]))
    return pairs


def looked_up(
    composition: Composition, select: exp.Select, binder: Binder, rows: Node, pairs: Sequence[KeyPair], output: Output
) -> LookedUp:
    """The relation of a subselect with one row for each key, and its value. Raises SqlError.

    `rows`: the rows of FROM that satisfy the conditions of the subselect alone. `binder`: has its measures.
    """
    measures, source = binder.measures.listed, composition.source
    places = frozenset(leaf.place for leaf in rows.leaves)
    read = frozenset[int]().union(*(sources_of(expr) for measure in measures for expr in _read_by(measure)))
    if not pairs or not read <= places:
        feature = "a subselect as a value that reads a source outside of it in its SELECT list"
        raise refused(source, feature, select)
    keys = tuple(dict.fromkeys(pair.inner for pair in pairs))
    groups = Groups(source, Aggregate(rows, keys, measures), select)
    columns = [Output(f"key_{number}", groups.of(key)) for number, key in enumerate(keys, 1)]
    columns += [Output(output.name, groups.of(output.expr)), Output("found", Literal(BOOLEAN, True))]
    plan = Project(groups.node(None), tuple(columns))
    relation = composition.add_relation(plan, "subselect", [column.name for column in columns])
    *parts, value, row = [column.expr for column in relation.schema]
    by_key = dict(zip(keys, parts, strict=True))
    equal = [Condition(binder.call("eq", select, [pair.outer, by_key[pair.inner]])) for pair in pairs]
    empty = _without_tuples(output.expr, measures)
    if not is_null_literal(empty):
        exists = binder.call("is_not_null", select, [row])
        value = binder.call("case", select, [exists, value, empty])
    return LookedUp(relation, tuple(equal), value, tuple([pair.outer for pair in pairs]))


def joined(source: StatementText, tree: Tree, values: Iterable[LookedUp], at: exp.Expr) -> Tree:
    """The tree with the relations of subselects on top of it. Raises SqlError if one reads a source two levels up."""
    for value in values:
        if not all(sources_of(outer) <= tree.places for outer in value.outer):
            raise refused(source, "a subselect as a value that reads a source two levels up", at)
        tree = Kept(tree, Part(value.relation), JoinKind.LEFT, list(value.equal), written=False)
    return tree


def refused(source: StatementText, feature: str, at: exp.Expr | None) -> NotSupported:
    """The error for a subselect that cannot be looked up by keys."""
    return source.unsupported(feature, 0 if at is None else at, hint=_WAY)


def _read_by(measure: Measure) -> list[Expr]:
    return [*measure.args, *([] if measure.condition is None else [measure.condition])]


def _without_tuples(expr: Expr, measures: Sequence[Measure]) -> Expr:
    """The value of an expression over measures without tuples."""
    if isinstance(expr, AttributeRef) and expr.source == GROUPED:
        return Literal(expr.type, 0 if measures[expr.index].function in _COUNTS else None)
    if not isinstance(expr, Call):
        return expr
    call = Call(expr.type, expr.name, tuple([_without_tuples(arg, measures) for arg in expr.args]))
    try:
        return constant(call) or call
    except InvalidInput:
        return call  # an error in every row without tuples, counted at evaluation
