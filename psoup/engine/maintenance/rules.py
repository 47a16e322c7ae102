"""The rules of maintenance: work that keeps structures small and answers ready, and changes no answer.

    seal     the open results of a full chunk become a pack, and its columns are made ready to be searched
    store    a closed chunk goes to the store, through a port; from then on the log may forget its tuples
    leave    what was folded of chunks that left the memory goes to the disk
    merge    the recent clauses' index goes into the main one
    tidy     the open results forget clauses that are gone, and their slots become free
    cover    clauses born after a chunk was closed are evaluated over it (new queries, old data)
    compact  packs forget clauses that are gone
    tally    costs of queries that were counted in gone chunks and indexes are summed up by clause
    pair     pairs of joins are found that are kept: of two streams, so the engine asks for it after all rules

The first rule of `RULES` that finds work wins. Each is a file here, with its task and the code that installs it.
Tenants take turns in `cover` and `pair` (`psoup.engine.maintenance.agenda`).
"""

from __future__ import annotations

from psoup.engine.maintenance import compact, cover, leave, merge, seal, store, tally, tidy
from psoup.engine.maintenance.task import Begin, Rule
from psoup.engine.stream.state import StreamState


def seal_or_store(state: StreamState, everything: bool) -> Begin | None:
    """Take turns while both are due: the memory grows with unsealed chunks, the log with unstored ones."""
    to_seal, to_store = seal.due(state, everything), store.due(state, everything)
    if to_seal is None or to_store is None:
        return to_seal or to_store
    return lambda: (to_store if state.shelf.take_turn() else to_seal)()


RULES: tuple[Rule, ...] = (
    seal_or_store,
    leave.due,
    merge.due,
    tidy.due,
    cover.due,
    compact.due,
    tally.due,
)


def look(state: StreamState, everything: bool) -> tuple[Begin | None, bool]:
    """Return the most urgent work of one stream, and whether it evaluates clauses of a tenant.

    None: nothing is due until a part of the stream calls for attention.
    """
    for due in RULES:
        begin = due(state, everything)
        if begin is not None:
            return begin, due is cover.due
    state.clauses.forget_subset()
    return None, False


def overlooked(state: StreamState) -> list[str]:
    """Name the rules that find work. If the stream does not call for attention, one of its parts forgot to tell."""
    rules = (due for due in RULES if due(state, False) is not None)
    return [f"{due.__module__.rpartition('.')[2]}.{due.__qualname__}" for due in rules]
