"""The part of QueryService about many queries at once: their costs, and their matches of given tuples."""

from __future__ import annotations

import time

from psoup.answer.by_tuple import matches_each
from psoup.answer.costs import ORDERS, QueryCost, top_queries
from psoup.answer.tagged import keys_of
from psoup.errors import InvalidInput
from psoup.events.tags import tag_of
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget
from psoup_proto.v1 import queries_pb2
from psoup_service.ids import page_size
from psoup_service.servicers.backend import Backend, fitting
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller

_TOP, _MAX_TOP = 20, 1_000
_MATCHES, _MAX_MATCHES, _MAX_TUPLES = 1_000, 10_000, 1_000
_MATCHES_S = 0.25
"""Seconds after its first tuple at which MatchesMany replies with what it has."""


class CostCalls:
    """See queries.proto. All of it runs on reader threads."""

    _backend: Backend

    async def TopQueries(
        self, request: queries_pb2.TopQueriesRequest, caller: Caller
    ) -> queries_pb2.TopQueriesResponse:
        """The queries of the highest cost."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        limit = page_size(request.limit, _TOP, _MAX_TOP)
        if not 0 <= request.order <= len(ORDERS):
            raise InvalidInput(f"order {request.order} is none; take one of CostOrder", field="order")
        by, labels = ORDERS[max(request.order, 1) - 1], tag_of("", request.labels).labels

        def read(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.TopQueriesResponse:
            stream = request.stream or None
            dearest = top_queries(
                snapshot, tenant=tenant, by=by, stream=stream, limit=limit, labels=labels, budget=budget
            )
            costs = (_message(snapshot, cost, backend) for cost in dearest)
            return queries_pb2.TopQueriesResponse(
                costs=fitting(costs, backend.limits.answer_bytes), sequence=snapshot.sequence
            )

        await backend.reflecting(request.min_sequence)
        return await backend.host.evaluate(read, tenant=tenant)

    async def MatchesMany(
        self, request: queries_pb2.MatchesManyRequest, caller: Caller
    ) -> queries_pb2.MatchesManyResponse:
        """The queries that each of the first tuples matched: of as many as fit the reply and a fraction of a second."""
        backend, tenant, now = self._backend, self._backend.tenant(caller), self._backend.now()
        limit = page_size(request.limit, _MATCHES, _MAX_MATCHES)
        asked = list(request.tuple_ids)
        if not 0 < len(asked) <= _MAX_TUPLES:
            raise InvalidInput(f"tuple_ids has {len(asked):,} IDs; give 1 to {_MAX_TUPLES:,}", field="tuple_ids")

        def read(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.MatchesManyResponse:
            reply = queries_pb2.MatchesManyResponse(sequence=snapshot.sequence)
            matched = matches_each(
                snapshot, request.stream, asked, tenant=tenant, now=now, limit=limit + 1, budget=budget
            )
            room, end = backend.limits.answer_bytes, 0.0
            for tuple_id, queries in zip(asked, matched, strict=True):
                entry = reply.tuples.add(tuple_id=tuple_id, truncated=len(queries) > limit)
                entry.query_ids.extend(map(backend.ids.query, queries[:limit]))
                if request.keys:
                    entry.keys.extend(keys_of(snapshot, queries[:limit]))
                room -= entry.ByteSize()
                end = end or time.perf_counter() + _MATCHES_S  # the first one finds the clauses for all
                if room <= 0 or time.perf_counter() > end:
                    break
            return reply

        await backend.reflecting(request.min_sequence)
        return await backend.host.evaluate(read, tenant=tenant)


def _message(snapshot: Snapshot, cost: QueryCost, backend: Backend) -> queries_pb2.QueryCost:
    record = snapshot.queries.get(cost.query_id)
    assert record is not None, "what costs stands in the snapshot"
    return queries_pb2.QueryCost(
        query=convert.query(record, backend.ids, snapshot),
        tuples=cost.tuples,
        candidates=cost.candidates,
        matched=cost.matched,
        matched_new=cost.matched_new,
        cpu_share=cost.share,
        bytes=cost.bytes,
    )
