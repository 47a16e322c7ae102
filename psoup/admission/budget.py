"""The memory budget. Tuples are charged by their bytes, queries and producers by estimates.

    push      tuples + queries + producers + the batch      over the budget: refused, with the bytes needed
    register  tuples + queries + producers + the block      the same
    results   take the rest, and give way   (the engine evicts them: answers are then evaluated on demand)

Admission charges memory before it is used, and later returns exactly the charge. The bill (`psoup.answer.figures.bill`)
measures the memory in use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from sortedcontainers import SortedDict

from psoup.admission.shared_room import SharedRoom
from psoup.admission.spans import meeting
from psoup.admission.tenants import KnownTenants
from psoup.budgets import MEMORY
from psoup.errors import ResourceExhausted
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.model import StreamSpec
from psoup.plan.amounts import idle_codes, parked_as, parked_codes
from psoup.plan.standing_query import StandingQuery
from psoup.published.parked_queries import ParkedQueries
from psoup.sql.templates.block import BoundBlock
from psoup.values.columns import Array

ROW_BYTES = 400
"""Bytes of a query made from a template and a row of short values: in the block's columns, the index and the names."""

FREE_VALUES = 64
"""Bytes of a row's values that ROW_BYTES includes."""
VALUES_TIMES = 2
"""The number of copies of each further byte of values: as a value, and in the index."""

RETRY_AFTER_MS = 100
"""Milliseconds that a producer should wait while memory is full of tuples that are not on disk yet."""

TEXT_BYTES = 3_000
"""Bytes of a query registered by its text, without the text."""

FREE_INTERVALS = 16
"""The number of intervals of a WHERE that TEXT_BYTES and ROW_BYTES include."""
INTERVAL_BYTES = 256
"""Bytes of each further interval of a query registered by its text. A list after IN may have thousands."""

ROW_INTERVAL_BYTES = 64
"""Bytes of each further interval of a query in a block, whose intervals are columns."""

JOIN_BYTES = 1_000
"""Bytes of the plan of a join, without its text and its sides."""

TAG_BYTES = 64
"""Bytes of a key or a label without its text, in the sorted runs that find it."""

IDLE_LESS = 150
"""The bytes by which an idle query is charged less: it has no slot, no name, and no entry in the predicate index."""

PARKED_LESS = 300
"""The bytes by which a parked query is charged less: it is idle, and its values and text are not in memory."""

STREAM_BYTES = 32_000
"""Bytes of a stream without tuples."""
COLUMN_BYTES = 10_000
"""Bytes of each column of a stream: buffers of the open chunk, and the index of queries."""

_STREAMS_SHARE = 4
"""The divisor of the budget for the bytes that all streams may take before their first tuple: a quarter."""
_STREAMS_LEAST = 64 * 1024 * 1024
"""The bytes that all streams may take before their first tuple, however small the budget is."""
_PRODUCERS_SHARE = 4
"""The divisor of the budget for producers' last batches, if there are several tenants: a quarter."""

_LESS = "drop streams or queries, or lessen a RETENTION"
_LESS_OF_TABLES = "drop tables, streams or queries, or lessen a HISTORY or RETENTION"
"""The advice for a batch to a table. Deleting rows does not help, as each deletion is an entry, too."""


@dataclass(slots=True)
class _BlockCharge:
    """A block whose queries are not charged ROW_BYTES. `count`: the number of its queries. `charge`: of each query.

    `left`: the number of its queries that are still registered.
    """

    count: int
    charge: int
    left: int


_BLOCK_COUNT: Callable[[_BlockCharge], int] = attrgetter("count")


_DERIVED_SHARE = 16
"""The part of the budget that is reserved for rows of derived streams, if there are any."""


