"""The base class of prepared statements: the types and names of parameters, and the text with their values.

    text      SELECT * FROM trades WHERE sym = ? AND qty > ?
    pieces    `SELECT … sym = `   ` AND qty > `   ``               between the pieces, the constants of a row of values

`template` has statements over one stream, `joins` over several, and `whole` statements with parameters in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidInput
from psoup.expressions.conversion import NUMBERS
from psoup.expressions.tree import Literal
from psoup.model import DataType
from psoup.plan.standing_query import ClauseColumns, Parameter, StandingQuery
from psoup.sql.parser.guards import MAX_BYTES
from psoup.sql.templates.block import BoundBlock, ManyQueries
from psoup.sql.templates.holes import Holes, Wrong, check_columns, in_order, literal_of, texts_between
from psoup.sql.templates.number_texts import NAN, check_number_text
from psoup.sql.templates.values import Columns

_SHOWN = 64
"""The most characters that a value takes in the statement, not counting the characters of a text."""

Row = tuple[Parameter, ...]


class PreparedStatement:
    """A prepared statement. Any thread may call it.

    `types`: the expected type of each parameter, or None if it may have any type. `names`: the name of each `$name`
    parameter, "" for `?`. `sources`: the sources of all its queries. `plan`: the plan of all its queries.
    """

    def __init__(self, frame: StandingQuery, holes: Holes, expected: Sequence[DataType | None]) -> None:
        self.text = frame.text
        self.names = holes.names
        self.types = tuple(
            next((t for h, t in zip(holes.places, expected, strict=True) if h.parameter == p and t), None)
            for p in range(len(holes.names))
        )
        self.sources = frame.sources
        self.plan = frame.plan
        self._holes = holes
        self._expected = [(h.parameter, t, h.bare) for h, t in zip(holes.places, expected, strict=True)]
        self._numbers = [(p, t) for p, t, _ in self._expected if t is not None and t.kind in NUMBERS]
        self._pieces = tuple(texts_between(frame.text, holes))

    def bind(self, values: Sequence[Parameter] | Mapping[str, Parameter], query: int | None = None) -> StandingQuery:
        """The query with `values` for the parameters: a sequence, or for `$name` parameters a mapping.

        Raises InvalidInput: PARAMETER_COUNT, PARAMETER_TYPE, or the errors of the text with its values. The message has
        the parameter, the value, the expected type, and the number `query` (from 1) if it is given.
        """
        raise NotImplementedError

    def block(self, columns: Columns) -> BoundBlock | None:
        """The queries of many rows of values as a block. `columns`: a column for each parameter, in order.

        Returns None if the caller must bind each query by itself.
        """
        raise NotImplementedError

    def clauses(self, columns: Columns) -> ClauseColumns:
        """The FROM-WHERE parts of the queries of a `block` over one stream."""
        raise NotImplementedError

    def sides(self, columns: Columns) -> tuple[ManyQueries, ...]:
        """The sides of the queries of a `block`, in the order of FROM. () if they are over one stream. O(1)."""
        return ()

    def is_short(self, columns: Columns) -> bool:
        """Whether the statements with these values are certainly shorter than the limit. May return False for short
        ones."""
        longest = sum(map(len, self._pieces)) + _SHOWN * len(self._expected)
        for parameter, _, _ in self._expected:
            if pa.types.is_string(columns[parameter].type):
                longest += 2 * (pc.max(pc.binary_length(columns[parameter])).as_py() or 0)
        return 4 * longest <= MAX_BYTES

    def row(self, values: Sequence[Parameter] | Mapping[str, Parameter], query: int | None = None) -> Row:
        """A value for each parameter, in order. Raises InvalidInput, PARAMETER_COUNT, for missing or extra values."""
        if type(values) is tuple and len(values) == len(self.names):
            return values
        try:
            return tuple(in_order(self._holes, values))
        except InvalidInput as problem:
            raise named(problem, query) from None

    def takes(self, name: str) -> bool:
        """Whether a parameter has this name."""
        return name.lower().lstrip("$") in self.names

    def check_columns(self, titles: Sequence[str]) -> None:
        """Raise InvalidInput, PARAMETER_COUNT, if there are more or fewer columns than parameters. `titles`: names
        of columns."""
        check_columns(self._holes, titles)

    def check_numbers(self, columns: Columns, number: int) -> None:
        """Raise InvalidInput for the first NaN in columns of values. `number`: the number of their first query.
        O(values).

        A NaN nearly always stands for a missing value, as in pandas. `bind` accepts NaN, because a log of earlier
        releases may have it. Callers with new queries must call this method.
        """
        for parameter, column in enumerate(columns):
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                row = pc.index(pc.is_nan(column), True).as_py()
                raise self._wrong(parameter, Wrong(NAN, reason="PARAMETER_TYPE"), number + row)

    def check_row(self, row: Sequence[Parameter], query: int | None = None) -> None:
        """Raise InvalidInput if a value is NaN, or a text with a number that differs from its constant.

        Like `check_numbers`, only callers with new queries must call it. `query`: the number of the query in the
        message.
        """
        for parameter, value in enumerate(row):
            if value != value:
                raise self._wrong(parameter, Wrong(NAN, reason="PARAMETER_TYPE"), query)
        for parameter, expected in self._numbers:
            value = row[parameter]
            if isinstance(value, str):
                try:
                    check_number_text(value, expected)
                except Wrong as problem:
                    raise self._wrong(parameter, problem, query) from None

    def order(self, names: Sequence[str]) -> list[int]:
        """For each parameter, the place of its name in `names`. Raises InvalidInput for missing or other names."""
        return list(in_order(self._holes, {name: position for position, name in enumerate(names)}))  # type: ignore[arg-type]

    def constants(self, values: Sequence[Parameter], query: int | None) -> tuple[list[Literal], str]:
        """The constant of each hole, and the text of the statement with all of them. Raises InvalidInput."""
        literals, parts = [], [self._pieces[0]]
        for (parameter, expected, bare), piece in zip(self._expected, self._pieces[1:], strict=True):
            try:
                literal, shown = literal_of(values[parameter], expected)
            except Wrong as problem:
                raise self._wrong(parameter, problem, query) from None
            literals.append(literal)
            parts.append(f"({shown})" if shown[0] == "-" and not bare else shown)
            parts.append(piece)
        text = "".join(parts)
        if len(text) > MAX_BYTES // 4 and len(text.encode()) > MAX_BYTES:
            message = f"{_of(query)}the statement with its parameters is longer than {MAX_BYTES:,} bytes"
            raise InvalidInput(message, reason="PARAMETER_TYPE", **_facts(query))
        return literals, text

    def _wrong(self, parameter: int, problem: Wrong, query: int | None) -> InvalidInput:
        name = self.names[parameter] or str(parameter + 1)
        owner = "" if query is None else f" of query {query}"
        named = f"${name}" if self.names[parameter] else name
        return InvalidInput(
            f"parameter {named}{owner} is {problem.message}",
            reason=problem.reason,
            parameter=name,
            **_facts(query),
            **problem.facts,
        )


def named(problem: InvalidInput, query: int | None) -> InvalidInput:
    """A copy of the error that names the query's number."""
    return InvalidInput(f"{_of(query)}{problem.message}", reason=problem.reason, **_facts(query))


def _of(query: int | None) -> str:
    return "" if query is None else f"query {query}: "


def _facts(query: int | None) -> dict[str, int]:
    return {} if query is None else {"query": query}
