"""The front door for invocations of COMPLETE queries: the kept answer, brought up to date, or a new one that is kept.

    room ── nothing, or given up and due ──> evaluate, and keep the answer once its reader has all rows
         ── given up ─────────────────────> evaluate, as under PARTIAL
         ── rows ──> cut, search what is new ──> splice
         ── messages ──> no event since? the same bytes

An update of an eager answer takes the same steps, but does not count as a use (`psoup.answer.eager`).
Each step is exact, so the amount changes no answer.
"""

from __future__ import annotations

from collections.abc import Callable

from psoup.answer.answer import Answer
from psoup.answer.kept_answers.kept_forms import KeptForm, kept_form
from psoup.answer.kept_answers.kept_selection import SelectionRead
from psoup.answer.kept_answers.kept_union import UnionRead
from psoup.answer.kept_answers.kept_values import KeptMessages, KeptSelection, KeptSlot, KeptUnion, is_due
from psoup.answer.kept_answers.last_answers import LastAnswerRead
from psoup.answer.kept_answers.placed_answers import current_answer, note_current
from psoup.answer.kept_answers.sent_answers import Keep, KeepingAnswer
from psoup.answer.question import Question
from psoup.plan.amounts import Amount
from psoup.published.answer_room import GivenUp
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot

Evaluate = Callable[[], Answer]
"""Evaluates the query as under PARTIAL."""


def is_kept(record: QueryRecord, question: Question) -> bool:
    """Whether an invocation may use a kept answer: of a COMPLETE query, over its own window at NOW. O(1)."""
    keeping = record.keeping
    return keeping.amount is Amount.COMPLETE and keeping.active and question.as_of is None and question.window is None


def complete_answer(
    snapshot: Snapshot, record: QueryRecord, question: Question, evaluate: Evaluate, *, by_client: bool = True
) -> Answer:
    """The answer of a query for which `is_kept`. `evaluate`: evaluates it at the same question. Raises as `invoke`.

    `by_client`: whether a client has asked. If not, the answer does not count as used, and stays given up.
    """
    room, form = snapshot.answers, kept_form(record.query.plan)
    if by_client and record.keeping.eager:
        snapshot.eager.note(record.query_id)
    if not form.keeps or not room.most_of_one:
        return evaluate()
    entry = room.find(record.query_id) if by_client else room.look(record.query_id)
    slot = KeptSlot(room, record, question.now, snapshot.sequence, by_client)
    value = None if entry is None else entry.value
    if isinstance(value, GivenUp) and not (by_client and is_due(value, question.now)):
        return evaluate()
    if value is not None and (current := current_answer(snapshot, record, value, question)) is not None:
        return current
    answer, keep = _known(snapshot, slot, question, form, value)
    if answer is not None:
        return answer
    now = room.look(record.query_id)
    if now is not None and now is not entry and isinstance(now.value, GivenUp):  # it was given up just now
        return evaluate()
    return KeepingAnswer(evaluate(), keep, room)


def _known(
    snapshot: Snapshot, slot: KeptSlot, question: Question, form: KeptForm, value: object
) -> tuple[Answer | None, Keep]:
    """The answer from what is kept, or None; and the function that keeps an answer that is evaluated instead."""
    record, budget = slot.record, question.budget
    if form is KeptForm.SELECTION:
        seen = question.seen_of_one(snapshot.by_id[record.stream_id], question.windows(record.query)[0])
        selection = SelectionRead(snapshot, slot, snapshot.clause(record.sqc_id), seen, budget)
        return selection.brought_up_to_date(value) if isinstance(value, KeptSelection) else None, selection.keep
    seen_by_all = question.seen(snapshot.views_of(record), question.windows(record.query))
    last = LastAnswerRead(snapshot, slot, seen_by_all, budget)
    keep = last.keep
    if form is KeptForm.UNION:
        union = UnionRead(snapshot, slot, seen_by_all, budget, last.keep)
        if isinstance(value, KeptUnion):
            return union.brought_up_to_date(value), union.keep
        keep = union.keep
    answer = last.sent_again(value) if isinstance(value, KeptMessages) else None
    if answer is not None:
        note_current(snapshot, record, value)
    return answer, keep
