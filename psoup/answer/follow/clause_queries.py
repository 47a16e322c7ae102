"""The queries of clauses that a follower is told, clause after clause, as of the queries of one snapshot.

    clause    7   9   12                    starts  0 2 2      sizes  2 0 1
    queries   3 8     5                     told    the queries 3, 8 and 5, with the tuples for which each is told

Clauses that a page meets for the first time are added. A clause stays for later pages until queries come or go.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from psoup.answer.follow.told import NEVER, ToldQueries, told_queries
from psoup.plan.sides import FIRST_SIDE
from psoup.published.members import Members, since
from psoup.published.record_block import picked
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

_NONE: Array = np.zeros(0, np.int64)
_NOTHING = ToldQueries(_NONE, _NONE, _NONE, _NONE, _NONE)


class QueriesOf(NamedTuple):
    """The queries of some clauses: of each those at the places in `told` from its start on, int64[k] each."""

    facts: ToldQueries
    starts: Array
    sizes: Array


class ClauseQueries:
    """The queries of clauses; see the module. `only`: the wanted queries, int64[k] ascending; None: all of them.

    `named`: as for `told_queries`.
    `complete`: whether the `clauses` are all that are wanted. Then no further clause is added.
    """

    def __init__(self, *, old: bool, only: Array | None = None, named: Array = _NONE) -> None:
        self._old = old
        self._only = only
        self._named = named
        self.clauses: Array = _NONE
        """The SQC IDs of the known clauses, ascending."""
        self.note: object = None
        """A fact about the clauses that the owner of the catalog keeps here."""
        self._starts: Array = _NONE
        self._sizes: Array = _NONE
        self._facts = _NOTHING

    @classmethod
    def all_of(cls, facts: ToldQueries) -> ClauseQueries:
        """The clauses of some queries."""
        made = cls(old=False)
        order = np.argsort(facts.sqc_ids, kind="stable")
        made._facts = facts.of(order)
        made.clauses, made._starts, made._sizes = np.unique(facts.sqc_ids[order], return_index=True, return_counts=True)
        return made

    @property
    def count(self) -> int:
        """The number of known queries."""
        return len(self._facts.ids)

    def of(self, snapshot: Snapshot, view: StreamView, clauses: Array) -> QueriesOf:
        """The queries of some clauses (int64[k], ascending). O(k log n), and O(queries) for clauses that are new."""
        new = np.setdiff1d(clauses, self.clauses, assume_unique=True)
        if len(new):
            self._add(snapshot, view, new)
        places = np.searchsorted(self.clauses, clauses)
        return QueriesOf(self._facts, self._starts[places], self._sizes[places])

    def _add(self, snapshot: Snapshot, view: StreamView, new: Array) -> None:
        owners, queries = _members(snapshot, new)
        ids = np.unique(queries)
        facts = told_queries(snapshot, view, ids, old=self._old, named=self._named)
        wanted = facts.first != NEVER
        if self._only is not None:
            wanted &= np.isin(ids, self._only)
        rows = np.searchsorted(ids, queries)
        owners, rows = owners[wanted[rows]], rows[wanted[rows]]
        order = np.argsort(owners, kind="stable")
        sizes = np.bincount(np.searchsorted(new, owners), minlength=len(new))
        starts = self.count + np.cumsum(sizes) - sizes
        at = np.searchsorted(self.clauses, new)
        self.clauses = np.insert(self.clauses, at, new)
        self._starts, self._sizes = np.insert(self._starts, at, starts), np.insert(self._sizes, at, sizes)
        more = facts.of(rows[order])
        self._facts = ToldQueries(*(np.concatenate(pair) for pair in zip(self._facts, more, strict=True)))


def joined_queries(every: Sequence[ClauseQueries]) -> tuple[QueriesOf, Array]:
    """The queries of all known clauses of some catalogs, catalog after catalog, and the catalog of each clause."""
    offsets = np.cumsum([0, *(catalog.count for catalog in every)])
    counts = [len(catalog.clauses) for catalog in every]
    columns = zip(*(catalog._facts for catalog in every), strict=True)
    facts = ToldQueries(*(np.concatenate(column) for column in columns))
    starts = np.concatenate([catalog._starts for catalog in every]) + np.repeat(offsets[:-1], counts)
    sizes = np.concatenate([catalog._sizes for catalog in every])
    return QueriesOf(facts, starts, sizes), np.repeat(np.arange(len(every)), counts)


def _of_clause(members: Members) -> Sequence[int]:
    """The queries of a clause, possibly with sides of joins."""
    return members if isinstance(members, tuple) else [*since(members, 0)]


def _members(snapshot: Snapshot, clauses: Array) -> tuple[Array, Array]:
    """Pairs of a clause and one of its queries, without the sides of joins: int64[n] each.

    A step of Python for each clause outside blocks.
    """
    lookup = snapshot.clauses.find(clauses)
    owners, queries = [_NONE], [_NONE]
    for block, at in lookup.blocks:
        owners.append(picked(block.ids, at))
        queries.append(picked(block.members, at))
    records = lookup.records.values()
    several = [_of_clause(record.members) for record in records]
    owners.append(np.repeat(np.array([*lookup.records], np.int64), [*map(len, several)]))
    queries.append(np.fromiter(chain.from_iterable(several), np.int64))
    of_queries, ids = np.concatenate(owners).astype(np.int64), np.concatenate(queries)
    return of_queries[ids < FIRST_SIDE], ids[ids < FIRST_SIDE]
