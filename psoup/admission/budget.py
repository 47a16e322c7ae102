"""The memory that is promised: tuples by their bytes, queries and producers by what each is expected to take.

    push      tuples + queries + producers + the batch      over the budget: refused, and says what would be needed
    register  tuples + queries + producers + the block      the same
    results   take what is left, and give way   (the engine evicts them: an answer is evaluated when asked for)

A charge is known before there is anything to measure, and is given back as it was taken. The bill
(`psoup.answer.figures.bill`) measures the memory itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from sortedcontainers import SortedDict

from psoup.admission.shared_room import SharedRoom
from psoup.admission.spans import meeting
from psoup.admission.tenants import KnownTenants
from psoup.budgets import MEMORY
from psoup.errors import ResourceExhausted
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.model import StreamSpec
from psoup.plan.standing import StandingQuery
from psoup.sql.templates.block import BoundBlock

ROW_BYTES = 400
"""Bytes of a query made of a template and a row of short values: its columns, its part of index and names."""

FREE_VALUES, VALUES_TIMES = 64, 2
"""Bytes of values of a row that are included, and how often each further byte is kept: as a value, and in the index."""

RETRY_AFTER_MS = 100
"""Milliseconds that a producer is told to wait when the memory is full of tuples that are not on disk yet."""

TEXT_BYTES = 3_000
"""Bytes of a query registered by a text, beside the text itself."""

FREE_INTERVALS, INTERVAL_BYTES = 16, 256
"""Intervals of its WHERE that are included, and bytes of each further interval: a list after IN has thousands."""

ROW_INTERVAL_BYTES = 64
"""Bytes of such an interval in a block, whose intervals are columns of the index."""

JOIN_BYTES = 1_000
"""Bytes of the plan of a join, beside its text and its sides."""

TAG_BYTES = 64
"""Bytes of a key beside its text, and of a label: the runs that find it."""

STREAM_BYTES, COLUMN_BYTES = 32_000, 10_000
"""Bytes of a stream without a tuple, and of each of its columns: buffers of the open chunk, its index of queries."""

_STREAMS_SHARE, _STREAMS_LEAST = 4, 64 * 1024 * 1024
_PRODUCERS_SHARE = 4
"""The part of the budget that what producers sent last may take, where there is more than one tenant."""


@dataclass(slots=True)
class _BlockCharge:
    """Queries of a block that cost more than ROW_BYTES: how many there were, the charge of each, how many stand."""

    count: int
    charge: int
    left: int


_BLOCK_COUNT: Callable[[_BlockCharge], int] = attrgetter("count")


class Budget:
    """The promises. `limit`: bytes; `known`: the tenants that there are. One owner, no threads."""

    def __init__(self, limit: int, known: KnownTenants) -> None:
        self.limit = limit
        self.tuples = 0
        self.queries = 0
        self.producers = SharedRoom(limit // _PRODUCERS_SHARE, known)
        self.streams = SharedRoom(max(limit // _STREAMS_SHARE, _STREAMS_LEAST), known)
        self._charges: dict[int, int] = {}
        """Charges of queries that were registered by a text, by query ID."""
        self._blocks: SortedDict[int, _BlockCharge] = SortedDict()
        """Blocks by their first query ID: only those whose queries are not charged ROW_BYTES."""

    @property
    def used(self) -> int:
        """Bytes of the budget that are promised."""
        return self.tuples + self.queries + self.producers.used

    def check_batch(self, spec: StreamSpec, needed: int) -> None:
        """Raise ResourceExhausted if tuples of `needed` bytes do not fit.

        A stream with an archive is only asked to wait: its older tuples are on their way to the disk.
        """
        if needed and self.used + needed > self.limit:
            waits = spec.retention.archive > 0 and self.used - self.tuples + needed <= self.limit
            raise self._refusal(f"this batch to stream {spec.name!r} needs {needed:,} more", needed, waits)

    def check_queries(self, needed: int, count: int) -> None:
        """Raise ResourceExhausted if `count` queries of `needed` bytes do not fit."""
        if self.used + needed > self.limit:
            some = "this query needs" if count == 1 else f"these {count:,} queries need"
            raise self._refusal(f"{some} about {needed:,} more", needed)

    def check_stream(self, tenant: str, spec: StreamSpec, before: StreamSpec | None = None) -> None:
        """Raise ResourceExhausted if one more stream of a tenant, or more columns than it had `before`, do not fit.

        All may take a quarter of the budget, beside it, and half of that is the tenants' own.
        """
        room, needed = self.streams, stream_charge(spec) - (0 if before is None else stream_charge(before))
        if not room.fits(tenant, needed):
            used, most = room.of(tenant), room.most(tenant)
            raise ResourceExhausted(
                f"streams{_of(room, tenant)} may take {most:,} bytes before they have a tuple{_shared(room, tenant)},"
                f" and take {used:,}; stream {spec.name!r} needs {needed:,} more: drop streams, or {_more(room)}",
                reason="STREAMS_BUDGET",
                needed=needed,
                **MEMORY.over(used, most),
            )

    def full_of_producers(self, tenant: str, needed: int) -> ResourceExhausted | None:
        """The error if a tenant may not have `needed` bytes more of what producers sent last; None if it may. O(1).

        Half of their part of the budget is the tenants' own. A tenant that is alone may take all of the budget.
        """
        room = self.producers
        if room.alone or room.fits(tenant, needed):
            return None
        used, most = room.of(tenant), room.most(tenant)
        return ResourceExhausted(
            f"what producers sent last{_of(room, tenant)} may take {most:,} bytes{_shared(room, tenant)}, and takes"
            f" {used:,}; this batch needs {needed:,} more, and no other producer of the stream has been silent for long"
            f" enough to be forgotten: send from fewer producers, wait, drop streams, or {_more(room)}",
            reason="PRODUCERS_BUDGET",
            needed=needed,
            **MEMORY.over(used, most),
        )

    def adopt(self, event: Registered | RegisteredMany) -> int:
        """Charge the queries of an event; returns how much that is."""
        if isinstance(event, Registered):
            self._charges[event.query_id] = size = text_charge(event.query) + tag_charge(event.tag)
        elif isinstance(event.queries, BoundBlock):
            count, charge = len(event.queries), row_charge(event.queries) + tags_charge(event.tags)
            if charge != ROW_BYTES:
                self._blocks[event.first_id] = _BlockCharge(count, charge, count)
            size = charge * count
        else:
            tags = tags_charge(event.tags)
            charges = [text_charge(query) + tags for query in event.queries]
            self._charges.update(enumerate(charges, event.first_id))
            size = sum(charges)
        self.queries += size
        return size

    def give_back_queries(self, query_ids: Sequence[int]) -> int:
        """Give back the charges of queries (ascending) that are gone, and return them. O(log blocks) for each block."""
        before = self.queries
        charges = [self._charges.pop(query_id) for query_id in query_ids if query_id in self._charges]
        self.queries -= sum(charges) + ROW_BYTES * (len(query_ids) - len(charges))
        for first, block, count in meeting(query_ids, self._blocks, _BLOCK_COUNT):
            self.queries -= count * (block.charge - ROW_BYTES)
            block.left -= count
            if not block.left:
                del self._blocks[first]
        return before - self.queries

    def _refusal(self, wanted: str, needed: int, waits: bool = False) -> ResourceExhausted:
        used, producers, alone = self.used, self.producers.used, self.producers.alone
        some = f", about {producers:,} by what producers sent last" if producers else ""
        taken = f": {self.tuples:,} by tuples, about {self.queries:,} by queries{some}" if alone else " by all tenants"
        facts = MEMORY.over(used, self.limit) | {"would_need": used + needed} if alone else MEMORY.facts(self.limit)
        way = "try again when older tuples are on disk, or " if waits else ""
        return ResourceExhausted(
            f"the memory budget of {self.limit:,} bytes is used up{taken}, and {wanted}; {way}{_more(self.producers)},"
            " drop streams or queries, or lessen a RETENTION",
            reason="MEMORY_BUDGET",
            needed=needed,
            **facts,
            **({"retry_after_ms": RETRY_AFTER_MS} if waits else {}),
        )


def _of(room: SharedRoom, tenant: str) -> str:
    return "" if room.alone else f" of tenant {tenant!r}"


def _shared(room: SharedRoom, tenant: str) -> str:
    """Which part of a room is a tenant's own, in words; nothing if there is one tenant. Nothing of what others hold."""
    return "" if room.alone else f" ({room.own(tenant):,} are its own, the others are for the tenant that comes first)"