class MemoryBudget:
    """The charged memory. `limit`: the budget in bytes. `tenants`: the known tenants. Only the sequencer may use it."""

    def __init__(self, limit: int, tenants: KnownTenants) -> None:
        self.limit = limit
        self.tuples = 0
        self.queries = 0
        self.producers = SharedRoom(limit // _PRODUCERS_SHARE, tenants)
        self.streams = SharedRoom(max(limit // _STREAMS_SHARE, _STREAMS_LEAST), tenants)
        self._derived = 0
        """The number of derived streams."""
        self._charges: dict[int, int] = {}
        """Charges of queries registered by their texts, by query ID."""
        self._blocks: SortedDict[int, _BlockCharge] = SortedDict()
        """The blocks whose queries are not charged ROW_BYTES, by their first query ID."""

    @property
    def used(self) -> int:
        """The charged bytes of tuples, queries and producers."""
        return self.tuples + self.queries + self.producers.used

    def check_batch(self, spec: StreamSpec, needed: int, texts: int = 0) -> None:
        """Raise ResourceExhausted if tuples of `needed` bytes do not fit. `texts`: those for texts that patches keep.

        For a stream with an archive the error says to wait, as maintenance is writing older tuples to disk.
        """
        limit = self.limit if spec.derived is not None else self.limit - self.reserve
        if needed and self.used + needed > limit:
            waits = spec.retention.archive > 0 and self.used - self.tuples + needed <= self.limit
            wanted = f"this batch to {spec.noun} {spec.name!r} needs {needed:,} more"
            if texts:
                wanted += f", at most {texts:,} of them for texts that patches keep: send fewer patches at once"
            raise self._refusal(wanted, needed, waits, _LESS if spec.table is None else _LESS_OF_TABLES)

    def add_stream(self, tenant: str, spec: StreamSpec) -> None:
        """Charge a tenant for a new stream."""
        self.streams.add(tenant, stream_charge(spec))
        self._derived += spec.derived is not None

    def drop_stream(self, tenant: str, spec: StreamSpec) -> None:
        """Give back what a stream was charged."""
        self.streams.add(tenant, -stream_charge(spec))
        self._derived -= spec.derived is not None

    @property
    def reserve(self) -> int:
        """The bytes of the budget that only derived rows may take: without room for them, sources would stay for ever.

        0 without derived streams.
        """
        return self.limit // _DERIVED_SHARE if self._derived else 0

    def check_queries(self, needed: int, count: int) -> None:
        """Raise ResourceExhausted if `count` queries of `needed` bytes do not fit."""
        if self.used + needed > self.limit - self.reserve:
            some = "this query needs" if count == 1 else f"these {count:,} queries need"
            raise self._refusal(f"{some} about {needed:,} more", needed)

    def check_stream(self, tenant: str, spec: StreamSpec, before: StreamSpec | None = None) -> None:
        """Raise ResourceExhausted if a tenant's new stream does not fit, or the columns added to the stream `before`.

        All streams may take bytes equal to a quarter of the budget, in addition to the budget. Half of these bytes are
        reserved for the tenants.
        """
        room, needed = self.streams, stream_charge(spec) - (0 if before is None else stream_charge(before))
        if not room.fits(tenant, needed):
            used, limit = room.of(tenant), room.most(tenant)
            raise ResourceExhausted(
                f"streams{_of(room, tenant)} may take {limit:,} bytes before they have a tuple{_shared(room, tenant)},"
                f" and take {used:,}; {spec.noun} {spec.name!r} needs {needed:,} more: drop streams, or {_more(room)}",
                reason="STREAMS_BUDGET",
                needed=needed,
                **MEMORY.over(used, limit),
            )

    def full_of_producers(self, tenant: str, needed: int) -> ResourceExhausted | None:
        """The error if a tenant's producers may not have `needed` more bytes. None if they may. O(1).

        Half of the producers' part of the budget is reserved for the tenants. A single tenant may take the whole
        budget.
        """
        room = self.producers
        if room.alone or room.fits(tenant, needed):
            return None
        used, limit = room.of(tenant), room.most(tenant)
        return ResourceExhausted(
            f"what producers sent last{_of(room, tenant)} may take {limit:,} bytes{_shared(room, tenant)}, and takes"
            f" {used:,}; this batch needs {needed:,} more, and no other producer of the stream has been silent for long"
            f" enough to be forgotten: send from fewer producers, wait, drop streams, or {_more(room)}",
            reason="PRODUCERS_BUDGET",
            needed=needed,
            **MEMORY.over(used, limit),
        )

    def adopt(self, event: Registered | RegisteredMany) -> int:
        """Charge the queries of an event. Returns the charge."""
        if isinstance(event, Registered):
            self._charges[event.query_id] = size = usual_charge(event)
        elif isinstance(event.queries, BoundBlock | ParkedQueries):
            count, charge = len(event.queries), block_row_charge(event)
            if charge != ROW_BYTES:
                self._blocks[event.first_id] = _BlockCharge(count, charge, count)
            size = charge * count
        else:
            tags = tags_charge(event.tags)
            charges = [text_charge(query) + tags for query in event.queries]
            self._charges.update(enumerate(charges, event.first_id))
            size = sum(charges)
        size -= charged_less(codes_of(event))
        self.queries += size
        return size

    def give_back_queries(self, query_ids: Sequence[int], less: int) -> int:
        """Subtract the charges of removed queries (ascending). `less`: the bytes by which they are charged less,
        because some are idle or parked. Returns the sum of their charges.

        O(k), and O(log n) for each block."""
        before = self.queries
        self.queries += less
        charges = [self._charges.pop(query_id) for query_id in query_ids if query_id in self._charges]
        self.queries -= sum(charges) + ROW_BYTES * (len(query_ids) - len(charges))
        for first, block, count in meeting(query_ids, self._blocks, _BLOCK_COUNT):
            self.queries -= count * (block.charge - ROW_BYTES)
            block.left -= count
            if not block.left:
                del self._blocks[first]
        return before - self.queries

    def _refusal(self, wanted: str, needed: int, waits: bool = False, less: str = _LESS) -> ResourceExhausted:
        used, producers, alone = self.used, self.producers.used, self.producers.alone
        some = f", about {producers:,} by what producers sent last" if producers else ""
        taken = f": {self.tuples:,} by tuples, about {self.queries:,} by queries{some}" if alone else " by all tenants"
        facts = MEMORY.over(used, self.limit) | {"would_need": used + needed} if alone else MEMORY.facts(self.limit)
        way = "try again when older tuples are on disk, or " if waits else ""
        reserved = f", less {self.reserve:,} for derived streams," if used + needed <= self.limit else ""
        return ResourceExhausted(
            f"the memory budget of {self.limit:,} bytes{reserved} is used up{taken}, and {wanted};"
            f" {way}{_more(self.producers)}, {less}",
            reason="MEMORY_BUDGET",
            needed=needed,
            **facts,
            **({"retry_after_ms": RETRY_AFTER_MS} if waits else {}),
        )


def _of(room: SharedRoom, tenant: str) -> str:
    return "" if room.alone else f" of tenant {tenant!r}"


def _shared(room: SharedRoom, tenant: str) -> str:
    """A text about the part of a room that is reserved for a tenant. Empty for a single tenant."""
    return "" if room.alone else f" ({room.own(tenant):,} are its own, the others are for the tenant that comes first)"


def _more(room: SharedRoom) -> str:
    return "raise memory_mib" if room.alone else "ask the service's operator for more (memory_mib)"


def charge_of(event: Registered | RegisteredMany) -> int:
    """Bytes charged for the queries of an event. O(queries)."""
    return charge_when_kept(event) - charged_less(codes_of(event))


def charge_when_kept(event: Registered | RegisteredMany) -> int:
    """Bytes charged for the queries of an event once all are active. O(queries); O(1) for a template."""
    if isinstance(event, Registered):
        return usual_charge(event)
    return block_charge(event.queries) + tags_charge(event.tags) * len(event.queries)


def usual_charge(event: Registered) -> int:
    """Bytes charged for a query while it is active."""
    return event.charge or text_charge(event.query) + tag_charge(event.tag)


def block_row_charge(event: RegisteredMany) -> int:
    """Bytes charged for each query of a template's block while it is active."""
    if isinstance(event.queries, BoundBlock):
        return row_charge(event.queries) + tags_charge(event.tags)
    return event.charge


def codes_of(event: Registered | RegisteredMany) -> Array:
    """The codes of the keeping of an event's queries, uint8[n]."""
    if isinstance(event, Registered):
        return np.array([event.keeping.code], np.uint8)
    codes: Array = np.full(len(event.queries), event.keeping.code, np.uint8)
    codes[np.array(event.parked, np.int64)] = parked_as(event.keeping).code
    return codes


def charged_less(codes: Array) -> int:
    """The bytes by which queries with these codes (uint8[n]) are charged less, because they are idle or parked."""
    parked = int(parked_codes(codes).sum())
    return IDLE_LESS * (int(idle_codes(codes).sum()) - parked) + PARKED_LESS * parked


def block_charge(queries: BoundBlock | Sequence[StandingQuery]) -> int:
    """Bytes charged for the queries of a block."""
    return row_charge(queries) * len(queries) if isinstance(queries, BoundBlock) else sum(map(text_charge, queries))


def row_charge(block: BoundBlock) -> int:
    """Bytes charged for each query of a block. A join is charged for each of its sides.

    The charge depends on the mean bytes of a row's values, and on the first row's number of intervals.
    """
    if not len(block):
        return ROW_BYTES
    values = -(-block.nbytes // len(block))
    charge, sides = ROW_BYTES + VALUES_TIMES * max(0, values - FREE_VALUES), block.sides
    if sides:
        return charge + sum(row_charge(side) if isinstance(side, BoundBlock) else ROW_BYTES for side in sides)
    return charge + ROW_INTERVAL_BYTES * _further_intervals(block[0])


def tag_charge(tag: Tag) -> int:
    """Bytes charged for the key and the labels of a query."""
    if tag is NO_TAG:
        return 0
    texts = [tag.key, *(part for label in tag.labels for part in label)]
    return sum(TAG_BYTES + len(text) for text in texts if text)


def tags_charge(tags: TagColumns | None) -> int:
    """Bytes charged for the key and the labels of one query of a block: the mean over the block."""
    if tags is None:
        return 0
    columns = len(tags.labels) + (tags.keys is not None)
    return TAG_BYTES * columns + -(-tags.nbytes // max(1, len(tags)))


def text_charge(query: StandingQuery) -> int:
    """Bytes charged for a query registered by its text. For a join: its plan, and each side like a query."""
    if query.sides:
        return JOIN_BYTES + len(query.text) + sum(map(text_charge, query.sides))
    return TEXT_BYTES + len(query.text) + INTERVAL_BYTES * _further_intervals(query)


def _further_intervals(query: StandingQuery) -> int:
    intervals = -FREE_INTERVALS
    # a loop, as the function runs for each query while other commands wait, and sum() takes five times as long
    for factor in query.factors:
        for term in factor.terms:
            intervals += len(term.intervals)
    return max(0, intervals)


def stream_charge(spec: StreamSpec) -> int:
    """Bytes charged for a stream without tuples, which its columns need before the first tuple."""
    return STREAM_BYTES + COLUMN_BYTES * len(spec.schema.attributes)
