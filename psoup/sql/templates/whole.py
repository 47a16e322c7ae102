"""Templates with parameters in the plan: each query is bound as a whole, with constants instead of parameters.

    SELECT sym, count(*) … GROUP BY sym HAVING count(*) > ?      5   ->   the query of `… HAVING count(*) > 5`
    SELECT … FROM r, s WHERE r.k = s.k AND r.a + s.a > ?         7   ->   the query of `… r.a + s.a > 7`

A query over one stream is bound from the syntax tree of the statement, without a parser. For a join whose parameters
are only in HAVING and in conditions over single sources, the tree gives the plan. Its sides are bound by templates.
Other joins are parsed again from their text. Each way takes some hundred microseconds for a query. Queries with equal
constants share a plan if few other queries were bound between them.
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
"""A function that parses and binds the whole text of a statement."""

FromTree = Callable[[Sequence[Parameter], Mapping[int, Literal], str], StandingQuery]
"""A function that binds the syntax tree of a statement. It gets the values, the constants by the offsets of the
parameters, and the text."""


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
            with suppress(InvalidInput):  # on an error, the text is bound: its errors have places
                return self._plans.of(self._tree(row, dict(zip(self._offsets, literals, strict=True)), text))
        try:
            return self._plans.of(self._whole(text))
        except InvalidInput as problem:
            raise named(problem, query) from problem

    def block(self, columns: Columns) -> BoundBlock | None:
        """Always None, because the caller must bind each query by itself."""
        return None
