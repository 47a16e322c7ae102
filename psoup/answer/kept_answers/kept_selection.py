"""The kept answer of a query over one stream: rows that left the window go, and rows that are new come.

    kept      [──────────────)             tuple IDs of the rows, and the tuple IDs that they cover
    window       [───────────────)         cut the kept rows; search only the new tuple IDs
    changed      the messages are spliced, if their columns have no NULL; else the rows are gathered by their IDs

Tuples never change, so the kept rows stay true in every later snapshot. History that is attached below them counts as
new. An answer with tuples whose WHERE could not be computed is evaluated, as their number depends on the coverage.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from psoup.answer.answer import Answer
from psoup.answer.completeness import Completeness, part_of
from psoup.answer.copies.id_boxes import cut
from psoup.answer.kept_answers.kept_parts import KeptPart, is_plain, run_of
from psoup.answer.kept_answers.kept_values import AnswerFigures, KeptSelection, KeptSlot, stamp_of
from psoup.answer.kept_answers.row_pieces import Cut, Piece, cuts_of, grown, kept_pieces, pieces_of, written
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, RowRange, SentAnswer
from psoup.data.chunk import ChunkView
from psoup.execution.plan import Reading
from psoup.execution.rows import source_messages
from psoup.execution.rows.record_batch import Form, Message, form_of
from psoup.execution.select.clause_matches import failed_tuples, matches_in
from psoup.execution.select.match_forms import ChunkMatches, Matches
from psoup.execution.select.window import Reach
from psoup.plan.nodes import Limit, Node
from psoup.plan.plan_facts import plan_fact
from psoup.published.reader_notes import NoteKind
from psoup.published.records import ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.chunk_results import ChunkResults
from psoup.results.failures import NO_FAILURES
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget

FEW_ROWS = 1_024
"""An answer is not given up if fewer rows come and leave between two invocations."""
_FAILING = NoteKind[tuple[int, int], list[ChunkResults]](64)
"""The results with failed values, of any query, among the chunks [first, stop) of a stream."""
_NO_ROWS: Array = np.zeros(0, np.int64)
_FIRST_ID = attrgetter("data.first_id")


class SelectionRead:
    """An invocation of a query over one stream, with a kept answer or without one."""

    def __init__(
        self, snapshot: Snapshot, slot: KeptSlot, clause: ClauseRecord, seen: Reach, budget: ReadBudget
    ) -> None:
        self._snapshot = snapshot
        self._slot = slot
        self._clause = clause
        self._seen = seen
        self._budget = budget
        self._low, self._high = seen.range.low, max(seen.range.low, seen.range.high)
        self._stamp = stamp_of(seen.view)

    def keep(self, answer: Answer, parts: tuple[KeptPart, ...], size: int) -> None:
        """Keep an answer that was evaluated, and read to its end."""
        if answer.errors or answer.select_errors:
            self._slot.give_up(f"{answer.errors + answer.select_errors:,} values of it could not be computed")
            return
        ids = _ids_of(answer._reading.matches[0])
        aligned = _spliced_form(self._plan) is not None
        self._put(pieces_of(ids, parts) if aligned else (ids,), parts, size, aligned=aligned)

    def brought_up_to_date(self, former: KeptSelection) -> Answer | None:
        """The answer from the kept rows. Returns None if it must be evaluated. Raises as `matches_in`."""
        self._budget.window = self._high - self._low
        self._budget.check()
        if former.stamp != self._stamp or has_failures(self._seen.view, self._clause, self._low, self._high):
            return None
        ((first_id, end_id),) = cut((former.covered,), ((self._low, self._high),))
        below, above = self._matches(self._low, first_id), self._matches(end_id, self._high)
        if any(match.errors for match in (*below, *above)):
            return None
        cuts, before = cuts_of(former.pieces, first_id, end_id), former.rows
        came, stay = sum([match.count for match in (*below, *above)]), sum([stop - start for _, start, stop in cuts])
        if came + before - stay > max(before, stay + came, FEW_ROWS):
            left, rows = before - stay, stay + came
            self._slot.give_up(f"{came:,} rows came and {left:,} left between two invocations, and it holds {rows:,}")
            return None
        if came or stay < before:
            pieces = self._pieces(former, cuts, below, above)
            return self._gathered(former, cuts, below, above) if pieces is None else self._spliced(pieces)
        if former.covered != (self._low, self._high):
            self._slot.put(replace(former, covered=(self._low, self._high)), former.nbytes)
        return SentAnswer(*self._sent(former.pieces), lambda _: former.parts)

    @property
    def _plan(self) -> Node:
        return self._slot.record.query.plan

    def _put(self, pieces: tuple[Array, ...], parts: tuple[KeptPart, ...], size: int, *, aligned: bool) -> None:
        selection = KeptSelection(self._stamp, (self._low, self._high), pieces, parts, aligned)
        self._slot.put(selection, size + 8 * selection.rows)

    def _matches(self, low: int, high: int) -> list[ChunkMatches]:
        config = self._snapshot.config
        limits = self._snapshot.run, config.archive_rows, self._budget, config.texts
        return matches_in(self._seen.view, self._clause, low, high, *limits)

    def _reading(self, matches: Sequence[ChunkMatches]) -> Reading:
        config, groups = self._snapshot.config, self._snapshot.groups_of(self._slot.record.tenant)
        return Reading([matches], self._seen.now, config.texts, self._budget, config.sort_rows, groups=groups)

    def _completeness(self) -> Completeness:
        return Completeness(self._snapshot.sequence, self._seen.now, 0, (part_of(self._seen),))

    def _sent(
        self, pieces: Sequence[Array]
    ) -> tuple[QueryRecord, Callable[[], Completeness], Reading, RowRange, AnswerFigures]:
        """The arguments of a SentAnswer of rows with these tuple IDs, without its messages."""
        extent = RowRange((self._seen.view.stream_id,), ())
        return self._slot.record, self._completeness, self._reading([]), extent, _figures(pieces)

    def _pieces(
        self, former: KeptSelection, cuts: Sequence[Cut], below: Sequence[ChunkMatches], above: Sequence[ChunkMatches]
    ) -> list[Piece] | None:
        """New rows, kept rows that stay, and new rows. Returns None if their messages cannot be spliced."""
        form = _spliced_form(self._plan) if former.aligned else None
        first, last = (None, None) if form is None else (_came(form, below), _came(form, above))
        if form is None or first is None or last is None:
            return None
        pieces = kept_pieces(form, former.pieces, former.parts, cuts)
        before = [Piece(_ids_of(below), first)] if first.shape[1] else []
        return None if pieces is None else grown(form, [*before, *pieces], _ids_of(above), last)

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

    def _gathered(
        self, former: KeptSelection, cuts: Sequence[Cut], below: Sequence[ChunkMatches], above: Sequence[ChunkMatches]
    ) -> Answer:
        """The answer whose rows are gathered by their tuple IDs, without a search."""
        stay = [former.pieces[number][start:stop] for number, start, stop in cuts]
        ids = np.concatenate([_ids_of(below), *stay, _ids_of(above)])
        reading = self._reading(list(_matches_of(self._seen.view, ids)))
        answer = Answer(self._slot.record, self._completeness, reading, (self._seen.view.stream_id,))
        return KeepingAnswer(answer, self.keep, self._slot.room)


def _figures(pieces: Sequence[Array]) -> AnswerFigures:
    """The figures of an answer of these rows, as `Answer` computes them."""
    some = [ids for ids in pieces if len(ids)]
    ends = (int(some[0][0]), int(some[-1][-1])) if some else None
    rows = sum([len(ids) for ids in some])
    return AnswerFigures(rows, f"{ends}/{rows}")


def _ids_of(matches: Iterable[Matches]) -> Array:
    """The tuple IDs of all matches, int64."""
    return np.concatenate([_NO_ROWS, *[match.data.places.ids(match.offsets) for match in matches if match.count]])


def _matches_of(view: StreamView, ids: Array) -> Iterable[ChunkMatches]:
    """Yield the tuples with these IDs (int64[n], ascending, all kept by the stream), chunk by chunk. O(n + chunks)."""
    for entry in view.chunks:
        first, stop = np.searchsorted(ids, (entry.data.first_id, entry.data.end_id)).tolist()
        if first < stop:
            yield ChunkMatches(entry, entry.data.places.rows(ids[first:stop]), 0, True)


def has_failures(view: StreamView, clause: ClauseRecord, low: int, high: int) -> bool:
    """Whether stored results say that WHERE could not be computed for a tuple in the chunks of a window.

    O(log chunks) once noted, if no query has such tuples.
    """
    chunks = view.chunks
    first = max(bisect_right(chunks, low, key=_FIRST_ID) - 1, 0)
    stop = bisect_left(chunks, high, first, key=_FIRST_ID)
    table = view.notes.table(_FAILING)
    failing = table.get((first, stop))
    if failing is None:
        results = [entry.results for entry in chunks[first:stop]]
        failing = [result for result in results if result.errors or result.failures is not NO_FAILURES]
        table.note((first, stop), failing)
    return any(failed_tuples(result, clause) for result in failing)


@plan_fact
def _spliced_form(plan: Node) -> Form | None:
    """The form of the messages of a plan whose rows are shown as they come. Returns None for other plans."""
    form = None if isinstance(plan, Limit) or not source_messages.serves(plan) else form_of(plan.schema)
    return form if is_plain(form) else None


def _came(form: Form, matches: Sequence[ChunkMatches]) -> Array | None:
    """The columns of new rows, int64[columns, n]. Returns None if a chunk is on disk, or a column may have NULL."""
    some = [match for match in matches if match.count]
    here = [(match.data, match.offsets) for match in some if isinstance(match.data, ChunkView)]
    if not some:
        return _NO_ROWS.reshape(len(form.kinds), 0)
    if len(here) < len(some):
        return None
    message = Message(form, here)
    return run_of(form, message.rows, message.gathered())
