"""The memory that has been promised: tuples by their bytes, queries by what one is expected to take.

    push      tuples + queries + the batch      over the budget: refused, and says what would be needed
    register  tuples + queries + the block      the same
    results   take what is left, and give way   (the engine evicts them: an answer is evaluated when asked for)

A charge is known before there is anything to measure, and is given back as it was taken. The bill
(`psoup.answer.bill`) says what is really there.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.errors import ResourceExhausted
from psoup.events import Registered, RegisteredMany
from psoup.model import StreamSpec
from psoup.query import StandingQuery
from psoup.sql.bound import BoundBlock

ROW_BYTES = 400
"""A query made of a template and a row of values: its columns, its part of the index and of the names."""

RETRY_AFTER_MS = 100
"""What a producer is told to wait when the memory is full of tuples that are not on disk yet."""

TEXT_BYTES = 3_000
"""A query registered by a text, beside the text itself."""

FREE_INTERVALS, INTERVAL_BYTES = 16, 256
"""Intervals of its WHERE that are among these bytes, and what each further one takes: a list after IN has thousands."""

STREAM_BYTES, COLUMN_BYTES = 32_000, 10_000
"""A stream without a tuple, and each of its columns: buffers of the open chunk, the index of its queries."""

_STREAMS_SHARE, _STREAMS_LEAST = 4, 64 * 1024 * 1024


class Budget:
    """What is promised. `limit`: bytes; one owner, no threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.tuples = 0
        self.queries = 0
        self.streams = 0
        self._charges: dict[int, int] = {}
        """Of queries that were registered by a text, by query ID."""

    def check_batch(self, spec: StreamSpec, needed: int) -> None:
        """Raise ResourceExhausted if tuples of `needed` bytes do not fit.

        A stream with an archive is only asked to wait: its older tuples are on their way to the disk.
        """
        if needed and self.tuples + self.queries + needed > self.limit:
            waits = spec.retention.archive > 0 and self.queries + needed <= self.limit
            raise self._refusal(f"this batch to stream {spec.name!r} needs {needed:,} more", needed, waits)

    def check_queries(self, needed: int, count: int) -> None:
        """Raise ResourceExhausted if `count` queries of `needed` bytes do not fit."""
        if self.tuples + self.queries + needed > self.limit:
            some = "this query needs" if count == 1 else f"these {count:,} queries need"
            raise self._refusal(f"{some} about {needed:,} more", needed)

    def check_stream(self, spec: StreamSpec) -> None:
        """Raise ResourceExhausted if one more stream does not fit: all may take a quarter of the budget, beside it."""
        limit, needed = max(self.limit // _STREAMS_SHARE, _STREAMS_LEAST), stream_charge(spec)
        if self.streams + needed > limit:
            raise ResourceExhausted(
                f"streams may take {limit:,} bytes before they have a tuple, and take {self.streams:,}; stream"
                f" {spec.name!r} needs {needed:,} more: drop streams, or raise memory_mib",
                reason="STREAMS_BUDGET",
                budget=limit,
                used=self.streams,
                needed=needed,
            )

    def adopt(self, event: Registered | RegisteredMany) -> None:
        """The queries of an event are promised."""
        if isinstance(event, Registered):
            self._charges[event.query_id] = size = text_charge(event.query)
        else:
            if not isinstance(event.queries, BoundBlock):
                queries = enumerate(event.queries, event.first_id)
                self._charges.update((query_id, text_charge(query)) for query_id, query in queries)
            size = block_charge(event.queries)
        self.queries += size

    def give_back_query(self, query_id: int) -> None:
        """A query is gone."""
        self.queries -= self._charges.pop(query_id, ROW_BYTES)

    def _refusal(self, wanted: str, needed: int, waits: bool = False) -> ResourceExhausted:
        used = self.tuples + self.queries
        way = "try again when older tuples are on disk, or " if waits else ""
        return ResourceExhausted(
            f"the memory budget of {self.limit:,} bytes is used up: {self.tuples:,} by tuples, about {self.queries:,}"
            f" by queries, and {wanted}; {way}raise memory_mib, drop streams or queries, or lessen a RETENTION",
            reason="MEMORY_BUDGET",
            budget=self.limit,
            used=used,
            needed=needed,
            would_need=used + needed,
            **({"retry_after_ms": RETRY_AFTER_MS} if waits else {}),
        )


def block_charge(queries: BoundBlock | Sequence[StandingQuery]) -> int:
    """Bytes that the queries of a block are charged."""
    return ROW_BYTES * len(queries) if isinstance(queries, BoundBlock) else sum(map(text_charge, queries))


def text_charge(query: StandingQuery) -> int:
    """Bytes that a query registered by a text is charged."""
    intervals = sum(len(term.intervals) for factor in query.factors for term in factor.terms)
    return TEXT_BYTES + len(query.text) + INTERVAL_BYTES * max(0, intervals - FREE_INTERVALS)


def stream_charge(spec: StreamSpec) -> int:
    """Bytes that a stream without tuples is charged: what its columns need before there is a first tuple."""
    return STREAM_BYTES + COLUMN_BYTES * len(spec.schema.attributes)
