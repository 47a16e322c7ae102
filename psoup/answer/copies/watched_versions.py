"""The watched clauses that versions of a table matched which later entries have ended.

entries since the last look    41  42  43
versions before                 7   -  30      ──> clauses that matched 7 or 30: their rows have left the answer
"""

from __future__ import annotations

import numpy as np

from psoup.execution.select.version_entries import entries_between, located
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.results.sets import WantedClauses, all_evaluated, evaluated, kept_pairs
from psoup.values.columns import Array
from psoup.work.read_budget import NO_LIMIT


def note_ended(view: StreamView, first: int, wanted: WantedClauses, hits: Array, unsure: Array) -> None:
    """Note the clauses that matched versions which the entries with IDs of at least `first` have ended.

    `hits`: uint8[k], set to 1 for the clauses that did. `unsure`: bool[k], set for clauses that were not evaluated; and
    for all clauses if an ended version has left its chunk. O(new entries + matches of the clauses in the chunks of the
    ended versions).
    """
    entries = entries_between(view, first, view.next_id)
    before = entries.before[(entries.before >= 0) & (entries.before < first)]
    stored = 0
    for entry, _, rows in located(view, before):
        stored += len(rows)
        _note_rows(entry, rows, wanted, hits, unsure)
    if stored < len(before) or not entries.all:
        unsure[:] = True


def _note_rows(entry: ChunkEntry, rows: Array, wanted: WantedClauses, hits: Array, unsure: Array) -> None:
    """Note the clauses that match some rows of a chunk (int64[n], ascending)."""
    results, places = entry.results, np.arange(len(wanted.ids))
    if not all_evaluated(results, wanted.ids):
        met = evaluated(results, wanted.ids)
        unsure |= ~met
        places = np.flatnonzero(met)
        wanted = WantedClauses(wanted.ids[met])
    pairs = kept_pairs(results, wanted, int(rows[0]), int(rows[-1]) + 1, NO_LIMIT)
    ended: Array = np.zeros(len(entry.data), np.bool_)
    ended[rows] = True
    hits[places[pairs.which[ended[pairs.offsets]]]] = 1
