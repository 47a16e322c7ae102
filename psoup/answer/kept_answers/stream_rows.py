"""The kept rows of one stream in a kept answer: what came into the window and what left it, and the rows now.

    kept      [──────────────)             tuple IDs of the rows, and the tuple IDs that they cover
    window       [───────────────)         cut the kept rows; search only the new tuple IDs
    changed   messages are spliced, if their columns have no NULL

Tuples never change, so the kept rows stay true in every later snapshot. History that is attached below them counts as
new. An answer with tuples whose WHERE could not be computed is evaluated, as their number depends on the coverage.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from psoup.answer.copies.id_boxes import cut
from psoup.answer.kept_answers.kept_parts import run_of
from psoup.answer.kept_answers.kept_values import KeptSelection, stamp_of
from psoup.answer.kept_answers.row_pieces import Cut, Piece, cuts_of, grown, kept_pieces
from psoup.data.chunk import ChunkView
from psoup.execution.rows.record_batch import Form, Message
from psoup.execution.select.clause_matches import failed_tuples, matches_in
from psoup.execution.select.match_forms import ChunkMatches, Matches
from psoup.execution.select.window import Reach
from psoup.published.reader_notes import NoteKind
from psoup.published.records import ClauseRecord
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


class Change(NamedTuple):
    """The rows that came and left since a kept answer. `cuts`: the parts of its pieces that stay. `below`, `above`: new
    rows. `came`, `stay`, `before`: numbers of rows.
    """

    former: KeptSelection
    cuts: list[Cut]
    below: list[ChunkMatches]
    above: list[ChunkMatches]
    came: int
    stay: int

    @property
    def before(self) -> int:
        """The number of kept rows."""
        return self.former.rows

    @property
    def any(self) -> bool:
        """Whether a row came or left."""
        return self.came > 0 or self.stay < self.before


def reason_to_give_up(changes: Sequence[Change]) -> str:
    """Why a kept answer with these changes is given up: more rows came and left than it holds. "" if it is kept."""
    came, stay = sum([change.came for change in changes]), sum([change.stay for change in changes])
    before = sum([change.before for change in changes])
    if came + before - stay <= max(before, stay + came, FEW_ROWS):
        return ""
    left, rows = before - stay, stay + came
    return f"{came:,} rows came and {left:,} left between two invocations, and it holds {rows:,}"


class StreamRows:
    """The rows of one source of an answer: the tuples of its window (`seen`) that match a clause."""

    def __init__(self, snapshot: Snapshot, clause: ClauseRecord, seen: Reach, budget: ReadBudget) -> None:
        self._snapshot = snapshot
        self._clause = clause
        self._seen = seen
        self._budget = budget
        self.window = seen.range.low, max(seen.range.low, seen.range.high)
        """The tuple IDs [low, high) of the window."""
        self.stamp = stamp_of(seen.view)

    def change(self, former: KeptSelection) -> Change | None:
        """The rows that came and left. Returns None if the rows must be evaluated. Raises as `matches_in`."""
        (low, high), view = self.window, self._seen.view
        if former.stamp != self.stamp or has_failures(view, self._clause, low, high):
            return None
        ((first_id, end_id),) = cut((former.covered,), (self.window,))
        below, above = self._matches(low, first_id), self._matches(end_id, high)
        if any(match.errors for match in (*below, *above)):
            return None
        cuts = cuts_of(former.pieces, first_id, end_id)
        came, stay = sum([match.count for match in (*below, *above)]), sum([stop - start for _, start, stop in cuts])
        return Change(former, cuts, below, above, came, stay)

    def _matches(self, low: int, high: int) -> list[ChunkMatches]:
        config = self._snapshot.config
        limits = self._snapshot.run, config.archive_rows, self._budget, config.texts
        return matches_in(self._seen.view, self._clause, low, high, *limits)


def changed_pieces(form: Form | None, change: Change) -> list[Piece] | None:
    """New rows, kept rows that stay, and new rows. Returns None if their messages cannot be spliced.

    `form`: of the messages, plain; None if they have no such form.
    """
    form = form if change.former.aligned else None
    first, last = (None, None) if form is None else (came(form, change.below), came(form, change.above))
    if form is None or first is None or last is None:
        return None
    pieces = kept_pieces(form, change.former.pieces, change.former.parts, change.cuts)
    before = [Piece(ids_of(change.below), first)] if first.shape[1] else []
    return None if pieces is None else grown(form, [*before, *pieces], ids_of(change.above), last)


def ids_of(matches: Iterable[Matches]) -> Array:
    """The tuple IDs of all matches, int64."""
    return np.concatenate([_NO_ROWS, *[match.data.places.ids(match.offsets) for match in matches if match.count]])


def came(form: Form, matches: Iterable[Matches]) -> Array | None:
    """The columns of rows, int64[columns, n]. Returns None if a chunk is on disk, or a column may have NULL."""
    some = [match for match in matches if match.count]
    here = [(match.data, match.offsets) for match in some if isinstance(match.data, ChunkView)]
    if not some:
        return _NO_ROWS.reshape(len(form.kinds), 0)
    if len(here) < len(some):
        return None
    message = Message(form, here)
    return run_of(form, message.rows, message.gathered())


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
