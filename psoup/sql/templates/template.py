"""Templates: a statement with parameters is parsed and checked once, and then bound for many rows of values.

    prepare("SELECT * FROM trades WHERE sym = ? AND qty > ?")   text ─> tree ─> checked with a sample of each type
    template.bind(("IBM", 7))     values ─> constants ─> factors and clause ─> StandingQuery

The text of the query is the statement with its values. The query equals the one that `standing_query` makes of this
text. All queries of a template share one plan, except in `psoup.sql.templates.whole`, where plans have parameters. A
join has a template for each side (`psoup.sql.templates.joins`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from psoup.errors import InvalidInput
from psoup.expressions.tree import Literal
from psoup.model import DataType
from psoup.plan.canonical import factor_text
from psoup.plan.nodes import Join, walk
from psoup.plan.standing_query import ClauseColumns, Parameter, Selection, StandingQuery
from psoup.sql.binder import Binder
from psoup.sql.composed.refusals import TOKENS
from psoup.sql.composed.shapes import unwrapped
from psoup.sql.composed.statement import bind_composed, composed
from psoup.sql.elsewhere.advice import advised
from psoup.sql.from_list import from_list
from psoup.sql.names import Names
from psoup.sql.parser.guards import tokens_of
from psoup.sql.parser.parse_tree import parse
from psoup.sql.queries import check_beginning, is_composed, query_of
from psoup.sql.refusals import refuse_node, refuse_tokens
from psoup.sql.select import Lookup, bind_select, clause_text, plan_above
from psoup.sql.source import StatementText
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.comparisons import Slow
from psoup.sql.templates.conjuncts import Conjuncts
from psoup.sql.templates.holes import Holes, find_holes
from psoup.sql.templates.joins import (
    JoinTemplate,
    all_in_sides,
    has_parameter,
    parameter_names,
    side_texts,
    types_in_sides,
)
from psoup.sql.templates.prepared_statement import PreparedStatement, named
from psoup.sql.templates.shape import NULL, TemplateShape, sample
from psoup.sql.templates.values import Columns
from psoup.sql.templates.vectors import clause_columns, fits, vector_groups
from psoup.sql.templates.whole import WholeTemplate
from psoup.sql.where.factors import factors_of


class Template(PreparedStatement):
    """A prepared statement over one stream. Any thread may call it."""

    def __init__(self, frame: StandingQuery, holes: Holes, expected: Sequence[DataType | None], where: _Where) -> None:
        super().__init__(frame, holes, expected)
        self.stream = frame.stream
        self._source = frame.selections[0].source
        self._where = where
        self._groups = vector_groups(where.ready)

    def bind(self, values: Sequence[Parameter] | Mapping[str, Parameter], query: int | None = None) -> StandingQuery:
        """The query with `values` for the parameters, as `PreparedStatement.bind`.

        Takes about 10 microseconds, and less for values that were bound before. It takes some hundred microseconds if a
        parameter is anywhere but in a comparison of a column under AND.
        """
        if type(values) is not tuple or len(values) != len(self.names):
            values = self.row(values, query)
        literals, text = self.constants(values, query)
        try:
            texts, factors = self._where.factors(literals)
        except InvalidInput as problem:
            raise named(problem, query) from problem
        selection = Selection(self._source, clause_text(self.stream, texts), factors)
        return StandingQuery(text, (selection,), self.plan)

    def block(self, columns: Columns) -> BoundBlock | None:
        """The queries of many rows of values as a block. `columns`: a column for each parameter, in order.

        Returns None if the caller must bind each query by itself. The reason is a wrong value, or a rare type of value
        or form of WHERE. O(n), without a Python loop.
        """
        if self._groups is None or not columns or not self.is_short(columns):
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


class _Where:
    """The WHERE of a template. `ready`: its quick form, or None. Without it, the binder binds WHERE for each row of
    values."""

    def __init__(
        self,
        source: StatementText,
        select: exp.Select,
        names: Names,
        ready: Conjuncts | None,
        holes: Holes,
    ) -> None:
        self._source = source
        self._names = names
        where = select.args.get("where")
        self._node = None if where is None else where.this
        self.ready = ready
        self._offsets = [hole.start for hole in holes.places]

    def factors(self, literals: Sequence[Literal]) -> tuple[Sequence[str], tuple]:  # type: ignore[type-arg]
        """The factors for a constant in each hole, and their texts: (texts, factors). Raises InvalidInput."""
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
) -> PreparedStatement:
    """The template of a parsed SELECT whose placeholders are at `holes`. Raises SqlError."""
    nulls = {hole.start: NULL for hole in holes.places}
    # This call checks the tree and its names. Later calls may rely on that.
    bind_select(source, select, lookup, names, nulls)
    origin = from_list(source, select, lookup, names)
    shape = TemplateShape(select, Binder(source, origin.names, nulls), holes)
    expected = shape.expected()
    samples = {h.start: NULL if t is None else sample(t) for h, t in zip(holes.places, expected, strict=True)}
    frame = bind_select(source, select, lookup, names, samples)
    if not (origin.joined or shape.in_plan):
        return Template(frame, holes, expected, _Where(source, select, origin.names, shape.conjuncts(), holes))
    binder = Binder(source, origin.names, samples)
    whole = partial(_whole, lookup)
    if not origin.joined:
        return WholeTemplate(frame, holes, expected, whole, partial(_of_tree, source, select, lookup, names))
    texts = side_texts(source, select, origin, binder, holes)
    if texts is None:
        return WholeTemplate(frame, holes, expected, whole)
    sides = [
        side if text is None else prepared(StatementText(text), lookup)
        for side, text in zip(frame.sides, texts, strict=True)
    ]
    joined = JoinTemplate(frame, holes, expected, sides)
    if not shape.in_plan:
        return joined
    (join,) = (node for _, node in walk(frame.plan) if isinstance(node, Join))
    return WholeTemplate(frame, holes, expected, whole, partial(_of_sides, source, select, origin.names, joined, join))


def _whole(lookup: Lookup, text: str) -> StandingQuery:
    """The query of a statement without parameters, from its text."""
    return query_of(StatementText(text), lookup)


def _composed(
    source: StatementText, statement: exp.Expr, holes: Holes, lookup: Lookup, names: Sequence[str]
) -> PreparedStatement:
    """The template of a composed statement: a template of each side if no other part has a parameter."""
    nulls = {hole.start: NULL for hole in holes.places}
    plan, composition = composed(source, statement, lookup, names, nulls, parameter_names(holes))
    frame, drafts = bind_composed(source, statement, lookup, names, nulls), composition.drafts
    texts = [draft.text() for draft in drafts]
    whole = WholeTemplate(frame, holes, [None] * len(holes.places), partial(_whole, lookup))
    if not frame.sides or not all_in_sides(drafts, holes):
        return whole
    sides = [
        prepared(StatementText(text), lookup) if has_parameter(text) else side
        for side, text in zip(frame.sides, texts, strict=True)
    ]
    expected = types_in_sides(sides, holes)
    typed = [(hole.start, kind) for hole, kind in zip(holes.places, expected, strict=True) if kind is not None]
    frame = bind_composed(source, statement, lookup, names, nulls | {start: sample(kind) for start, kind in typed})
    return JoinTemplate(frame, holes, expected, sides) if frame.plan == plan and all(expected) else whole


def _of_tree(
    source: StatementText,
    select: exp.Select,
    lookup: Lookup,
    names: Sequence[str],
    values: Sequence[Parameter],
    parameters: Mapping[int, Literal],
    text: str,
) -> StandingQuery:
    """The query of a parsed SELECT, with `parameters` as the constants at its placeholders."""
    return replace(bind_select(source, select, lookup, names, parameters), text=text)


def _of_sides(
    source: StatementText,
    select: exp.Select,
    names: Names,
    joined: JoinTemplate,
    join: Join,
    values: Sequence[Parameter],
    parameters: Mapping[int, Literal],
    text: str,
) -> StandingQuery:
    """The query of a join with parameters in HAVING or QUALIFY. Its sides are bound by templates, and its plan with the
    constants."""
    plan = plan_above(source, select, Binder(source, names, parameters), join)
    return replace(joined.bind(tuple(values)), plan=plan, text=text)


def prepared(source: StatementText, lookup: Lookup, names: Sequence[str] = ()) -> PreparedStatement:
    """The template of a SELECT with parameters. Raises SqlError."""
    tokens = tokens_of(source)
    check_beginning(source, tokens)
    tokens, holes = find_holes(source, tokens)
    with advised(source, tokens, lookup):
        refuse_tokens(source, [token for token in tokens if token.token_type is not TokenType.PLACEHOLDER], TOKENS)
        node = unwrapped(parse(source, tokens))
        if is_composed(node, tokens):
            return _composed(source, node, holes, lookup, names)
        if not isinstance(node, exp.Select):
            raise refuse_node(source, node)
        return template_of(source, node, holes, lookup, names)
