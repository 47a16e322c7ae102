"""The binder of a SELECT in a composed statement: it also knows scalar subselects.

    WHERE price > (SELECT avg(price) FROM trades)      the subselect is a relation of one row, and its column a column

A scalar subselect is computed once for each invocation. The SELECT joins its only row with each row of FROM.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from psoup.expressions.tree import Expr
from psoup.plan.nodes import Relation
from psoup.sql.binder import Binder
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.scope import Scope, hidden_from_value


class ComposedBinder(Binder):
    """Binds the expressions of one SELECT. `scalars`: the relations of the scalar subselects that it has met."""

    def __init__(self, composition: Composition, scope: Scope, relation: Callable[[exp.Expr], Relation]) -> None:
        """`relation`: binds a scalar subselect."""
        super().__init__(composition.source, scope, composition.parameters)
        self.scalars: dict[int, Relation] = {}
        self._relation = relation
        self._scope = scope
        self._composition = composition

    @property
    def single_values(self) -> list[Expr]:
        """The columns of the scalar subselects that were bound so far."""
        return [relation.schema[0].expr for relation in self.scalars.values()]

    def bind(self, node: exp.Expr) -> Expr:
        """Bind one expression to its typed tree. Raises SqlError with the place."""
        if isinstance(node, exp.Subquery):
            return self._scalar(node)
        return super().bind(node)

    def _scalar(self, node: exp.Subquery) -> Expr:
        relation = self.scalars.get(id(node))
        if relation is None:
            with self._composition.beside(hidden_from_value(self._scope)):
                relation = self.scalars[id(node)] = self._relation(node)
        return relation.schema[0].expr
