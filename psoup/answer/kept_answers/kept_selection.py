"""The kept answer of a query over one stream: rows that left the window go, and rows that are new come.

    nothing came, nothing left     the kept messages
    changed                        messages are spliced, or the rows are gathered by their tuple IDs, without a search

`psoup.answer.kept_answers.stream_rows` finds the rows that came and left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from psoup.answer.answer import Answer
from psoup.answer.completeness import Completeness, part_of
from psoup.answer.kept_answers.kept_parts import KeptPart, is_plain
from psoup.answer.kept_answers.kept_values import AnswerFigures, KeptSelection, KeptSlot
from psoup.answer.kept_answers.row_pieces import Piece, pieces_of, written
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, RowRange, SentAnswer
from psoup.answer.kept_answers.stream_rows import Change, StreamRows, changed_pieces, ids_of, reason_to_give_up
from psoup.execution.plan import Reading
from psoup.execution.rows import source_messages
from psoup.execution.rows.record_batch import Form, form_of
from psoup.execution.select.match_forms import ChunkMatches
from psoup.execution.select.window import Reach
from psoup.plan.nodes import Limit, Node
from psoup.plan.plan_facts import plan_fact
from psoup.published.records import ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget


class SelectionRead:
    """An invocation of a query over one stream, with a kept answer or without one."""

    def __init__(
        self, snapshot: Snapshot, slot: KeptSlot, clause: ClauseRecord, seen: Reach, budget: ReadBudget
    ) -> None:
        self._snapshot = snapshot
        self._slot = slot
        self._seen = seen
        self._budget = budget
        self._rows = StreamRows(snapshot, clause, seen, budget)

    def keep(self, answer: Answer, parts: tuple[KeptPart, ...], size: int) -> None:
        """Keep an answer that was evaluated, and read to its end."""
        if answer.errors or answer.select_errors:
            self._slot.give_up(f"{answer.errors + answer.select_errors:,} values of it could not be computed")
            return
        ids = ids_of(answer._reading.matches[0])
        aligned = _spliced_form(self._plan) is not None
        self._put(pieces_of(ids, parts) if aligned else (ids,), parts, size, aligned=aligned)

    def brought_up_to_date(self, former: KeptSelection) -> Answer | None:
        """The answer from the kept rows. Returns None if it must be evaluated. Raises as `matches_in`."""
        low, high = self._rows.window
        self._budget.window = high - low
        self._budget.check()
        change = self._rows.change(former)
        if change is None:
            return None
        if why := reason_to_give_up((change,)):
            self._slot.give_up(why)
            return None
        if change.any:
            pieces = changed_pieces(_spliced_form(self._plan), change)
            return self._gathered(change) if pieces is None else self._spliced(pieces)
        if former.covered != self._rows.window:
            self._slot.put(replace(former, covered=self._rows.window), former.nbytes)
        return SentAnswer(*self._sent(former.pieces), lambda _: former.parts)

    @property
    def _plan(self) -> Node:
        return self._slot.record.query.plan

    def _put(self, pieces: tuple[Array, ...], parts: tuple[KeptPart, ...], size: int, *, aligned: bool) -> None:
        selection = KeptSelection(self._rows.stamp, self._rows.window, pieces, parts, aligned)
        self._slot.put(selection, size + 8 * selection.rows)

    def _reading(self, matches: Sequence[ChunkMatches]) -> Reading:
        config, groups = self._snapshot.config, self._snapshot.groups_of(self._slot.record.tenant)
        return Reading([matches], self._seen.now, config.texts, self._budget, config.sort_rows, groups=groups)

    def _completeness(self) -> Completeness:
        return Completeness(self._snapshot.sequence, self._seen.now, 0, (part_of(self._snapshot, self._seen),))

    def _sent(
        self, pieces: Sequence[Array]
    ) -> tuple[QueryRecord, Callable[[], Completeness], Reading, RowRange, AnswerFigures]:
        """The arguments of a SentAnswer of rows with these tuple IDs, without its messages."""
        extent = RowRange((self._seen.view.stream_id,), ())
        return self._slot.record, self._completeness, self._reading([]), extent, _figures(pieces)

    def _spliced(self, pieces: Sequence[Piece]) -> Answer:
        """The answer with messages that are spliced from kept ones and new rows."""
        form, ids = _spliced_form(self._plan), list[Array]()
        assert form is not None, "the rows were cut by this form"

        def parts(most_rows: int) -> Iterator[KeptPart]:
            ids.clear()
            for of_part, part in written(form, pieces, most_rows):
                ids.append(of_part)
                yield part

        def keep(sent: tuple[KeptPart, ...]) -> None:
            self._put(tuple(ids), sent, sum([part.size for part in sent]), aligned=True)

        return SentAnswer(*self._sent([piece.ids for piece in pieces]), parts, keep, self._slot.room)

    def _gathered(self, change: Change) -> Answer:
        """The answer whose rows are gathered by their tuple IDs, without a search."""
        stay = [change.former.pieces[number][start:stop] for number, start, stop in change.cuts]
        ids = np.concatenate([ids_of(change.below), *stay, ids_of(change.above)])
        reading = self._reading(list(_matches_of(self._seen.view, ids)))
        answer = Answer(self._slot.record, self._completeness, reading, (self._seen.view.stream_id,))
        return KeepingAnswer(answer, self.keep, self._slot.room)


def _figures(pieces: Sequence[Array]) -> AnswerFigures:
    """The figures of an answer of these rows, as `Answer` computes them."""
    some = [ids for ids in pieces if len(ids)]
    ends = (int(some[0][0]), int(some[-1][-1])) if some else None
    rows = sum([len(ids) for ids in some])
    return AnswerFigures(rows, f"{ends}/{rows}")


def _matches_of(view: StreamView, ids: Array) -> Iterable[ChunkMatches]:
    """Yield the tuples with these IDs (int64[n], ascending, all kept by the stream), chunk by chunk. O(n + chunks)."""
    for entry in view.chunks:
        first, stop = np.searchsorted(ids, (entry.data.first_id, entry.data.end_id)).tolist()
        if first < stop:
            yield ChunkMatches(entry, entry.data.places.rows(ids[first:stop]), 0, True)


@plan_fact
def _spliced_form(plan: Node) -> Form | None:
    """The form of the messages of a plan whose rows are shown as they come. Returns None for other plans."""
    form = None if isinstance(plan, Limit) or not source_messages.serves(plan) else form_of(plan.schema)
    return form if is_plain(form) else None
