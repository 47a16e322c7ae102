"""AUTO queries: what readers and rounds note about each, in columns. The service chooses their amounts.

    writer     add, remove ──> changes ─┐
    round      take_in ─────────────────┴> rows, ascending by query ID        every 10 s (`psoup.answer.automatic`)
    readers    note: one more invocation, and what it looked at               without a lock; a count may be lost
    host       AmountChoice ──install──> the writer changes the queries; the choice is in no event

A round takes in the queries that came since the last one, so their first invocations may not be counted. Nothing of it
is in the log: after a start, each AUTO query begins with PARTIAL, and without observations.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.invariants import ensure
from psoup.plan.amounts import Amount
from psoup.published.pair_room import PairRoom
from psoup.values.columns import Array

_ROW = np.dtype(
    [
        ("since", "i8"),
        ("copied_at", "i8"),
        ("asked", "u4"),
        ("window", "f4"),
        ("matches", "f4"),
        ("rate", "f4"),
        ("before", "f4", 2),
        ("arrivals", "f4"),
        ("work", "f4"),
        ("costs", "f4", 4),
        ("density", "f4"),
        ("streak", "u1"),
        ("wanted", "u1"),
        ("form", "u1"),
        ("dear", "?"),
        ("copied", "?"),
        ("counted", "?"),
    ]
)
"""The columns of a query; see `AutoRows`."""

NEVER = -(2**62)
"""The time of what has not happened."""
_NONE: Array = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class AmountChoice:
    """The choice of an amount for some AUTO queries. The writer installs it.

    `dear`: whether they took too much of the writer's time. They then stay as they are until the next start. `time`: of
    such a choice, microseconds. `pairs`: with PARTIAL, whether the pairs of those that are joins are kept.
    """

    amount: Amount
    query_ids: Array
    """int64[k], ascending."""
    dear: bool = False
    time: int = 0
    pairs: bool = False


class AutoRows:
    """The AUTO queries `ids` (int64[n], ascending), and their columns.

    `since`: the time of the present choice, microseconds. `asked`: invocations since the last round. `window`: tuples
    in the window of the last invocation. `matches`: the matches among them. `form`: of the answer, a number
    of `psoup.answer.automatic`. `rate`: invocations in a second. `before`: the invocations of the two rounds before.
    `arrivals`: tuples in a second. `work`: seconds of the writer for each of them, NaN if unknown.

    `costs`: seconds of a processor in a second, for each choice of `psoup.answer.automatic`. `streak`: successive
    rounds in which the choice at the place `wanted` was better. `dear`: see AmountChoice. `copied`: whether a copy or a
    watch has asked for changes since the last round. `copied_at`: the time of the last such round.

    `density`: the pairs of a join, divided by the squared number of tuples in its windows. NaN if unknown. It is an
    estimate from the last answer, or `counted` in the kept pairs.
    """

    __slots__ = ("_first", "columns", "ids")

    def __init__(self, ids: Array = _NONE, columns: Array | None = None) -> None:
        self.ids = ids
        self._first = int(ids[0]) if len(ids) else 0
        self.columns: Array = np.zeros(len(ids), _ROW) if columns is None else columns

    def __getitem__(self, name: str) -> Array:
        """A column, which may be changed in place."""
        column: Array = self.columns[name]
        return column

    def __setitem__(self, name: str, values: Array) -> None:
        self.columns[name] = values

    @property
    def pairs(self) -> Array:
        """The pairs between all tuples of the windows, float64[n], NaN if unknown. O(n)."""
        pairs: Array = self["density"].astype(np.float64) * self["window"].astype(np.float64) ** 2
        return pairs

    def place(self, query_id: int) -> int:
        """The place of a query, or -1. O(log n), or O(1) if the IDs up to it are consecutive."""
        ids, at = self.ids, query_id - self._first
        if 0 <= at < len(ids) and ids.item(at) == query_id:
            return at
        at = int(ids.searchsorted(query_id))
        return at if at < len(ids) and ids.item(at) == query_id else -1

    def places(self, query_ids: Array) -> tuple[Array, Array]:
        """The places of those queries (int64[k]) that are here, and flags, bool[k], of these."""
        at = np.searchsorted(self.ids, query_ids)
        at[at == len(self.ids)] = 0
        here: Array = self.ids[at] == query_ids if len(self.ids) else np.zeros(len(query_ids), np.bool_)
        return at[here], here


class AutomaticAmounts:
    """The AUTO queries of an engine; see the module."""

    def __init__(self, pair_room: PairRoom | None = None) -> None:
        """`pair_room`: the memory of all kept pairs."""
        self.rows = AutoRows()
        self.pair_room = pair_room or PairRoom(0)
        self._changes = deque[tuple[bool, Array]]()
        """Queries that came (True) or went since the last `take_in`."""
        self._followed = set[int]()
        self.switches = Counter[Amount]()
        """The number of queries that got each amount by a choice since the start. A choice of PARTIAL also counts if it
        only changes whether pairs are kept."""
        self.installed_s = 0.0
        """Seconds of the writer for choices since the start."""

    def __bool__(self) -> bool:
        return bool(len(self.rows.ids) or self._changes)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return self.rows.ids.nbytes + self.rows.columns.nbytes

    # The writer --------------------------------------------------------------------------------------------------

    def add(self, query_ids: Array) -> None:
        """Add queries (int64[k], ascending) that are AUTO from now on. O(1)."""
        self._changes.append((True, query_ids))

    def remove(self, query_ids: Array | Sequence[int]) -> None:
        """Remove queries that are not registered any more, or not AUTO. O(1)."""
        if self and len(query_ids):
            self._changes.append((False, np.asarray(query_ids, np.int64)))

    def note_dear(self, choice: AmountChoice) -> None:
        """Note that the queries of a choice stay as they are until the next start. O(k log n)."""
        rows = self.rows
        at, _ = rows.places(choice.query_ids)
        rows["dear"][at], rows["since"][at] = True, choice.time

    def note_installed(self, amount: Amount, changed: int, seconds: float) -> None:
        """Note a choice that was installed: the number of queries that changed, and the writer's time."""
        self.switches[amount] += changed
        self.installed_s += seconds

    # Readers -----------------------------------------------------------------------------------------------------

    def note(self, query_id: int, window: int, matches: int, form: int) -> None:
        """Note an invocation; see `AutoRows`. O(log n), from any thread."""
        rows = self.rows
        at = rows.place(query_id)
        if at >= 0 and window:
            columns = rows.columns
            columns["asked"][at] += 1
            columns["window"][at], columns["matches"][at], columns["form"][at] = window, matches, form

    def note_pairs(self, query_id: int, pairs: float) -> None:
        """Note the pairs between all tuples of a join's windows, as the last answer lets expect. O(log n).

        They are unused once pairs were counted.
        """
        rows = self.rows
        at = rows.place(query_id)
        if at >= 0 and not rows.columns["counted"][at]:
            rows.columns["density"][at] = pairs / max(float(rows.columns["window"][at]), 1) ** 2

    def take_back(self, query_id: int) -> None:
        """Take back the note of an invocation whose answer was not sent, or was a further page.

        O(log n); nothing if the query is not AUTO.
        """
        rows = self.rows
        at = rows.place(query_id) if len(rows.ids) else -1
        if at >= 0 and rows.columns["asked"][at]:
            rows.columns["asked"][at] -= 1

    def note_all(self, query_ids: Array, window: int, form: int) -> None:
        """Note an invocation of each of some queries (int64[k]) over windows of `window` tuples. O(k log n)."""
        rows = self.rows
        at, _ = rows.places(query_ids)
        rows["asked"][at] += 1
        rows["window"][at] = window
        rows["form"][at] = form

    def note_copied(self, query_id: int) -> None:
        """Note that a copy or a watch of a query has asked for changes. O(log n); nothing if the query is not AUTO."""
        rows = self.rows
        at = rows.place(query_id) if len(rows.ids) else -1
        if at >= 0:
            rows["copied"][at] = True

    def note_followed(self, stream_id: int) -> None:
        """Note that a follower was told matches of a stream. O(1); nothing if there are no AUTO queries."""
        if self:
            self._followed.add(stream_id)

    # A round -----------------------------------------------------------------------------------------------------

    def take_in(self, now: int) -> AutoRows:
        """Take in the queries that came and went, at the time `now` (microseconds). One thread at a time.

        O(n + k log k) if k queries came or went, and a step of Python for each event.
        """
        rows = self.rows
        changes = [self._changes.popleft() for _ in range(len(self._changes))]
        if changes:
            ids = np.concatenate([ids for _, ids in changes])
            adds = np.repeat([adds for adds, _ in changes], [len(ids) for _, ids in changes])
            changed, from_end = np.unique(ids[::-1], return_index=True)  # the last change of each query counts
            came = changed[adds[::-1][from_end]]
            stay = ~np.isin(rows.ids, changed)  # a query that is AUTO anew begins anew
            added = AutoRows(came)
            added["since"][:], added["copied_at"][:] = now, NEVER
            added["work"][:] = added["density"][:] = np.nan
            ids = np.concatenate([rows.ids[stay], came])
            columns = np.concatenate([rows.columns[stay], added.columns])
            order = np.argsort(ids)
            self.rows = rows = AutoRows(ids[order], columns[order])
        return rows

    def take_followed(self) -> frozenset[int]:
        """The streams whose matches followers were told since the last call."""
        followed, self._followed = self._followed, set[int]()
        return frozenset(followed)

    def check(self, auto: Sequence[int]) -> None:
        """Check that the AUTO queries (ascending) are known. Raises Corrupt."""
        ids_here = self.rows.ids
        for adds, ids in [*self._changes]:
            ids_here = np.union1d(ids_here, ids) if adds else np.setdiff1d(ids_here, ids)
        missing = np.setdiff1d(np.array(auto, np.int64), ids_here)
        ensure(not len(missing), self, "AUTO queries are not known", queries=missing)
