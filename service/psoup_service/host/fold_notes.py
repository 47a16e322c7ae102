"""Notes for the next process on work that is done ahead: the work under way, and the queries left out.

    run 1     the fold of query 12 begins: noted      killed, out of memory: nothing was raised
    start 1   the same query, for the second time     killed
    start 2   the same query: not folded ahead; noted for later starts, and logged

First updates of eager answers have notes of the same form, with other names. Covering old tuples has a separate note
(`precautions`), because all three run at the same time. After the operator has
changed the budgets, the service tries again to fold a query that it left out. No answer depends on these notes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from psoup.execution.ahead.attempts import Work
from psoup_service.host.ids import Ids
from psoup_storage.contract import Store

FOLDING = "folding"
"""The name of the note on the fold under way."""
LEFT_OUT = "not-folded"
"""The name of the note on the folds that are left out."""
UPDATING = "updating"
"""The name of the note on the first update of an eager answer that is under way."""
NOT_UPDATED = "not-updated"
"""The name of the note on the eager answers that are left out."""
_MOST_ENDS = 2
"""A fold is left out after so many processes have ended during it."""


@dataclass(frozen=True, slots=True)
class FoldMark:
    """A query that is folded ahead, and the number of processes that have begun it, this one included."""

    query_id: int
    times: int

    def to_text(self) -> str:
        """The mark as one line of JSON."""
        return json.dumps({"query": self.query_id, "times": self.times}, separators=(",", ":"))


class FoldNotes:
    """The notes of one service, for one thread at a time. `budgets`: the operator's settings, in MiB, as a text.

    `under_way`: the name of the note about the work under way. `left_out`: of the note about queries that are left out.
    """

    def __init__(self, store: Store, budgets: str, under_way: str = FOLDING, left_out: str = LEFT_OUT) -> None:
        self._store = store
        self._names = under_way, left_out
        self._ids = Ids(store.incarnation)
        self._budgets = budgets
        self._before = read_fold_mark(store.noted(under_way))
        self._left_out = _read_left_out(store.noted(left_out), budgets)

    def name_of(self, work: Work) -> str:
        """The query of a fold, as clients name it."""
        return self._ids.query(work.query_id)

    def begin(self, work: Work) -> bool:
        """Note the next fold. Returns False if two processes have ended during a fold of its query."""
        query, before, (under_way, left_out) = work.query_id, self._before, self._names
        if query in self._left_out:
            return False
        times = before.times + 1 if before is not None and before.query_id == query else 1
        if times > _MOST_ENDS:
            self._before = None
            self._left_out.add(query)
            facts = {"budgets": self._budgets, "queries": sorted(self._left_out)}
            self._store.note(left_out, json.dumps(facts, separators=(",", ":")))
            self._store.note(under_way, "")
            return False
        self._store.note(under_way, FoldMark(query, times).to_text())
        return True

    def end(self) -> None:
        """Remove the note: the fold has not ended the process."""
        self._store.note(self._names[0], "")


def read_fold_mark(text: str) -> FoldMark | None:
    """The fold that an earlier process was making when it ended; None if it ended otherwise."""
    try:
        facts = json.loads(text)
        return FoldMark(int(facts["query"]), int(facts["times"]))
    except (ValueError, KeyError, TypeError):
        return None


def _read_left_out(text: str, budgets: str) -> set[int]:
    """The queries that are left out; none if the note is of other budgets."""
    try:
        facts = json.loads(text)
        return {int(query) for query in facts["queries"]} if facts["budgets"] == budgets else set()
    except (ValueError, KeyError, TypeError):
        return set()
