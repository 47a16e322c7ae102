"""Templates of joins: each side is a separate template. Conditions over several sources have no parameters.

    SELECT … FROM flights f, weather w WHERE f.delay > ? AND w.wind > ? AND f.origin = w.origin
      side 0   SELECT * FROM flights AS f WHERE (f.delay > $p1)        bound with the first value
      side 1   SELECT * FROM weather AS w WHERE (w.wind > $p2)         bound with the second
      plan     the same for all

`psoup.sql.templates.whole` has joins with a parameter in a condition over several sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup.model import DataType
from psoup.plan.standing_query import Parameter, Selection, StandingQuery
from psoup.sql.binder import Binder
from psoup.sql.composed.composition import Draft
from psoup.sql.from_list import FromList
from psoup.sql.join_conditions import filled, side_text, split
from psoup.sql.source import StatementText
from psoup.sql.templates.block import BoundBlock, ManyQueries, SameQueries
from psoup.sql.templates.holes import Holes
from psoup.sql.templates.prepared_statement import PreparedStatement, named
from psoup.sql.templates.values import Columns


class JoinTemplate(PreparedStatement):
    """A prepared statement over several streams.

    `sides`: for each side its template, or its query if it has no parameters.
    """

    def __init__(
        self,
        frame: StandingQuery,
        holes: Holes,
        expected: Sequence[DataType | None],
        sides: Sequence[PreparedStatement | StandingQuery],
    ) -> None:
        super().__init__(frame, holes, expected)
        self._sides = [(side, _numbers(side)) for side in sides]
        self._notes = frame.notes

    def bind(self, values: Sequence[Parameter] | Mapping[str, Parameter], query: int | None = None) -> StandingQuery:
        """The query with `values` for the parameters, as `PreparedStatement.bind`."""
        row = self.row(values, query)
        _, text = self.constants(row, query)
        try:
            sides = tuple(
                side if isinstance(side, StandingQuery) else side.bind(tuple([row[number] for number in numbers]))
                for side, numbers in self._sides
            )
        except InvalidInput as problem:
            raise named(problem, query) from problem
        selections = tuple(
            Selection(source, side.clause, side.factors) for source, side in zip(self.sources, sides, strict=True)
        )
        return StandingQuery(text, selections, self.plan, sides, self._notes)

    def block(self, columns: Columns) -> BoundBlock | None:
        """The queries of many rows of values, as `PreparedStatement.block`. None unless each side can be a block."""
        if not columns or not self.is_short(columns):
            return None
        for side, numbers in self._sides:
            if (
                isinstance(side, PreparedStatement)
                and side.block(tuple([columns[number] for number in numbers])) is None
            ):
                return None
        return BoundBlock(self, columns)

    def sides(self, columns: Columns) -> tuple[ManyQueries, ...]:
        """The sides of the queries of a block, as `PreparedStatement.sides`."""
        return tuple(
            SameQueries(side, len(columns[0]))
            if isinstance(side, StandingQuery)
            else BoundBlock(side, tuple([columns[number] for number in numbers]))
            for side, numbers in self._sides
        )


def side_texts(
    source: StatementText, select: exp.Select, origin: FromList, binder: Binder, holes: Holes
) -> list[str | None] | None:
    """The text of each side, with names for its parameters. The item is None for a side without parameters.

    Returns None, without a list, if a condition over several sources has a parameter.
    """
    where = select.args.get("where")
    names = parameter_names(holes)
    conditions = split(source, origin, None if where is None else where.this, binder, filled(source.text, names))
    if conditions.open:
        return None
    texts = [side_text(origin, place, side) for place, side in enumerate(conditions.texts)]
    return [text if has_parameter(text) else None for text in texts]


_NAME = "psoup_parameter_"


def parameter_names(holes: Holes) -> dict[int, str]:
    """The names of parameters in the texts of sides, by the offset of each hole."""
    return {hole.start: f"${_NAME}{hole.parameter + 1}" for hole in holes.places}


def has_parameter(text: str) -> bool:
    """Whether the text of a side has a parameter."""
    return f"${_NAME}" in text


def all_in_sides(drafts: Sequence[Draft], holes: Holes) -> bool:
    """Whether each parameter of a composed statement is in a condition of a side."""
    extents = [extent for draft in drafts for extent in draft.extents]
    return all(any(first <= hole.start < stop for first, stop in extents) for hole in holes.places)


def types_in_sides(sides: Sequence[PreparedStatement | StandingQuery], holes: Holes) -> list[DataType | None]:
    """The expected type of each hole, as a side expects it of the hole's parameter."""
    types: dict[int, DataType | None] = {}
    for side in sides:
        if isinstance(side, PreparedStatement):
            for number, kind in zip(_numbers(side), side.types, strict=True):
                types[number] = types.get(number) or kind
    return [types.get(hole.parameter) for hole in holes.places]


def _numbers(side: PreparedStatement | StandingQuery) -> list[int]:
    """The numbers, from 0, that a side's parameters have in the join."""
    return [] if isinstance(side, StandingQuery) else [int(name.removeprefix(_NAME)) - 1 for name in side.names]
