"""Checks of one stream: its parts agree with one another, and with the readers' view.

    check_counts     lengths and ends that a push stores in two places      O(runs of waiting tuples)
    check_shown      the newest parts of the readers' view                  O(1)
    check_stream     every structure, and the parts with each other         O(everything)
    check_coverage   results of closed chunks, with the tuples themselves   O(changed results)

The checks change nothing, and raise Corrupt. The writer calls them. `psoup.engine.stream.publication` compares the
whole view of readers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.engine.stream.state import StreamState
from psoup.expressions.tree import AttributeRef
from psoup.invariants import corrupt, ensure
from psoup.matching.search import Search
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.results.chunk_results import ChunkResults

Checked = dict[int, tuple[ChunkResults, int]]
"""The results of each chunk, by its number, that were compared with its tuples, and an SQC ID. Clauses below that ID
were compared."""


def check_counts(state: StreamState) -> None:
    """Check that counts stored in two places agree, and that the open chunk follows the last one. Counts of clauses are
    not checked here."""
    shelf, begins = state.shelf, state.data.open
    newest = shelf.entries[-1].data if shelf.entries else None
    if newest is not None and (newest.number + 1, newest.end_id) != (begins.number, begins.first_id):
        ids = (newest.end_id, begins.first_id)
        raise corrupt(shelf, "the open chunk does not follow", last=newest.number, open=begins.number, ids=ids)
    if not shelf.archived <= len(shelf.entries) or shelf.next_to_store > begins.number:
        counts = {"archived": shelf.archived, "chunks": len(shelf.entries), "next_to_store": shelf.next_to_store}
        raise corrupt(shelf, "chunks are archived or stored that are not there", **counts)
    state.feed.check_counts()
    state.open.check_counts()


def check_shown(state: StreamState, view: StreamView) -> None:
    """Check that readers see the last tuple, the newest closed chunk with its results, and all chunks and queries."""
    shelf, next_id, queries = state.shelf.entries, state.data.next_id, state.clauses.queries
    whole = view.next_id == next_id and len(view.chunks) == len(shelf) + 1 and view.queries == queries
    if whole and shelf:  # readers may have an entry without its file, so compare only tuples and results
        shown, newest = view.chunks[-2], shelf[-1]
        whole = shown.data is newest.data and shown.results is newest.results
    if not whole or view.watermark != state.feed.watermark:
        raise corrupt(
            state,
            "it has changed and was not published",
            stream=state.stream_id,
            next_id=(view.next_id, next_id),
            chunks=(len(view.chunks), len(shelf) + 1),
            queries=(view.queries, queries),
        )


def check_stream(state: StreamState, clauses: Sequence[ClauseRecord]) -> None:
    """Check that the parts are sound, and agree with each other and with the clauses of the stream."""
    check_counts(state)
    state.clauses.check_counts()
    for part in (state.feed, state.data):
        part.check()
    state.shelf.check(state.config.list_limit)
    if state.versions is not None:
        state.versions.check()
    _check_open_follows(state)
    state.clauses.check(clauses)
    state.open.check(state.data.open.length)
    out = state.clauses.quarantine.ids
    excepted = np.isin(out, state.open.gaps.ids).all()
    stream = state.stream_id
    ensure(excepted, state, "a clause that is out counts as covered in the open chunk", stream=stream, clauses=out)


def _check_open_follows(state: StreamState) -> None:
    stream, begins = state.stream_id, state.data.open
    for newest in [entry.data for entry in state.shelf.entries[-1:]]:
        on = not begins.length or begins.view().first_time >= newest.last_time
        ensure(on, state, "the open chunk goes back in time", stream=stream, chunk=begins.number)


def check_coverage(state: StreamState, clauses: Sequence[ClauseRecord], checked: Checked) -> None:
    """Check the results of closed chunks: a clause that covers a chunk must have exactly the matches of its tuples.

    Skips results and clauses that were `checked` before and have not changed.
    """
    now: Checked = {}
    for entry in state.shelf.in_memory:
        number, results = entry.data.number, entry.results
        results_before, before = checked.get(number, (None, 0))
        for clause in clauses:
            if results_before is not results or clause.sqc_id >= before:
                _check_pair(state, entry, clause)
        now[number] = results, state.clauses.table.next_sqc
    checked.clear()
    checked.update(now)


def _check_pair(state: StreamState, entry: ChunkEntry, clause: ClauseRecord) -> None:
    data, results = entry.data, entry.results
    if not results.covers(clause.sqc_id):
        return
    offsets_held = results.offsets(clause.sqc_id, clause.slot, 0, len(data))
    wary = [t.attribute for f in clause.factors for t in f.terms if not isinstance(t.attribute, AttributeRef)]
    offsets_found = Search(clause.factors, state.config.texts, wary).find(data, 0, len(data)).offsets
    if not np.array_equal(offsets_held, offsets_found):
        pair = {"stream": state.stream_id, "chunk": data.number, "clause": clause.sqc_id}
        raise corrupt(results, "results are not what the tuples say", **pair, kept=offsets_held, found=offsets_found)