def _more(room: SharedRoom) -> str:
    return "raise memory_mib" if room.alone else "ask the service's operator for more (memory_mib)"


def charge_of(event: Registered | RegisteredMany) -> int:
    """Bytes that the queries of an event are charged. O(queries), of a template O(1)."""
    if isinstance(event, Registered):
        return text_charge(event.query) + tag_charge(event.tag)
    return block_charge(event.queries) + tags_charge(event.tags) * len(event.queries)


def block_charge(queries: BoundBlock | Sequence[StandingQuery]) -> int:
    """Bytes that the queries of a block are charged."""
    return row_charge(queries) * len(queries) if isinstance(queries, BoundBlock) else sum(map(text_charge, queries))


def row_charge(block: BoundBlock) -> int:
    """Bytes that each query of a block is charged: values by their mean, lists of the template by those of one row.

    A join is charged for each of its sides.
    """
    if not len(block):
        return ROW_BYTES
    values = -(-block.nbytes // len(block))
    charge, sides = ROW_BYTES + VALUES_TIMES * max(0, values - FREE_VALUES), block.sides
    if sides:
        return charge + sum(row_charge(side) if isinstance(side, BoundBlock) else ROW_BYTES for side in sides)
    return charge + ROW_INTERVAL_BYTES * _further_intervals(block[0])


def tag_charge(tag: Tag) -> int:
    """Bytes that the key and the labels of a query are charged."""
    if tag is NO_TAG:
        return 0
    texts = [tag.key, *(part for label in tag.labels for part in label)]
    return sum(TAG_BYTES + len(text) for text in texts if text)


def tags_charge(tags: TagColumns | None) -> int:
    """Bytes that the keys and labels of each query of a block are charged: by their mean."""
    if tags is None:
        return 0
    columns = len(tags.labels) + (tags.keys is not None)
    return TAG_BYTES * columns + -(-tags.nbytes // max(1, len(tags)))


def text_charge(query: StandingQuery) -> int:
    """Bytes that a query registered by a text is charged; a join its plan, and each side as if it stood alone."""
    if query.sides:
        return JOIN_BYTES + len(query.text) + sum(map(text_charge, query.sides))
    return TEXT_BYTES + len(query.text) + INTERVAL_BYTES * _further_intervals(query)


def _further_intervals(query: StandingQuery) -> int:
    intervals = -FREE_INTERVALS
    for factor in query.factors:  # of each query of a block, while others wait: a sum takes five times as long
        for term in factor.terms:
            intervals += len(term.intervals)
    return max(0, intervals)


def stream_charge(spec: StreamSpec) -> int:
    """Bytes that a stream without tuples is charged: what its columns need before there is a first tuple."""
    return STREAM_BYTES + COLUMN_BYTES * len(spec.schema.attributes)
