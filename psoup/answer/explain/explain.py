"""Explanation of a query: factors, window and results of each source; the plan as nodes; costs.

    query q on stream trades          Explanation
      window, clause, factors           sources   the selection of each source of FROM (`explain_source`)
      plan  Limit                       nodes     the steps of the plan, last step first (`plan_nodes`)
              Source
      cost                              cost      counters of the query (`query_cost`)

Matches are counted, but no rows are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from psoup.answer.copies.rows_since import Travel, travel_in
from psoup.answer.explain.amount import amount_lines, amount_reason
from psoup.answer.explain.automatic import ChoiceExplanation, explain_choice
from psoup.answer.explain.chosen_ways import chosen_ways, with_ways
from psoup.answer.explain.folds import folded_of
from psoup.answer.explain.groups import explain_groups, explain_hop
from psoup.answer.explain.join import explain_join, reading_of
from psoup.answer.explain.kept import KeptExplanation, explain_kept
from psoup.answer.explain.last_rows import explain_last_rows
from psoup.answer.explain.partners import explain_partners
from psoup.answer.explain.source import SourceExplanation
from psoup.answer.explain.source_facts import DerivedLines, explain_source, no_lines
from psoup.answer.explain.spend import Known, Spend, expected_spends, spend_lines
from psoup.answer.figures.query_costs import QueryCost, query_cost
from psoup.answer.plan_nodes import NOTHING, Findings, PlanNode, plan_lines, plan_nodes
from psoup.errors import ResourceExhausted
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.clause_matches import Side
from psoup.execution.select.window import reaches, windows_of
from psoup.plan.amounts import Amount, asked_keeping
from psoup.plan.nodes import Aggregate, Hop, Join, LastRows, Node, PartnerJoin, Source, Values
from psoup.plan.standing_query import StandingQuery
from psoup.published.idle_clauses import is_idle
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import UNBOUNDED, ReadBudget


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one query. `sources`: in the order of FROM. `nodes`: the steps of the plan, last step
    first.
    """

    query_id: int
    sql: str
    sources: tuple[SourceExplanation, ...]
    nodes: tuple[PlanNode, ...]
    cost: QueryCost
    copies: str
    """The way in which copies of the answer are kept up to date: a name of `Travel` in lower case."""
    budgets: tuple[Spend, ...] = ()
    """The expected spend of an invocation now, for each budget for which it is known."""
    notes: tuple[str, ...] = ()
    """Remarks for the author of the statement."""
    amount: str = Amount.PARTIAL.name
    """The amount that is kept of the answer, also while the query is inactive."""
    eager: bool = False
    active: bool = True
    parked: bool = False
    amount_reason: str = ""
    """The reason why an invocation evaluates the window, if the amount is NONE, or the query is inactive."""
    kept_answer: KeptExplanation | None = None
    """The kept answer of a COMPLETE query. None for any other query."""
    choice: ChoiceExplanation | None = None
    """The choice for an AUTO query. None for any other query."""

    @property
    def source(self) -> SourceExplanation:
        """The only source."""
        (source,) = self.sources
        return source

    def to_dict(self, most_spans: int | None = None) -> dict[str, Any]:
        """The explanation as plain values, for JSON. The facts of a single source stand at the top level.

        `most_spans`: the most uncovered parts of the archive to list for each source. None lists all.
        """
        values = asdict(self)
        values["plan"] = [
            {**made, "state": node.state.facts} for made, node in zip(values.pop("nodes"), self.nodes, strict=True)
        ]
        for source in values["sources"]:
            source["uncovered"] = source["uncovered"][:most_spans]
        return {**values.pop("sources")[0], **values} if len(self.sources) == 1 else values

    def lines(self, name: str = "") -> list[str]:
        """The explanation as text for a terminal. `name`: the name of the query; the default is its ID."""
        name = name or str(self.query_id)
        if len(self.sources) == 1:
            source = self.source
            lines = [f"query {name} on {source.kind} {source.stream} ({source.time_domain})", *self._amount_lines()]
            lines += source.head_lines()
            return [*lines, *self._plan_lines(), *source.result_lines(name), *self._cost_lines()]
        lines = [f"query {name} on {_named(self.sources)}", *self._amount_lines()]
        for number, source in enumerate(self.sources, 1):
            noun = "table " if source.kind == "table" else ""
            lines.append(f"  source {number} {noun}{source.name} ({source.time_domain})")
            lines += [f"  {line}" for line in (*source.head_lines(), *source.result_lines(name))]
        return [*lines, *self._plan_lines(), *self._cost_lines()]

    def _amount_lines(self) -> list[str]:
        keeping = replace(asked_keeping(self.amount), eager=self.eager, active=self.active)
        return [*amount_lines(keeping, self.amount_reason), *([] if self.choice is None else self.choice.lines())]

    def _cost_lines(self) -> list[str]:
        return [*self.cost.lines(), *spend_lines(self.budgets)]

    def _plan_lines(self) -> list[str]:
        notes = [f"  {'note':9}{note}" for note in self.notes]
        more = [] if self.kept_answer is None else self.kept_answer.lines()
        return [*plan_lines(self.nodes), *notes, f"  copies   {Travel[self.copies.upper()].value}", *more]


