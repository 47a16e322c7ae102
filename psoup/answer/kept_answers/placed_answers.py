"""Joins and unions whose windows count rows: while no event comes, the kept answer is sent without a look at windows.

snapshot   has a note about the kept answer    ──> it is sent again, in some microseconds.

any event  makes a new snapshot without notes  ──> its tokens are compared once.
"""

from __future__ import annotations

from psoup.answer.answer import Answer
from psoup.answer.completeness import Completeness, parts_of
from psoup.answer.join_ranges import placed
from psoup.answer.kept_answers.kept_values import KeptMessages, KeptUnion
from psoup.answer.kept_answers.sent_answers import RowRange, SentAnswer
from psoup.answer.question import Question
from psoup.execution.plan import Reading
from psoup.published.reader_notes import NoteKind
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot

_CURRENT = NoteKind[int, object](1_024)
"""The kept values that are answers in a snapshot, whatever the clock says, by query ID."""


def note_current(snapshot: Snapshot, record: QueryRecord, value: object) -> None:
    """Note that a kept value is the answer in a snapshot, if the windows do not depend on the clock. O(1)."""
    if record.sqc_id == NO_CLAUSE and placed(snapshot, record) is not None:
        snapshot.notes.table(_CURRENT).note(record.query_id, value)


def current_answer(snapshot: Snapshot, record: QueryRecord, value: object, question: Question) -> Answer | None:
    """The answer of a kept value that was noted in the snapshot. Returns None if it was not. O(1)."""
    if snapshot.notes.table(_CURRENT).get(record.query_id) is not value:
        return None
    place = placed(snapshot, record)
    if place is None or not isinstance(value, KeptMessages | KeptUnion):
        return None
    question.budget.window = place.tuples
    question.budget.check()
    config, now = snapshot.config, place.now(question.now)
    reading = Reading([() for _ in place.streams], now, config.texts, question.budget, config.sort_rows)
    figures, messages = value.figures, value.parts
    extent = RowRange(place.streams, place.ranges)

    def completeness() -> Completeness:
        parts = parts_of(snapshot, record.query.plan, place.seen(question.now))
        return Completeness(snapshot.sequence, now, figures.errors, parts)

    return SentAnswer(record, completeness, reading, extent, figures, lambda _: messages)
