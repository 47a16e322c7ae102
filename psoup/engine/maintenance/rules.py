"""The rules of maintenance: work that keeps structures small and answers ready, and changes no answer.

    seal     the open results of a full chunk become a pack, and its columns get codes for searches
    store    a closed chunk is written to the store, through a port; then the log may drop the chunk's tuples
    leave    folds of chunks that left memory are written to disk
    lost     versions of tables that ended before HISTORY leave their chunks
    merge    the recent clauses' index is merged into the main one
    tidy     the open results lose removed clauses, and their slots become free
    cover    clauses added after a chunk was closed are evaluated over it (new queries, old data)
    compact  packs lose removed clauses
    tally    counters of query costs, from dropped chunks and index parts, are added up by clause
    pair     kept pairs of joins are made; they concern two streams, so the engine asks for them after all rules

The first rule of `RULES` that finds work wins. Each rule has a file here, with its task and the code that installs it.
Tenants take turns in `cover` and `pair` (`psoup.engine.maintenance.agenda`).
"""

from __future__ import annotations

from psoup.engine.maintenance import compact, cover, leave, lost, merge, seal, store, tally, tidy
from psoup.engine.maintenance.task import Begin, Rule
from psoup.engine.stream.state import StreamState


def seal_or_store(state: StreamState, everything: bool) -> Begin | None:
    """Alternate between sealing and storing while both are due.

    Unsealed chunks take memory, and unstored chunks keep the log long.
    """
    to_seal, to_store = seal.due(state, everything), store.due(state, everything)
    if to_seal is None or to_store is None:
        return to_seal or to_store
    return lambda: (to_store if state.shelf.take_turn() else to_seal)()


RULES: tuple[Rule, ...] = (
    seal_or_store,
    leave.due,
    lost.due,
    merge.due,
    tidy.due,
    cover.due,
    compact.due,
    tally.due,
)


def look(state: StreamState, everything: bool) -> tuple[Begin | None, bool]:
    """Return the most urgent work of one stream, and whether it evaluates clauses of a tenant.

    The work is None if nothing is due. Then nothing will be due until a part of the stream asks for attention.
    """
    for due in RULES:
        begin = due(state, everything)
        if begin is not None:
            return begin, due is cover.due
    state.clauses.forget_subset()
    return None, False


def overlooked(state: StreamState) -> list[str]:
    """The names of rules that find work. If the stream has not asked for attention, a part has forgotten the call."""
    rules = (due for due in RULES if due(state, False) is not None)
    return [f"{due.__module__.rpartition('.')[2]}.{due.__qualname__}" for due in rules]
