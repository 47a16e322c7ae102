"""Reasons of removed queries: the latest 65,536 replacements (from an old ID to a new one), and expirations.

    earlier   [  4   9  12   9 … ]      the query that was replaced
    later     [  7  12  15  16 … ]      the query in its place: ascending, as IDs are assigned in order

The writer only appends pairs, to arrays with spare room. So the views that `freeze` returns never change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from psoup.errors import NotFound
from psoup.invariants import ensure
from psoup.values.columns import Array

KEPT_REPLACEMENTS = 65_536
"""The most replacements of a tenant that are kept."""

_LEAST = 16
_STEPS = 64
"""The most replacements that `Successors.of` follows from one query. A pass over all pairs takes some 20
microseconds.
"""


@dataclass(frozen=True, slots=True)
class Successors:
    """Replacements up to some event: query `later[i]` replaced query `earlier[i]`. int64[n] each."""

    earlier: Array
    later: Array

    def of(self, query_id: int) -> int:
        """The last query in the chain of replacements of a query; 0 if no query replaced it. O(n) for each step, at
        most 64 steps.
        """
        last = 0
        for _ in range(_STEPS):
            places = np.flatnonzero(self.earlier == query_id)
            if not len(places):
                break
            last = query_id = int(self.later[places[-1]])
        return last


_NONE: Array = np.zeros(0, np.int64)
NO_SUCCESSORS = Successors(_NONE, _NONE)


class Latest:
    """The latest pairs of query IDs that were added. `limit`: the most pairs to keep."""

    def __init__(self, limit: int = KEPT_REPLACEMENTS) -> None:
        self._kept = limit
        self._pairs: Array = np.zeros((2, _LEAST), np.int64)
        self._start = self._end = 0

    def add(self, earlier: Array, later: Array) -> None:
        """Add pairs (int64[n] each). O(n), amortised."""
        count = len(earlier)
        if self._end + count > self._pairs.shape[1]:
            start = max(self._start, self._end - self._kept)
            remaining = self._pairs[:, start : self._end]
            self._pairs = np.zeros((2, 2 * (remaining.shape[1] + count)), np.int64)
            self._pairs[:, : remaining.shape[1]] = remaining
            self._start = 0
            self._end = remaining.shape[1]
        self._pairs[0, self._end : self._end + count] = earlier
        self._pairs[1, self._end : self._end + count] = later
        self._end += count
        self._start = max(self._start, self._end - self._kept)

    def freeze(self) -> Successors:
        """The pairs that are kept now, as an immutable view. O(1)."""
        earlier, later = self._pairs[:, self._start : self._end]
        return Successors(earlier, later)

    def items(self) -> Iterator[tuple[int, int]]:
        """Yield the kept pairs (earlier, later), the oldest first."""
        frozen = self.freeze()
        yield from zip(frozen.earlier.tolist(), frozen.later.tolist(), strict=True)


class Succession(Latest):
    """The latest replacements of one tenant, in the order of the later queries."""

    def check(self) -> None:
        """Check that the newer query of each pair has the greater ID, and that the newer queries ascend."""
        frozen = self.freeze()
        ensure(bool((frozen.earlier < frozen.later).all()), self, "a query is replaced by an older one")
        ensure(bool((np.diff(frozen.later) > 0).all()), self, "replacements are out of order", later=frozen.later)


@dataclass(frozen=True, slots=True)
class WhyGone:
    """Reasons of removed queries of a tenant: their replacements, or that they have expired."""

    successors: Successors = NO_SUCCESSORS
    expired: Successors = NO_SUCCESSORS

    def error(self, query_id: int) -> NotFound:
        """The error for a query that does not exist."""
        later = self.successors.of(query_id)
        if later:
            return NotFound(
                f"query {query_id} was replaced by query {later}; go on with that one",
                reason="QUERY_REPLACED",
                query=query_id,
                replaced_by=later,
            )
        if bool((self.expired.earlier == query_id).any()):
            return NotFound(
                f"query {query_id} has expired: it was not asked for as long as its expires_after says; register it"
                " again",
                reason="QUERY_EXPIRED",
                query=query_id,
            )
        return NotFound(
            f"there is no query {query_id}; it was never registered, or it was unregistered",
            reason="UNKNOWN_QUERY",
            query=query_id,
        )


NOT_KNOWN = WhyGone()


class Departed:
    """The latest replaced queries of one tenant, and the latest expired ones."""

    def __init__(self) -> None:
        self.replaced = Succession()
        self.expired = Latest()
        """Expired queries, paired with zeros."""

    def note_replaced(self, earlier: Array, later: Array) -> None:
        """Record that the queries `later` replaced the queries `earlier`. int64[n] each."""
        self.replaced.add(earlier, later)

    def note_expired(self, query_ids: Array) -> None:
        """Record that queries (int64[k]) have expired."""
        self.expired.add(query_ids, np.zeros_like(query_ids))

    def freeze(self) -> WhyGone:
        """The reasons as of now, as an immutable view. O(1)."""
        return WhyGone(self.replaced.freeze(), self.expired.freeze())
