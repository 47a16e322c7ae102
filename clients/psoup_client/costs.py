"""The costs of queries, and the bytes of each structure in the service's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from psoup_client import html
from psoup_client.phrases import counted
from psoup_client.query_info import QueryInfo
from psoup_proto.v1 import queries_pb2, server_pb2

CostOrder = Literal["cpu", "candidates", "matched", "bytes"]
ORDERS: dict[CostOrder, queries_pb2.CostOrder.ValueType] = {
    "cpu": queries_pb2.COST_ORDER_CPU,
    "candidates": queries_pb2.COST_ORDER_CANDIDATES,
    "matched": queries_pb2.COST_ORDER_MATCHED,
    "bytes": queries_pb2.COST_ORDER_BYTES,
}
"""The orders of a list of costs, by the names that callers use."""


@dataclass(frozen=True, slots=True)
class QueryCost(html.Facts):
    """The costs of one query since it was registered or the service started.

    `tuples`: tuples that came. `candidates`: tuples of these that were evaluated for the query. `matched_new`:
    candidates that matched. `matched`: all matches, with older tuples. `cpu_share` (0 to 1) and `bytes` are the query's
    own part if queries share their WHERE; the counts are those of all of them.
    """

    query: QueryInfo
    tuples: int
    candidates: int
    matched: int
    cpu_share: float
    bytes: int
    matched_new: int = 0

    @property
    def selectivity(self) -> float:
        """Matches for each candidate: near 0, no condition of the query is selective, and it is tested in vain."""
        return self.matched_new / self.candidates if self.candidates else 0.0

    def __repr__(self) -> str:
        return f"<QueryCost of {self.query.query_id}: {self.cpu_share:.1%} of the work, {counted(self.bytes, 'byte')}>"

    def _facts(self) -> dict[str, Any]:
        query = {"query": self.query.query_id, "key": self.query.key}
        figures = {
            "cpu share": self.cpu_share,
            "looked at": self.candidates,
            "of these matched": self.matched_new,
            "matched": self.matched,
            "bytes": self.bytes,
        }
        return {**query, **figures, "sql": self.query.sql}

    @staticmethod
    def of(message: queries_pb2.QueryCost) -> QueryCost:
        """Convert the message on the wire."""
        return QueryCost(
            QueryInfo.of(message.query),
            message.tuples,
            message.candidates,
            message.matched,
            message.cpu_share,
            message.bytes,
            message.matched_new,
        )


@dataclass(frozen=True, slots=True)
class MemoryItem(html.Facts):
    """Memory of one structure: its bytes, the bytes that could be given back, and the `count` of its entries. `per`:
    the kind of an entry.
    """

    structure: str
    bytes: int
    reclaimable: int
    count: int
    per: str

    @property
    def each(self) -> float:
        """Bytes for each tuple, match, query or chunk."""
        return self.bytes / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class MemoryBill(html.Facts):
    """The memory of all structures, and the bytes that they may take together."""

    items: tuple[MemoryItem, ...]
    budget: int

    @property
    def used(self) -> int:
        """Bytes of all structures."""
        return sum(item.bytes for item in self.items)

    def __repr__(self) -> str:
        return f"<MemoryBill: {self.used:,} of {counted(self.budget, 'byte')} used>"

    def _repr_html_(self) -> str:
        """Show the largest structures in a notebook, and the part of the budget that all structures take."""
        items = sorted(self.items, key=lambda item: -item.bytes)
        rows = [(item.structure, item.bytes, item.reclaimable, item.count, item.per) for item in items]
        shown = html.counted_table(("structure", "bytes", "reclaimable", "count", "of"), rows, len(rows), "structure")
        share = f" ({self.used / self.budget:.1%})" if self.budget else ""
        return shown + html.paragraph(f"{self.used:,} of {counted(self.budget, 'byte')} used{share}")

    @staticmethod
    def of(message: server_pb2.GetServerInfoResponse) -> MemoryBill:
        """Convert the message on the wire."""
        items = (MemoryItem(i.structure, i.bytes, i.reclaimable_bytes, i.count, i.per) for i in message.bill)
        return MemoryBill(tuple(items), message.memory_budget)
