"""A statement with parameters: parsed and checked once, bound for many rows of values.

    prepare("SELECT * FROM trades WHERE sym = ? AND qty > ?")   text ─> tree ─> checked with a sample of each type
    template.bind(("IBM", 7))     values ─> constants ─> factors and clause ─> StandingQuery

The outcome is what `standing_query` makes of the text with the constants filled in, and that text is the query's.
All queries of a template have one plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from psoup.errors import InvalidInput
from psoup.expressions.conversion import is_null_literal
from psoup.expressions.tree import Expr, Literal
from psoup.kinds import TYPES
from psoup.model import BIGINT, BOOLEAN, DATE, TEXT, DataType, Kind
from psoup.plan.canonical import factor_text
from psoup.plan.standing import ClauseColumns, Parameter, Selection, StandingQuery
from psoup.sql.binder import Binder
from psoup.sql.from_list import from_list
from psoup.sql.guards import MAX_BYTES
from psoup.sql.names import Names
from psoup.sql.select import Lookup, bind_select, clause_text
from psoup.sql.source import StatementText
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.comparisons import Slow
from psoup.sql.templates.conjuncts import Condition, Conjuncts, conjuncts
from psoup.sql.templates.holes import Holes, Wrong, check_columns, in_order, literal_of, texts_between
from psoup.sql.templates.values import Columns
from psoup.sql.templates.vectors import clause_columns, fits, vector_groups
from psoup.sql.where.factors import factors_of
from psoup.sql.where.growing import grows
from psoup.sql.where.intervals import FLIPPED

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_CONDITIONS = (exp.Where, exp.And, exp.Or, exp.Not)
_NULL = Literal(BIGINT, None)
_SHOWN = 64
"""Characters that a value takes in a text at most, beyond those of a text itself."""


_NAN = "NaN, which pandas has for a missing value: give None for NULL, or write CAST('nan' AS DOUBLE) in the statement"

Row = tuple[Parameter, ...]


class Template:
    """A prepared statement. Any thread may bind.

    `types`: the type expected of each parameter, None where any type goes. `names`: of `$name` parameters, else "".
    """

    def __init__(self, frame: StandingQuery, holes: Holes, expected: Sequence[DataType | None], where: _Where) -> None:
        self.text = frame.text
        self.stream = frame.stream
        self.names = holes.names
        self.types = tuple(
            next((t for h, t in zip(holes.places, expected, strict=True) if h.parameter == p and t), None)
            for p in range(len(holes.names))
        )
        self.window = frame.window
        self.plan = frame.plan
        self._source = frame.selections[0].source
        self._holes = holes
        self._expected = [(h.parameter, t, h.bare) for h, t in zip(holes.places, expected, strict=True)]
        self._pieces = tuple(texts_between(frame.text, holes))
        self._where = where
        self._groups = vector_groups(where.ready)

    def bind(self, values: Sequence[Parameter] | Mapping[str, Parameter], query: int | None = None) -> StandingQuery:
        """The query with `values` for the parameters; a mapping for `$name`.

        Raises InvalidInput that names the parameter, the value and what was expected, and the `query` (counted from 1)
        if one is given: PARAMETER_COUNT, PARAMETER_TYPE, or what binding the text would raise. About 10 microseconds,
        less for values that came before; some hundred where one does not stand alone beside a column, under AND.
        """
        if type(values) is not tuple or len(values) != len(self.names):
            values = self.row(values, query)
        literals, text = self._constants(values, query)
        try:
            texts, factors = self._where.factors(literals)
        except InvalidInput as problem:
            raise InvalidInput(f"{_of(query)}{problem.message}", reason=problem.reason, **_facts(query)) from problem
        selection = Selection(self._source, clause_text(self.stream, texts), factors)
        return StandingQuery(text, (selection,), self.plan)

    def block(self, columns: Columns) -> BoundBlock | None:
        """The queries of columns of values, one for each parameter, in order; None if they must be bound one by one.

        That is so where a value is wrong, or its type or the form of WHERE is rare. O(n), without a loop over the rows.
        """
        if self._groups is None or not columns or not self._short(columns):
            return None
        for group in self._groups:
            for _, hole in group.comparisons:
                parameter, expected, _ = self._expected[hole]
                if not fits(group.attribute.type, expected, columns[parameter]):
                    return None
        return BoundBlock(self, columns)

    def clauses(self, columns: Columns) -> ClauseColumns:
        """The FROM-WHERE parts of the queries of a `block`."""
        assert self._groups is not None and self._where.ready is not None, "no block was made"
        return clause_columns(self._groups, self._where.ready, columns, [hole[0] for hole in self._expected])

    def _short(self, columns: Columns) -> bool:
        """Whether all texts are surely short enough."""
        longest = sum(map(len, self._pieces)) + _SHOWN * len(self._expected)
        for parameter, _, _ in self._expected:
            if pa.types.is_string(columns[parameter].type):
                longest += 2 * (pc.max(pc.binary_length(columns[parameter])).as_py() or 0)
        return 4 * longest <= MAX_BYTES

    def row(self, values: Sequence[Parameter] | Mapping[str, Parameter], query: int | None = None) -> Row:
        """One value for each parameter, in order. Raises InvalidInput, PARAMETER_COUNT, for others."""
        if type(values) is tuple and len(values) == len(self.names):
            return values
        try:
            return tuple(in_order(self._holes, values))
        except InvalidInput as problem:
            raise InvalidInput(f"{_of(query)}{problem.message}", reason=problem.reason, **_facts(query)) from None

    def takes(self, name: str) -> bool:
        """Whether a parameter is called so."""
        return name.lower().lstrip("$") in self.names

    def check_columns(self, titles: Sequence[str]) -> None:
        """Raise InvalidInput, PARAMETER_COUNT, that names columns which are not as many as the parameters."""
        check_columns(self._holes, titles)

    def check_numbers(self, columns: Columns, number: int) -> None:
        """Raise InvalidInput for the first NaN in the columns of values, whose first query has that number. O(values).

        What is meant is nearly always a missing value, which pandas writes so. Binding takes NaN, as a log of earlier
        releases may have it; what asks for new queries looks here.
        """
        for parameter, column in enumerate(columns):
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                row = pc.index(pc.is_nan(column), True).as_py()
                raise self._wrong(parameter, Wrong(_NAN, reason="PARAMETER_TYPE"), number + row)

    def check_row(self, row: Sequence[Parameter], query: int | None = None) -> None:
        """Raise InvalidInput if one of a query's values is NaN, as `check_numbers`."""
        for parameter, value in enumerate(row):
            if value != value:
                raise self._wrong(parameter, Wrong(_NAN, reason="PARAMETER_TYPE"), query)

    def order(self, names: Sequence[str]) -> list[int]:
        """The place of each parameter among values with these names. Raises InvalidInput for other names."""
        return list(in_order(self._holes, {name: position for position, name in enumerate(names)}))  # type: ignore[arg-type]

    def _constants(self, values: Sequence[Parameter], query: int | None) -> tuple[list[Literal], str]:
        """A constant for each hole, and the text with all of them."""
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