def _named(sources: Sequence[SourceExplanation]) -> str:
    """The sources by their names. Each has its kind if one of them is a table."""
    if any(source.kind == "table" for source in sources):
        return ", ".join(f"{source.kind} {source.name}" for source in sources)
    return f"streams {', '.join(source.name for source in sources)}"


def explain(
    snapshot: Snapshot,
    query_id: int,
    *,
    tenant: str,
    now: int,
    budget: ReadBudget = UNBOUNDED,
    seconds: float | None = None,
    derived_status: DerivedLines = no_lines,
) -> Explanation:
    """Explain a query. `now`: the clock, microseconds. Costs what counting its matches costs; no rows are gathered.

    `seconds`: the processor time of its last answer, if the caller has measured it. `derived_status`: makes the lines
    about a derived stream.
    """
    record, config = snapshot.query(query_id, tenant), snapshot.config
    query, sides = record.query, snapshot.sides_of(record)
    views = snapshot.views_of(record)
    clauses = [snapshot.clause(side.sqc_id) for side in sides]
    seen = reaches(views, windows_of(query, None), now)
    wanted = [(part.view, clause, part.range.low, part.range.high) for part, clause in zip(seen, clauses, strict=True)]
    before = budget.examined
    folded = frozenset() if query.sides else folded_of(wanted[0], query.plan, config.texts)
    sources = tuple(
        explain_source(part, selection, clause, config, budget, folded, query.plan, derived_status)
        for part, selection, clause in zip(seen, query.selections, clauses, strict=True)
    )

    examined = budget.examined - before if _are_counted(sources) else None
    nodes = _nodes(query, wanted, seen[0].now, sources, snapshot, tenant, budget)
    measured, groups = Known(examined, seconds), snapshot.groups_of(tenant)
    return Explanation(
        query_id=query_id,
        sql=query.text,
        sources=sources,
        nodes=nodes,
        cost=query_cost(snapshot, query_id, tenant=tenant),
        copies=travel_in(query.plan, seen).name.lower(),
        budgets=expected_spends(query.plan, nodes, sources, measured, config, groups, budget),
        notes=query.notes,
        amount=record.keeping.name,
        eager=record.keeping.eager,
        active=record.keeping.active,
        parked=record.keeping.parked,
        amount_reason=amount_reason(record.keeping, guest=not any(is_idle(side.sqc_id) for side in sides)),
        kept_answer=explain_kept(snapshot, record),
        choice=explain_choice(snapshot, record),
    )


def _are_counted(sources: Sequence[SourceExplanation]) -> bool:
    """Whether the matches of all sources were counted, and no clause is outside of its index."""
    return all(source.counted and not source.outside for source in sources)


def _nodes(
    query: StandingQuery,
    wanted: Sequence[Side],
    now: int | None,
    sources: Sequence[SourceExplanation],
    snapshot: Snapshot,
    tenant: str,
    budget: ReadBudget,
) -> tuple[PlanNode, ...]:
    """The nodes of the plan, each with its findings, and the ways that an invocation would try."""
    plan, counted = query.plan, _are_counted(sources)
    joined: Reading | ResourceExhausted | None = None
    if query.sides and counted:
        joined = reading_of(plan, wanted, now, snapshot, snapshot.groups_of(tenant), budget)
    alone = None if query.sides else wanted[0]
    chosen = chosen_ways(plan, alone, joined if isinstance(joined, Reading) else None, snapshot, budget)

    def findings(node: Node) -> Findings:
        return with_ways(details(node), chosen.get(id(node), ()))

    def details(node: Node) -> Findings:
        if isinstance(node, Join | PartnerJoin) and joined is not None:
            if isinstance(node, Join) and node.inputs == plan.sources:
                return explain_join(node, joined)
            return explain_partners(node, joined)
        if isinstance(node, Aggregate):
            side = alone if counted and isinstance(node.input, Source) else None
            return explain_groups(node, side, now, snapshot, budget, stored=not sources[0].folded)
        if isinstance(node, LastRows):
            return explain_last_rows(node, wanted[node.input.place], snapshot, tenant, budget) if counted else NOTHING
        if isinstance(node, Hop):
            return explain_hop(node)
        if isinstance(node, Values):
            return Findings({"rows": len(node.rows)})
        return sources[node.place].findings if isinstance(node, Source) else NOTHING

    return plan_nodes(plan, findings)
