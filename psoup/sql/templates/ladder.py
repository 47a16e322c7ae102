"""The ladder of registration: three ways to bind statements and values, the quickest first.

    way       needs                                         returns                             time of a query
    columns   a template whose WHERE is usual, columns of   a `BoundBlock`: the columns         0.1 us
              usual types, enough rows of them
    rows      a template, a row of values for each query    the queries, each with its row      10 us
    texts     a statement for each query                    the queries; by a template if the   20 us to 1 ms
                                                            form came before (`forms`)

Both registration and a replay of the log bind by this module. The log records the way of each block, and a replay uses
the same way. The charged bytes of a query depend on the way, so another way would lead to another state. This module
holds no state, and finds streams only by `lookup`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from psoup.config import COLUMNAR_QUERIES
from psoup.plan.standing_query import Parameter, StandingQuery
from psoup.sql.select import Lookup
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.forms import Forms
from psoup.sql.templates.prepared_statement import PreparedStatement
from psoup.sql.templates.values import Columns, columns_of_rows, numbers_of_text, rows_of_columns

Way = Literal["columns", "rows"]
"""The way by which the queries of a template were bound. Queries without a template are bound by way `texts`."""

Rows = Sequence[Sequence[Parameter]]
Bound = tuple[Sequence[Parameter], StandingQuery]
"""The values of one query in the order of the parameters, and the query."""


@dataclass(frozen=True, slots=True)
class ParameterValues:
    """Values for the parameters of a template: `columns`, or `rows` if `columns` is None.

    `names`: the names of the values in a row, if parameters have names. `titles`: the names of the columns in messages.
    """

    columns: Columns | None = None
    rows: Rows = ()
    names: Sequence[str] = ()
    titles: Sequence[str] = ()

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows) if self.columns is None else len(self.columns[0])

    def in_columns(self, template: PreparedStatement) -> Columns | None:
        """A column for each parameter, in order. None if rows differ in length or a column has values of several types.
        O(values)."""
        columns = self.columns or columns_of_rows(self.rows, len(template.names))
        if columns is None or len(columns) != len(template.names):
            return None
        ordered = [columns[place] for place in template.order(self.names)] if self.names else columns
        return tuple(map(numbers_of_text, ordered, template.types))

    def in_rows(self) -> Rows:
        """The values as rows. Raises InvalidInput for a value that Python has no type for."""
        return self.rows if self.columns is None else rows_of_columns(self.columns, self.titles)


def bind_values(
    template: PreparedStatement,
    values: ParameterValues,
    *,
    columnar: int = COLUMNAR_QUERIES,
    way: Way | None = None,
    number: int | None = None,
) -> Iterator[BoundBlock | Bound | None]:
    """Bind values to a template. Yields one block, or each query by itself with its row.

    Also yields None after other steps, so that the caller may pause. `columnar`: the least number of rows for a block.
    `way`: the only way to try, if it is known. Raises InvalidInput with the number of the query, counted from `number`.
    """
    if way == "columns" or (way is None and values.count >= columnar):
        columns = values.in_columns(template)
        yield None
        block = None if columns is None else template.block(columns)
        if block is not None:
            yield block
            return
    order = template.order(values.names) if values.names else None
    for query, values_of_query in enumerate(values.in_rows(), 0 if number is None else number):
        counted = None if number is None else query
        row = template.row(values_of_query, counted)
        row = row if order is None else tuple([row[place] for place in order])
        yield row, template.bind(row, counted)


def gathered(steps: Iterator[BoundBlock | Bound | None]) -> tuple[Sequence[StandingQuery], Rows]:
    """Run `bind_values` to its end. Returns all queries, and their rows, which are () for a `BoundBlock`."""
    queries, rows = list[StandingQuery](), list[Sequence[Parameter]]()
    for step in steps:
        if isinstance(step, BoundBlock):
            return step, ()
        if step is not None:
            rows.append(step[0])
            queries.append(step[1])
    return queries, rows


def way_of(queries: Sequence[StandingQuery]) -> Way:
    """The way by which the queries of a template were bound."""
    return "columns" if isinstance(queries, BoundBlock) else "rows"


def bind_text(forms: Forms, text: str, lookup: Lookup, names: Sequence[str] = ()) -> StandingQuery:
    """The query of a statement. Its text is exactly the text that the client sent, which identifies retries. Raises
    SqlError."""
    query = forms.query(text, lookup, names)
    return query if query.text == text else replace(query, text=text)
