"""Plans of COMPLETE queries: how their kept answers are brought up to date. The form follows from the plan alone.

[Limit] [Sort] [Distinct] Project ─> Source        rows of one stream: some come, some leave         SELECTION
UNION ALL of Project ─> Source                     the same, for each SELECT                         UNION

any other plan                                     the last answer, for as long as no event comes    UNCHANGED

Aggregate ─> Source                                as PARTIAL: the folds of its windows are kept     FOLDS
a plan that shows now()                            as PARTIAL: each answer differs                   NOW
"""

from __future__ import annotations

import enum

from psoup.answer.kept_answers.kept_union import union_form
from psoup.plan.node_exprs import plan_reads_now
from psoup.plan.nodes import Aggregate, Distinct, Limit, Node, Project, Sort, Source, walk
from psoup.plan.patterns import Pattern
from psoup.plan.plan_facts import plan_fact
from psoup.plan.updates import plan_updates


class KeptForm(enum.Enum):
    """The form in which the answer of a plan is kept. The value is the form in words, for EXPLAIN."""

    SELECTION = "new rows are added to the kept answer, and rows that left the window are removed"
    UNION = "for each SELECT, new rows are added to the kept answer, and rows that left the window are removed"
    UNCHANGED = "the last answer is sent again until a stream or table of it has an event; then it is evaluated anew"
    FOLDS = "as PARTIAL, which keeps the folds of its last windows"
    NOW = "as PARTIAL: the answer shows now(), so it differs each time"

    @property
    def keeps(self) -> bool:
        """Whether an answer of this form is kept."""
        return self not in (KeptForm.FOLDS, KeptForm.NOW)


@plan_fact
def kept_form(plan: Node) -> KeptForm:
    """The form in which the answer of a plan is kept. O(size of the plan), cached."""
    if plan_reads_now(plan):
        return KeptForm.NOW
    alone = len(plan.sources) == 1 and plan.sources[0].spec.table is None
    if alone and any(isinstance(node, Aggregate) for _, node in walk(plan)):
        return KeptForm.FOLDS
    rows = plan_of_rows(plan)
    strict = plan_updates(plan)[id(rows)].pattern is Pattern.STRICT
    if not strict and isinstance(rows, Project) and isinstance(rows.input, Source):
        return KeptForm.SELECTION
    if not strict and union_form(plan) is not None:
        return KeptForm.UNION
    return KeptForm.UNCHANGED


def plan_of_rows(plan: Node) -> Node:
    """The node whose rows are kept: the plan without DISTINCT, ORDER BY and LIMIT, which are applied to these rows."""
    while isinstance(plan, Limit | Sort | Distinct):
        plan = plan.input
    return plan
