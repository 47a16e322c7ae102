"""The notes about an answer of an AUTO query, for the next round."""

from __future__ import annotations

from psoup.answer.answer import Answer
from psoup.answer.automatic.cost_model import MESSAGES, NOT_KEPT, ROWS
from psoup.answer.kept_answers.kept_forms import KeptForm, kept_form
from psoup.plan.nodes import Node
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array

_FORMS = {KeptForm.SELECTION: ROWS, KeptForm.UNCHANGED: MESSAGES}


def note_answer(snapshot: Snapshot, record: QueryRecord, answer: Answer) -> None:
    """Note an invocation of an AUTO query. O(chunks of its window)."""
    snapshot.automatic.note(record.query_id, answer.budget.window, answer.matched, _form_of(record.query.plan))


def note_answers(snapshot: Snapshot, query_ids: Array, plan: Node, window: int) -> None:
    """Note an invocation of each AUTO query among some queries (int64[k]) with a plan and a window of `window` tuples.

    O(k log n); O(1) if no query is AUTO.
    """
    if snapshot.automatic:
        snapshot.automatic.note_all(query_ids, window, _form_of(plan))


def _form_of(plan: Node) -> int:
    """The form in which COMPLETE keeps the answer of a plan, as the cost model numbers it. O(1), cached."""
    return _FORMS.get(kept_form(plan), NOT_KEPT)
