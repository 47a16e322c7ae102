"""Check of a statement without a registration: its plan, and the tuples that a first answer would have to read.

    text ─ the schemas of the snapshot ─> StandingQuery ─ its windows now ─> nodes, with the tuples of each source

`bind_question` refuses the statements that a registration refuses. No tuple is evaluated, and of a table only the
versions that hold are counted. Notes are remarks about valid
statements that may mean something else than their author thinks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from psoup.answer.ask import bind_question, bind_unknown
from psoup.answer.plan_nodes import NOTHING, Findings, PlanNode, plan_nodes
from psoup.execution.select.window import Reach, reaches, windows_of
from psoup.model import NOW, DataType
from psoup.plan.absences import absences
from psoup.plan.canonical import exact_name, written_window
from psoup.plan.nodes import Node, Source
from psoup.plan.source_roles import source_roles
from psoup.plan.standing_query import StandingQuery
from psoup.published.shown_rows import count_shown
from psoup.published.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A bound statement, and its plan, last step first. `sequence`: the last event that the check reflects.

    `notes`: remarks for the author. `parameters`: the expected type of each parameter, None if any type will do.
    """

    query: StandingQuery
    nodes: tuple[PlanNode, ...]
    sequence: int
    notes: tuple[str, ...] = ()
    parameters: tuple[DataType | None, ...] = ()


def check(snapshot: Snapshot, sql: str, *, tenant: str, now: int, with_parameters: bool = False) -> CheckedStatement:
    """Check a SELECT. `now`: the clock, microseconds. Costs what binding costs, and O(entries) for a table.

    `with_parameters`: the statement has parameters, and is checked with NULL for each. Raises what a registration of
    the statement raises.
    """
    if with_parameters:
        query, types = bind_unknown(snapshot, sql, tenant=tenant)
    else:
        query, types = bind_question(snapshot, sql, tenant=tenant).query, ()
    views = [snapshot.streams[tenant, each.spec.name.lower()].for_source(each) for each in query.sources]
    seen = reaches(views, windows_of(query, None), now)

    def findings(node: Node) -> Findings:
        return _of_source(node, seen[node.place], query.plan) if isinstance(node, Source) else NOTHING

    return CheckedStatement(
        query, plan_nodes(query.plan, findings), snapshot.sequence, (*query.notes, *_hints(query)), types
    )


def _hints(query: StandingQuery) -> list[str]:
    """Hints at brackets, for sources that may take rows away but have no window of their own.

    With one window for all sources, such a source has no tuple after END. So a later partner does not count.
    """
    sources, places = query.sources, absences(query.plan)
    end = sources[0].window.end
    if not places or end == NOW or len({source.window for source in sources}) > 1:
        return []
    hints = []
    for source in sources:
        if source.place in places:
            name = exact_name(source.spec.name)
            named = f"{name} {exact_name(source.alias)}" if source.alias not in ("", source.spec.name) else name
            longer = written_window(replace(source.window, end=NOW))
            hints.append(
                f"tuples of {source.alias or source.spec.name} after END take no row away, as all sources have one"
                f" window; if later tuples are to count, give each source a window in brackets: {named} [{longer}]"
            )
    return hints


def _of_source(node: Source, part: Reach, plan: Node) -> Findings:
    low, high = part.range.low, part.range.high
    figures = {
        "tuples_in_window": float(count_shown(part.view, low, high)),
        "tuples_on_disk": float(count_shown(part.view, low, min(high, part.view.hot_id))),
    }
    name = part.view.spec.name
    facts = {
        "stream": name,
        "alias": node.alias or name,
        "window": node.window_text,
        "role": source_roles(plan)[node.place].value,
        "may_take_away": "yes" if node.place in absences(plan) else "no",
    }
    return Findings(figures, facts)
