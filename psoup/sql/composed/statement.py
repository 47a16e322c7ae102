"""A composed statement: from its tree to its standing query, with a statement for each side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from psoup.expressions.tree import Literal
from psoup.plan.above import Above
from psoup.plan.canonical import factor_text
from psoup.plan.nodes import Filter, LastRows, Node, Source, windowed
from psoup.plan.standing_query import Selection, StandingQuery
from psoup.sql.composed.composition import Composition, Draft, windows_of
from psoup.sql.composed.condition_places import all_of
from psoup.sql.composed.refusals import refuse_composed
from psoup.sql.composed.selects import query_plan
from psoup.sql.from_list import Lookup
from psoup.sql.select import Known, clause_text, selected
from psoup.sql.source import StatementText
from psoup.sql.time_domains import mixed_domains
from psoup.sql.where.factors import factors_of


def bind_composed(
    source: StatementText,
    statement: exp.Expr,
    lookup: Lookup,
    names: Sequence[str],
    parameters: Mapping[int, Literal] | None = None,
    known: Known | None = None,
) -> StandingQuery:
    """The standing query of a parsed statement. For the arguments, see `psoup.sql.select.bind_select`. Raises
    SqlError."""
    plan, composition = composed(source, statement, lookup, names, parameters or {})
    drafts, notes = composition.drafts, tuple(dict.fromkeys(composition.notes))
    leaves = [draft.leaf for draft in drafts]
    texts = [draft.text() for draft in drafts]
    known_sides = [None if known is None else known(text) for text in texts]
    sides = [side or selected(StatementText(text), lookup) for side, text in zip(known_sides, texts, strict=True)]
    if len(leaves) == 1 and (only := _selection(plan, drafts[0])) is not None:
        return StandingQuery(source.text, (only,), _over(plan, only.source))
    selections = [Selection(leaf, side.clause, side.factors) for leaf, side in zip(leaves, sides, strict=True)]
    return StandingQuery(source.text, tuple(selections), plan, tuple(sides), notes)


def composed(
    source: StatementText,
    statement: exp.Expr,
    lookup: Lookup,
    names: Sequence[str],
    parameters: Mapping[int, Literal],
    shown: Mapping[int, str] | None = None,
) -> tuple[Node, Composition]:
    """The plan of a parsed statement, and its composition, with the drafts of its sides.

    `shown`: the texts of parameters in the conditions of sides, by their offsets. The default is the constants. Raises
    SqlError.
    """
    refuse_composed(source, statement)
    composition = Composition(source, lookup, names, windows_of(source, statement), parameters, shown or {})
    plan = query_plan(composition, statement)
    if not composition.drafts:
        raise source.error("the statement reads no stream", statement, hint="name a stream: SELECT ... FROM stream")
    _check_domains(source, statement, [draft.leaf for draft in composition.drafts])
    return plan, composition


def _selection(plan: Node, draft: Draft) -> Selection | None:
    """The selection of a plan over one stream, with the conditions of the Filter above it. None for other plans.

    Such a statement is a plain query: its conditions are in the index over all queries.
    """
    node, conditions = plan, list(draft.conditions)
    while isinstance(node, Above):
        if isinstance(node, Filter) and isinstance(node.input, Source | LastRows):
            if isinstance(node.input, LastRows) and node.input.counts_matches:
                return None
            conditions.append(node.condition)
        node = node.input
    if not isinstance(node, Source):
        return None
    factors = factors_of(all_of(conditions) if conditions else None)
    leaf = replace(node, alias="")
    return Selection(leaf, clause_text(leaf.spec.name, [factor_text(factor) for factor in factors]), factors)


def _over(plan: Node, leaf: Source) -> Node:
    """The plan over `leaf`, without the Filter directly above it."""
    if isinstance(plan, Source | LastRows):
        return windowed(leaf)
    if isinstance(plan, Filter) and isinstance(plan.input, Source | LastRows):
        return windowed(leaf)
    assert isinstance(plan, Above)
    return replace(plan, input=_over(plan.input, leaf))


def _check_domains(source: StatementText, statement: exp.Expr, leaves: Sequence[Source]) -> None:
    """Refuse streams of several time domains, because they have no common NOW."""
    if (mixed := mixed_domains(leaves)) is not None:
        raise source.error(mixed.message, statement, hint=mixed.hint, reason="MIXED_TIME_DOMAINS")
