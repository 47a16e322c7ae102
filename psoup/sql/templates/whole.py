"""A statement with parameters in its plan: each query is bound again, with constants instead of the parameters.

    SELECT sym, count(*) … GROUP BY sym HAVING count(*) > ?      5   ->   the query of `… HAVING count(*) > 5`
    SELECT … FROM r, s WHERE r.k = s.k AND r.a + s.a > ?         7   ->   the query of `… r.a + s.a > 7`

A query over one stream is bound from the tree of the statement. So is the plan of a join whose parameters are in HAVING
and in conditions over single sources. Its sides are templates. Other joins are bound from their text. That takes some
hundred microseconds a query. Queries with equal constants share a plan, if few other queries came between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from psoup.errors import InvalidInput
from psoup.expressions.tree import Literal
from psoup.model import DataType
from psoup.plan.shared_plans import SharedPlans
from psoup.plan.standing_query import Parameter, StandingQuery
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.holes import Holes
from psoup.sql.templates.prepared_statement import PreparedStatement, named
from psoup.sql.templates.values import Columns

Whole = Callable[[str], StandingQuery]
"""Binds the whole text of a statement."""

FromTree = Callable[[Sequence[Parameter], Mapping[int, Literal], str], StandingQuery]
"""Binds the tree of a statement. It gets the values, the constants by the offsets of the parameters, and the text."""


class WholeTemplate(PreparedStatement):
    """A prepared statement whose queries have separate plans."""

    def __init__(
        self,
        frame: StandingQuery,
        holes: Holes,
        expected: Sequence[DataType | None],
        whole: Whole,
        tree: FromTree | None = None,
    ) -> None:
        super().__init__(frame, holes, expected)
        self._whole = whole
        self._tree = tree
        self._offsets = [hole.start for hole in holes.places]
        self._plans = SharedPlans()

    def bind(self, values: Sequence[Parameter] | Mapping[str, Parameter], query: int | None = None) -> StandingQuery:
        """The query with `values` for the parameters, as `PreparedStatement.bind`."""
        row = self.row(values, query)
        literals, text = self.constants(row, query)
        if self._tree is not None:
            with suppress(InvalidInput):  # then the text is bound: its errors have places
                return self._plans.of(self._tree(row, dict(zip(self._offsets, literals, strict=True)), text))
        try:
            return self._plans.of(self._whole(text))
        except InvalidInput as problem:
            raise named(problem, query) from problem

    def block(self, columns: Columns) -> BoundBlock | None:
        """None: each query is bound by itself."""
        return None
