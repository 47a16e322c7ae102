"""Check of a statement without a registration: its plan, and the tuples that a first answer would have to read.

    text ─ the schemas of the snapshot ─> StandingQuery ─ its windows now ─> nodes, with the tuples of each source

`bind_question` refuses the statements that a registration refuses. No tuple is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.answer.ask import bind_question
from psoup.answer.plan_nodes import NOTHING, Findings, PlanNode, plan_nodes
from psoup.execution.select.window import Reach, reaches, windows_of
from psoup.plan.canonical import written_window
from psoup.plan.nodes import Node, Source
from psoup.plan.standing_query import StandingQuery
from psoup.published.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A bound statement, and its plan, last step first. `sequence`: the last event that the check reflects."""

    query: StandingQuery
    nodes: tuple[PlanNode, ...]
    sequence: int


def check(snapshot: Snapshot, sql: str, *, tenant: str, now: int) -> CheckedStatement:
    """Check a SELECT. `now`: the clock, microseconds. Costs what binding costs; no tuple is read.

    Raises what a registration of the statement raises.
    """
    query = bind_question(snapshot, sql, tenant=tenant).query
    views = [snapshot.streams[tenant, name.spec.name.lower()] for name in query.sources]
    seen = reaches(views, windows_of(query, None), now)

    def findings(node: Node) -> Findings:
        return _of_source(node, seen[node.place]) if isinstance(node, Source) else NOTHING

    return CheckedStatement(query, plan_nodes(query.plan, findings), snapshot.sequence)


def _of_source(node: Source, part: Reach) -> Findings:
    low, high = part.range.low, part.range.high
    figures = {
        "tuples_in_window": float(max(0, high - low)),
        "tuples_on_disk": float(max(0, min(high, part.view.hot_id) - low)),
    }
    name = part.view.spec.name
    facts = {"stream": name, "alias": node.alias or name, "window": written_window(part.window)}
    return Findings(figures, facts)
