"""Work that keeps the structures small and the answers ready, none of which changes an answer.

    seal     the open results of a full chunk become a pack, and its columns are made ready to be searched
    store    a closed chunk goes to whoever keeps it, through a port; from then on the log may forget its tuples
    merge    the recent clauses' index goes into the main one
    tidy     the open results forget clauses that are gone, and their slots become free
    cover    clauses born after a chunk was closed are evaluated over it (new queries, old data)
    compact  packs forget clauses that are gone
    tally    what queries cost in chunks and indexes that are gone is counted by clause

The first rule of `RULES` that finds something has its way. Each is a file here, with its task and what installs it.
"""

from __future__ import annotations

from psoup.engine.maintenance import compact, cover, merge, seal, store, tally, tidy
from psoup.engine.maintenance.task import Begin, Rule, Task
from psoup.engine.stream.state import StreamState


def in_turns(first: Rule, second: Rule) -> Rule:
    """Two kinds of work take turns while both are due: neither may grow because of the other."""

    def due(state: StreamState, everything: bool) -> Begin | None:
        one, other = first(state, everything), second(state, everything)
        if one is None or other is None:
            return one or other

        def begin() -> Task:
            state.store_next = not state.store_next
            return (one if state.store_next else other)()

        return begin

    return due


RULES: tuple[Rule, ...] = (
    in_turns(seal.due, store.due),  # the memory grows with what is not sealed, the log with what is not stored
    merge.due,
    tidy.due,
    cover.due,
    compact.due,
    tally.due,
)


def next_task(state: StreamState, *, everything: bool) -> Task | None:
    """The most urgent task of one stream, or None. O(1) while nothing has happened since it was None."""
    if state.settled and not everything:
        return None
    for due in RULES:
        begin = due(state, everything)
        if begin is not None:
            return begin()
    state.settle()
    return None