class _Where:
    """The WHERE of a template: ready-made where it has the form for it, else bound anew for every row."""

    def __init__(
        self,
        source: StatementText,
        select: exp.Select,
        names: Names,
        ready: Conjuncts | None,
        holes: Holes,
    ) -> None:
        self._source, self._names = source, names
        where = select.args.get("where")
        self._node = None if where is None else where.this
        self.ready = ready
        self._offsets = [hole.start for hole in holes.places]

    def factors(self, literals: Sequence[Literal]) -> tuple[Sequence[str], tuple]:  # type: ignore[type-arg]
        """The factors and their texts. Raises InvalidInput."""
        if self.ready is not None:
            try:
                return self.ready.factors(literals)
            except Slow:
                pass
        if self._node is None:
            return (), ()
        parameters = dict(zip(self._offsets, literals, strict=True))
        condition = Binder(self._source, self._names, parameters).condition(self._node)
        factors = factors_of(condition)
        return [factor_text(factor) for factor in factors], factors


def template_of(
    source: StatementText, select: exp.Select, holes: Holes, lookup: Lookup, names: Sequence[str]
) -> Template:
    """The template of a parsed SELECT whose placeholders are at `holes`. Raises SqlError."""
    nulls = {hole.start: _NULL for hole in holes.places}
    origin = from_list(source, select, lookup, names)
    if origin.joined:
        raise source.unsupported("a parameter in a join", select, hint="write the constant itself")
    bind_select(source, select, lookup, names, nulls)  # guards, names: from here on the tree is known to be sound
    shape = _Shape(select, Binder(source, origin.names, nulls), holes)
    expected = shape.expected()
    samples = {h.start: _NULL if t is None else _sample(t) for h, t in zip(holes.places, expected, strict=True)}
    frame = bind_select(source, select, lookup, names, samples)
    return Template(frame, holes, expected, _Where(source, select, origin.names, shape.conjuncts(), holes))


