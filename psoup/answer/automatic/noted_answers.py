"""The notes about an answer of an AUTO query, for the next round."""

from __future__ import annotations

from psoup.answer.answer import Answer
from psoup.answer.automatic.cost_model import MESSAGES, NOT_KEPT, ROWS
from psoup.answer.kept_answers.kept_forms import KeptForm, kept_form
from psoup.joins.pairs_store import join_with_pairs
from psoup.plan.nodes import Limit, Node, Sort, walk
from psoup.plan.plan_facts import plan_fact
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array

_FORMS = {KeptForm.SELECTION: ROWS, KeptForm.UNCHANGED: MESSAGES}


def note_answer(snapshot: Snapshot, record: QueryRecord, answer: Answer) -> None:
    """Note an invocation of an AUTO query. As the reader takes the rows of a join, its pairs are noted, too.

    O(chunks of its window).
    """
    plan, automatic = record.query.plan, snapshot.automatic
    automatic.note(record.query_id, answer.budget.window, answer.matched, _form_of(plan))
    share = answer.share if _shows_pairs(plan) else 0.0
    if share > 0:
        answer.budget.on_pairs = lambda pairs: automatic.note_pairs(record.query_id, pairs / share)


def note_answers(snapshot: Snapshot, query_ids: Array, plan: Node, window: int) -> None:
    """Note an invocation of each AUTO query among some queries (int64[k]) with a plan and a window of `window` tuples.

    O(k log n); O(1) if no query is AUTO.
    """
    if snapshot.automatic:
        snapshot.automatic.note_all(query_ids, window, _form_of(plan))


@plan_fact
def _shows_pairs(plan: Node) -> bool:
    """Whether the pairs of a plan's join can be kept, and an evaluation finds all of them: LIMIT may end it early.
    O(size of the plan), cached."""
    nodes = [node for _, node in walk(plan)]
    is_cut = any(isinstance(node, Limit) for node in nodes) and not any(isinstance(node, Sort) for node in nodes)
    return not is_cut and join_with_pairs(plan) is not None


def _form_of(plan: Node) -> int:
    """The form in which COMPLETE keeps the answer of a plan, as the cost model numbers it. O(1), cached."""
    return _FORMS.get(kept_form(plan), NOT_KEPT)
