"""A composed statement: from its tree to its standing query, with a statement for each side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from psoup.expressions.tree import Literal
from psoup.plan.nodes import Source
from psoup.plan.standing_query import Selection, StandingQuery
from psoup.sql.composed.composition import Composition, windows_of
from psoup.sql.composed.refusals import refuse_composed
from psoup.sql.composed.selects import select_plan
from psoup.sql.from_list import Lookup
from psoup.sql.select import Known, selected
from psoup.sql.source import StatementText


def bind_composed(
    source: StatementText,
    statement: exp.Expr,
    lookup: Lookup,
    names: Sequence[str],
    parameters: Mapping[int, Literal] | None = None,
    known: Known | None = None,
) -> StandingQuery:
    """The standing query of a parsed statement. The arguments are those of `psoup.sql.select.bind_select`. Raises
    SqlError."""
    refuse_composed(source, statement)
    composition = Composition(source, lookup, names, windows_of(source, statement), parameters or {})
    assert isinstance(statement, exp.Select)
    plan = select_plan(composition, statement)
    leaves = [draft.leaf for draft in composition.drafts]
    _check_domains(source, statement, leaves)
    texts = [draft.text() for draft in composition.drafts]
    known_sides = [None if known is None else known(text) for text in texts]
    sides = [side or selected(StatementText(text), lookup) for side, text in zip(known_sides, texts, strict=True)]
    selections = [Selection(leaf, side.clause, side.factors) for leaf, side in zip(leaves, sides, strict=True)]
    return StandingQuery(source.text, tuple(selections), plan, tuple(sides))


def _check_domains(source: StatementText, statement: exp.Expr, leaves: Sequence[Source]) -> None:
    """Refuse event-time streams beside system-time streams, because they have no common NOW."""
    by_domain = {leaf.spec.event_time: leaf for leaf in leaves}
    if len(by_domain) > 1:
        timed, other = by_domain[True].spec.name, by_domain[False].spec.name
        raise source.error(
            f"stream {timed!r} has a time of its own and {other!r} that of the service's clock: they have no NOW in"
            " common",
            statement,
            hint=f"create {other} with TIMESTAMP BY a column",
            reason="MIXED_TIME_DOMAINS",
        )