class _Shape:
    """The properties of a template that are known before it has values."""

    def __init__(self, select: exp.Select, binder: Binder, holes: Holes) -> None:
        self._binder = binder
        self._order = {hole.start: position for position, hole in enumerate(holes.places)}
        where = select.args.get("where")
        self._where: exp.Expr | None = where
        self._nodes = {} if where is None else {int(n.meta["start"]): n for n in where.find_all(exp.Placeholder)}

    def expected(self) -> list[DataType | None]:
        """The type that is expected of the value in each hole, in order."""
        return [self._type(self._nodes[start]) if start in self._nodes else None for start in self._order]

    def _type(self, node: exp.Expr) -> DataType | None:
        parent = node.parent
        while isinstance(parent, exp.Paren | exp.Neg):
            node, parent = parent, parent.parent
        if isinstance(parent, _CONDITIONS):
            return BOOLEAN
        if isinstance(parent, exp.Like | exp.ILike | exp.RegexpLike | exp.Escape):
            return TEXT
        if parent is None or not isinstance(parent, (*_COMPARISONS, *_ARITHMETIC, exp.In, exp.Between)):
            return None
        others = [other for other in parent.iter_expressions() if other is not node]
        for other in sorted(others, key=self._open):
            if isinstance(other, exp.Interval | exp.Placeholder):
                continue
            operand, counts = self._binder.operand(other), isinstance(parent, _ARITHMETIC)
            if is_null_literal(operand) and not (counts or self._open(other)):
                continue  # NULL takes the type of what it meets
            return BIGINT if counts and operand.type == DATE else operand.type
        return None

    def _open(self, node: exp.Expr) -> bool:
        """Whether the node contains a parameter."""
        return node.find(exp.Placeholder) is not None

    def conjuncts(self) -> Conjuncts | None:
        """WHERE as conditions with parameters, and others without; None if it has another form."""
        if self._where is None:
            return None
        conditions: list[Condition] = []
        constants: list[Expr] = []
        waiting = [self._where.this]
        while waiting:
            node = waiting.pop()
            if not self._open(node):
                constants.append(self._binder.operand(node))
            elif isinstance(node, exp.And):
                waiting += [node.this, node.expression]
            elif isinstance(node, exp.Paren):
                waiting.append(node.this)
            else:
                condition = self._condition(node)
                if condition is None:
                    return None
                conditions.append(condition)
        return conjuncts(conditions, constants)

    def _condition(self, node: exp.Expr) -> Condition | None:
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            left, right = node.this, node.expression
            if self._open(left):
                left, right, operator = right, left, FLIPPED[operator]
            return self._made(operator, left, [right])
        if isinstance(node, exp.Between):
            return self._made("between", node.this, [node.args["low"], node.args["high"]])
        if isinstance(node, exp.In):
            return self._made("in", node.this, node.expressions)
        if isinstance(node, exp.Like) and not node.args.get("negate"):
            return self._made("like", node.this, [node.expression])
        return None

    def _made(self, operator: str, attribute: exp.Expr, operands: Sequence[exp.Expr]) -> Condition | None:
        if self._open(attribute):
            return None
        compared = self._binder.operand(attribute)
        if is_null_literal(compared) or grows(compared):
            return None
        bound: list[int | Literal] = []
        for node in operands:
            if isinstance(node, exp.Placeholder):
                bound.append(self._order[int(node.meta["start"])])
                continue
            constant = None if self._open(node) else self._binder.operand(node)
            if not isinstance(constant, Literal):
                return None
            bound.append(constant)
        return Condition(compared, operator, tuple(bound))


def _sample(expected: DataType) -> Literal:
    """A constant where one of this type is expected; where that is a DECIMAL, an integer."""
    value: Any = TYPES[expected.kind].sample
    return Literal(BIGINT if expected.kind is Kind.DECIMAL else expected, value)


def _of(query: int | None) -> str:
    return "" if query is None else f"query {query}: "


def _facts(query: int | None) -> dict[str, int]:
    return {} if query is None else {"query": query}
