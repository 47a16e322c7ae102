"""Refusals of folds that a background task wanted to make ahead of readers. Each stays until an attempt may succeed.

    clause 12, count(*) BY k    wanted 64 MB, 16 MB were free    ─> EXPLAIN shows the refusal
    next attempt                after a start, for an altered stream, or with 128 MB free

The caches of folds and of packs have a list of refusals each. A refused fold changes no answer, as the reader makes it
within its own budget.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import NamedTuple

from psoup.work.read_budget import NO_LIMIT

_ROOM = 2
"""The next attempt needs this many times the bytes that the refused attempt asked for."""


class FoldRefusal(NamedTuple):
    """The refusal of a fold. `why`: the reason, for the operator. `spec`: the stream's definition at that time.

    `wanted`: the bytes that the attempt asked for; NO_LIMIT if more memory would not help. `since`: the number of the
    first chunk whose fold was refused.
    """

    why: str
    wanted: int
    spec: object
    since: int

    def is_over(self, spec: object, room: int) -> bool:
        """Whether a new attempt may succeed. `spec`: the stream's definition now. `room`: the bytes it may take."""
        return self.spec != spec or (self.wanted < NO_LIMIT and room >= _ROOM * self.wanted)


class FoldRefusals:
    """The present refusals, by a key such as (SQC ID, recipe). Any thread may read; one thread writes."""

    def __init__(self) -> None:
        self._known: dict[Hashable, FoldRefusal] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: Hashable) -> FoldRefusal | None:
        """The refusal of a fold, or None. O(1)."""
        return self._known.get(key)

    def note(self, key: Hashable, refusal: FoldRefusal) -> None:
        """Record a refusal. Repeated refusals keep the greatest number of bytes and the earliest chunk. O(1)."""
        before = self._known.get(key)
        if before is not None and before.spec == refusal.spec:
            wanted, since = max(before.wanted, refusal.wanted), min(before.since, refusal.since)
            refusal = refusal._replace(wanted=wanted, since=since)
        self._known[key] = refusal

    def forget(self, key: Hashable) -> None:
        """Remove a refusal after its fold was made. O(1)."""
        self._known.pop(key, None)

    def keep(self, keys: Collection[Hashable]) -> None:
        """Remove all refusals except for `keys`. O(refusals)."""
        for key in [key for key in self._known if key not in keys]:
            del self._known[key]
