"""Indexes of idle clauses, and of clauses that have not met a chunk. A reader leaves them for the next one.

    clauses 7 … 16,390 ──> index        used again by each reader that asks for exactly these clauses
    clauses 16,391 …   ──> index

A clause never changes, and its SQC ID belongs to no other clause. So an index is right whatever was published since.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.clauses.sides import Subset
from psoup.model import Schema
from psoup.published.paged_map import PagedMap
from psoup.published.records import ClauseRecord
from psoup.values.columns import Array

_KEPT_BYTES = 1 << 26
"""The most bytes of the indexes of one stream."""


class _Kept(NamedTuple):
    """An index of the clauses `ids` over tuples of a schema, as a subset."""

    schema: Schema
    ids: Array
    subset: Subset


class KeptIndexes:
    """The indexes of one stream; see the module. Any thread may use it: each change is a single atomic step."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], _Kept] = {}
        """By the first clause and the number of clauses. The index that was used last comes last."""

    def of(self, schema: Schema, ids: Array) -> Subset | None:
        """The index of exactly these clauses (SQC IDs, int64[k], ascending), or None. For one thread. O(k)."""
        name = int(ids[0]), len(ids)
        entry = self._kept.pop(name, None)
        if entry is None:
            return None
        self._kept[name] = entry
        if entry.schema is not schema or not np.array_equal(entry.ids, ids):
            return None
        return entry.subset.twin()

    def keep(self, schema: Schema, ids: Array, index: Subset, clauses: PagedMap[ClauseRecord]) -> None:
        """Keep an index, in place of those that were used least recently, if it is not too large. O(indexes).

        `clauses`: all clauses. Indexes whose first clause is gone are dropped.
        """
        for name in list(self._kept):
            if name[0] not in clauses:
                self._kept.pop(name, None)
        if index.nbytes + ids.nbytes > _KEPT_BYTES:
            return
        self._kept[int(ids[0]), len(ids)] = _Kept(schema, ids, index.twin())
        while self.nbytes > _KEPT_BYTES:
            for name in list(self._kept)[:1]:
                self._kept.pop(name, None)

    @property
    def nbytes(self) -> int:
        """Bytes of all indexes."""
        return sum(entry.subset.nbytes + entry.ids.nbytes for entry in list(self._kept.values()))
