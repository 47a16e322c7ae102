"""Kept answers: the cache of the answers of COMPLETE queries, by query ID. Readers put answers, and find them again.

    reader     find ──> KeptEntry: an immutable value, or the reason why none is kept
               take, release ──> the bytes of an answer under way
               keep ──> takes the place of the former answer; without room, answers that were not used leave
    writer     bound, give_up: kept answers leave first when memory is full;   forget: removed queries

An entry may be dropped at any time: the next invocation evaluates the query, and keeps its answer again. So nothing of
it is in the log. The values have types of `psoup.answer.kept_answers`, which this module does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psoup.aggregates.kept import KeptBytes

_ENTRY_BYTES = 400
"""Approximate bytes of the objects of an entry, without arrays."""
_SHARE = 4
"""The divisor of the limit for one answer: it may take a fourth."""
_SPARE = 8
"""The divisor of the limit for the bytes that are freed in addition to the bytes that are needed."""
_REASONS = 8_192
"""The number of answers that were given up whose reasons are kept. There may be twice as many for a while."""
_COUNTED_ANEW = 1_024
"""The number of changes after which the bytes of all entries are counted again."""


NEWEST = 2**62
"""A sequence after all events."""


@dataclass(slots=True, eq=False)
class GivenUp:
    """The reason why no answer of a query is kept. `time`: when it was given up, microseconds of the clock.

    `invocations`: their number since then. Readers count it without a lock.
    """

    time: int
    why: str
    invocations: int = 0


@dataclass(slots=True, eq=False)
class KeptEntry:
    """The kept answer of a query. `value`: the answer, or a `GivenUp`. `used`: since the last search for room.

    `sequence`: of the snapshot of the answer; 0 for an answer that was given up.
    """

    tenant: str
    value: object
    nbytes: int
    used: bool = True
    sequence: int = 0


class AnswerRoom:
    """The kept answers of all queries, of at most `limit` bytes. Any thread may use it; counts may lag a little.

    `highest`: the limit that the configuration sets. `tenant_bytes`: counts the bytes of each tenant in all caches.
    """

    def __init__(self, highest: int, tenant_bytes: KeptBytes | None = None) -> None:
        self.highest = highest
        self._limit = highest
        self._tenant_bytes = tenant_bytes or KeptBytes()
        self._tenant_bytes.add(self.held_by, self.give_up)
        self._entries: dict[int, KeptEntry] = {}
        self._taken: dict[object, tuple[str, int]] = {}
        """For each reader of an answer that will be kept: the tenant, and the bytes that the reader holds."""
        self._held = self._changes = 0
        self._of_tenant: dict[str, int] = {}
        self.given_up = 0
        """The number of answers that were given up since the start."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def limit(self) -> int:
        """The most bytes of all kept answers now."""
        return self._limit

    @property
    def most_of_one(self) -> int:
        """The most bytes of one kept answer."""
        return self._limit // _SHARE

    @property
    def held(self) -> int:
        """Bytes of all kept answers. O(1)."""
        return self._held

    @property
    def taken(self) -> int:
        """Bytes of answers under way that their readers hold, to be kept at the end. O(readers that hold some)."""
        return sum([size for _, size in list(self._taken.values())])

    def held_by(self, tenant: str) -> int:
        """Bytes of the kept answers of one tenant. O(1)."""
        return self._of_tenant.get(tenant, 0)

    @property
    def answers(self) -> int:
        """The number of kept answers, without those that were given up. O(entries)."""
        return sum(not isinstance(entry.value, GivenUp) for entry in list(self._entries.values()))

    @property
    def is_roomy(self) -> bool:
        """Whether an answer may be added before a client asks for it: an eighth of the limit is free. O(1)."""
        return self._held < self._limit - self._limit // _SPARE

    def bound(self, limit: int) -> None:
        """Set the limit, at most `highest`. Entries above a lower limit stay until `give_up`."""
        self._limit = min(max(limit, 0), self.highest)

    def find(self, query_id: int) -> KeptEntry | None:
        """The entry of a query, or None. Marks it as used. O(1)."""
        entry = self._entries.get(query_id)
        if entry is not None:
            entry.used = True
        return entry

    def look(self, query_id: int) -> KeptEntry | None:
        """The entry of a query, or None. Does not count as a use. O(1)."""
        return self._entries.get(query_id)

    def keep(
        self, query_id: int, tenant: str, value: object, size: int, *, sequence: int = 0, by_client: bool = True
    ) -> str:
        """Keep an answer of `size` bytes in place of the former one. Returns "", or the reason why there is no room.

        Without room, unused answers leave. If the quota of the tenant is reached, only its answers leave. Otherwise
        tenants with more than an equal share lose answers first. An answer of a newer snapshot stays. O(1), amortised.

        `sequence`: of the snapshot. `by_client`: whether a client asked. Then the answer counts as used; else it counts
        as the former one does.
        """
        size += _ENTRY_BYTES
        if size > self.most_of_one:
            return f"it takes {size:,} bytes, and one kept answer may take {self.most_of_one:,}"
        before = self._entries.get(query_id)
        if before is not None and before.sequence > sequence:
            return ""
        why = self._make_room(query_id, tenant, size)
        if not why:
            used = by_client or (before is not None and before.used)
            self._put(query_id, KeptEntry(tenant, value, size, used, sequence))
        return why

    def refuse(self, query_id: int, tenant: str, now: int, why: str, *, sequence: int = NEWEST) -> None:
        """Give up the answer of a query at the time `now` (microseconds), for the reason `why`. O(1), amortised.

        An answer of a newer snapshot stays. `sequence`: of the reader's snapshot. The oldest of very many reasons are
        forgotten: the next invocation may keep the answer.
        """
        before = self._entries.get(query_id)
        if before is not None and before.sequence > sequence:
            return
        self.given_up += 1
        self._put(query_id, KeptEntry(tenant, GivenUp(now, why), _ENTRY_BYTES))
        if not self.given_up % _REASONS:
            reasons = [query for query, entry in list(self._entries.items()) if isinstance(entry.value, GivenUp)]
            self.forget(reasons[:-_REASONS])

    def take(self, reader: object, tenant: str, size: int) -> bool:
        """Whether a reader may hold `size` bytes of an answer until all of it is read. O(readers that hold some).

        All readers of a tenant may hold the most bytes of one answer, and all readers twice as much.
        """
        self._taken[reader] = (tenant, size)
        taken = list(self._taken.values())
        of_tenant = sum([taken_bytes for holder, taken_bytes in taken if holder == tenant])
        if of_tenant <= self.most_of_one and sum([taken_bytes for _, taken_bytes in taken]) <= 2 * self.most_of_one:
            return True
        self.release(reader)
        return False

    def refused_size(self, size: int) -> int:
        """At least `size`, and more than one kept answer may take under any limit."""
        return max(size, self.highest // _SHARE + 1)

    def release(self, reader: object) -> None:
        """Note that a reader holds nothing more; idempotent."""
        self._taken.pop(reader, None)

    def drop(self, query_id: int) -> int:
        """Drop the entry of a query. Returns the bytes freed. O(1)."""
        entry = self._entries.pop(query_id, None)
        if entry is None:
            return 0
        self._grow(entry.tenant, -entry.nbytes)
        return entry.nbytes

    def forget(self, query_ids: Iterable[int]) -> None:
        """Drop the entries of queries that were removed, or that are kept otherwise now. O(k), or O(1) if empty."""
        if self._entries:
            for query_id in query_ids:
                self.drop(int(query_id))

    def give_up(self, wanted: int, tenant: str | None = None) -> int:
        """Drop answers, of `tenant` if given, until `wanted` bytes are free. Returns the bytes freed.

        Answers that were put first leave first.
        """
        freed = 0
        for query_id, entry in list(self._entries.items()) if wanted > 0 else ():
            if freed >= wanted:
                break
            if tenant is None or entry.tenant == tenant:
                freed += self.drop(query_id)
        return freed

    def _put(self, query_id: int, entry: KeptEntry) -> None:
        before = self._entries.pop(query_id, None)  # so that entries stand in the order in which they were put
        self._entries[query_id] = entry
        self._grow(entry.tenant, entry.nbytes - (0 if before is None else before.nbytes))

    def _grow(self, tenant: str, size: int) -> None:
        """Add `size` bytes to the counts of the room and of the tenant."""
        self._held += size
        self._of_tenant[tenant] = self._of_tenant.get(tenant, 0) + size
        self._changes += 1
        if not self._changes % _COUNTED_ANEW:
            self._count()

    def _count(self) -> None:
        """Count the bytes of all entries again, as two threads may have miscounted them. O(entries)."""
        of_tenant = dict[str, int]()
        for entry in list(self._entries.values()):
            of_tenant[entry.tenant] = of_tenant.get(entry.tenant, 0) + entry.nbytes
        self._held, self._of_tenant = sum(of_tenant.values()), of_tenant

    def _make_room(self, query_id: int, tenant: str, size: int) -> str:
        """Drop answers so that one of `size` bytes of a query fits. Returns "", or the reason why it does not fit."""
        before = self._entries.get(query_id)
        more = size - (0 if before is None else before.nbytes)
        lacking = more - self._tenant_bytes.free(tenant) if more > 0 else 0
        if lacking > 0:
            of_tenant = self.held_by(tenant)
            wanted, limits = lacking + of_tenant // _SPARE, {tenant: of_tenant}
            if of_tenant < lacking or self._drop_unused(wanted, query_id, limits) < lacking:
                return f"it takes {size:,} bytes, and the quota kept_bytes of the tenant leaves no room for it"
        over = self._held + more - self._limit
        if more > 0 and over > 0:
            idle = [query for query, entry in list(self._entries.items()) if not entry.used and query != query_id]
            above = self._above_shares(tenant, more)
            freed = self._drop_unused(over + self._limit // _SPARE, query_id, above, all_used=False)
            for query in idle:
                freed += self.drop(query) if freed < over else 0
            if freed < over:
                return f"it takes {size:,} bytes, and kept answers fill the {self._limit:,} bytes that they may take"
        return ""

    def _above_shares(self, tenant: str, more: int) -> dict[str, int]:
        """The bytes that may leave of each tenant above an equal share of the limit, if `tenant` had `more` bytes.

        They are those above the share, and an eighth of the share: so the next answer finds room without a search.
        O(entries).
        """
        self._count()
        sizes = dict(self._of_tenant)
        sizes[tenant] = sizes.get(tenant, 0) + more
        share = self._limit // len(sizes)
        return {name: size - share + share // _SPARE for name, size in sizes.items() if size > share}

    def _drop_unused(self, wanted: int, but: int, limits: dict[str, int], all_used: bool = True) -> int:
        """Drop answers until `wanted` bytes are free, answers that were not used since the last call first.

        `limits`: drop answers of these tenants only, until so many bytes of each are free; it is changed. `all_used`:
        the answers of other tenants keep their mark of use. `but`: a query whose answer stays. Returns the bytes freed.
        """
        freed = 0
        for query_id in 2 * list(self._entries):  # twice: the first pass only clears the mark of used answers
            entry = self._entries.get(query_id)
            if freed >= wanted:
                break
            if entry is None or query_id == but or (all_used and entry.tenant not in limits):
                continue
            if entry.used:
                entry.used = False
            elif limits.get(entry.tenant, 0) > 0:
                limits[entry.tenant] -= entry.nbytes
                freed += self.drop(query_id)
        return freed
