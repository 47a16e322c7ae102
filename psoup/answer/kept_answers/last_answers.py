"""The kept answer of any other plan: the same bytes, while no stream and no table of it has an event.

    kept   token of each source ─ the ranges of its windows      equal now ──> the messages are sent again
                                                                 other     ──> the query is evaluated anew

A table's versions begin and end by events, so its token is among those that are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from psoup.answer.answer import Answer
from psoup.answer.completeness import Completeness, part_of, parts_of
from psoup.answer.kept_answers.kept_parts import KeptPart
from psoup.answer.kept_answers.kept_values import AnswerFigures, KeptMessages, KeptSlot, SourceToken, tokens_of
from psoup.answer.kept_answers.sent_answers import RowRange, SentAnswer
from psoup.execution.plan import Reading
from psoup.execution.select.window import Reach
from psoup.published.records import NO_CLAUSE
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget


class LastAnswerRead:
    """An invocation of a query, with a kept answer or without one. `seen`: the window of each source."""

    def __init__(self, snapshot: Snapshot, slot: KeptSlot, seen: Sequence[Reach], budget: ReadBudget) -> None:
        self._snapshot = snapshot
        self._slot = slot
        self._seen = seen
        self._budget = budget

    @cached_property
    def _tokens(self) -> tuple[SourceToken, ...]:
        return tokens_of(self._snapshot, self._seen)

    def keep(self, answer: Answer, parts: tuple[KeptPart, ...], size: int) -> None:
        """Keep an answer that was evaluated, and read to its end."""
        errors = answer.completeness.errors
        more = answer.errors - errors, answer.select_errors, answer.unknown
        likeness = "" if answer.ranges else answer.likeness  # pages of a join compare ranges instead
        figures = AnswerFigures(answer.matched, likeness, errors, *more)
        self._slot.put(KeptMessages(self._tokens, figures, parts), size)

    def sent_again(self, messages: KeptMessages) -> Answer | None:
        """The answer with the kept messages. Returns None if an event has come since."""
        if messages.tokens != self._tokens:
            return None
        config, ranges = self._snapshot.config, [part.range[:2] for part in self._seen]
        self._budget.window = sum([high - low for low, high in ranges])
        self._budget.check()
        views = [part.view for part in self._seen]
        reading = Reading([[] for _ in views], self._seen[0].now, config.texts, self._budget, config.sort_rows)
        streams = [view.stream_id for view in views]
        extent = RowRange(streams, ranges if self._slot.record.sqc_id == NO_CLAUSE else ())

        def completeness() -> Completeness:
            record, snapshot, seen = self._slot.record, self._snapshot, self._seen
            alone = record.sqc_id != NO_CLAUSE
            parts = (part_of(snapshot, seen[0]),) if alone else parts_of(snapshot, record.query.plan, seen)
            return Completeness(snapshot.sequence, seen[0].now, messages.figures.errors, parts)

        return SentAnswer(self._slot.record, completeness, reading, extent, messages.figures, lambda _: messages.parts)
