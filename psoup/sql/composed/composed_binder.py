"""The binder of a SELECT in a composed statement: it also knows scalar subselects.

    WHERE price > (SELECT avg(price) FROM trades)      the subselect is a relation of one row, and its column a column

A scalar subselect is computed once for each invocation. The SELECT joins its only row with each row of FROM. If the
subselect reads the SELECT around it, it becomes a row for each key (`psoup.sql.composed.looked_up`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sqlglot import exp

from psoup.errors import NotSupported
from psoup.expressions.tree import Expr
from psoup.plan.nodes import Relation
from psoup.sql.binder import Binder
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.looked_up import LookedUp
from psoup.sql.composed.scope import OUTSIDE, Scope, hidden_from_value


class ComposedBinder(Binder):
    """Binds the expressions of one SELECT. `scalars`: the relations of the scalar subselects that it has met.
    `looked_up`: those that read the scope."""

    def __init__(
        self,
        composition: Composition,
        scope: Scope,
        relation: Callable[[exp.Expr], Relation],
        look_up: Callable[[exp.Expr, Scope], LookedUp],
    ) -> None:
        """`relation`: binds a scalar subselect. `look_up`: binds a scalar subselect that reads the scope."""
        super().__init__(composition.source, scope, composition.parameters)
        self.scalars: dict[int, Relation] = {}
        self.looked_up: dict[int, LookedUp] = {}
        self._relation = relation
        self._look_up = look_up
        self._scope = scope
        self._composition = composition

    @property
    def single_values(self) -> Mapping[Expr, Collection[Expr]]:
        """The columns of the scalar subselects that were bound so far, each with the expressions that it depends on."""
        alone = {relation.schema[0].expr: () for relation in self.scalars.values()}
        keyed = {column.expr: value.outer for value in self.looked_up.values() for column in value.relation.schema}
        return {**alone, **keyed}

    def bind(self, node: exp.Expr) -> Expr:
        """Bind one expression to its typed tree. Raises SqlError with the place."""
        if isinstance(node, exp.Subquery):
            return self._scalar(node)
        return super().bind(node)

    def _scalar(self, node: exp.Subquery) -> Expr:
        if (value := self.looked_up.get(id(node))) is not None:
            return value.value
        relation = self.scalars.get(id(node))
        if relation is None:
            composition, mark = self._composition, self._composition.mark()
            try:
                with composition.beside(hidden_from_value(self._scope)):
                    relation = self._relation(node)
            except NotSupported as problem:
                if OUTSIDE not in problem.message or composition.looking_up:
                    raise
                composition.undo(mark)
                with composition.look_up():
                    value = self.looked_up[id(node)] = self._look_up(node, self._scope)
                return value.value
            self.scalars[id(node)] = relation
        return relation.schema[0].expr
