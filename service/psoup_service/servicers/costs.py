"""The part of QueryService about many queries at once: their costs, and their matches of given tuples."""

from __future__ import annotations

import json
import time
from typing import Any

from psoup.admission.queries.tags import tag_in
from psoup.answer.figures.query_costs import QueryCost
from psoup.answer.figures.top_queries import ORDERS, Rank, top_queries
from psoup.answer.tuples.match_tags import keys_of
from psoup.answer.tuples.queries_of_tuple import matches_each
from psoup.errors import InvalidInput
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2
from psoup_service.host.ids import page_size, page_token, read_page_token
from psoup_service.servicers.backend import Backend, fitting
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller
from psoup_service.wire.written import OpenMessage, Written

_TOP = 20
_MAX_TOP = 1_000
_MATCHES = 1_000
_MAX_MATCHES = 10_000
_MAX_TUPLES = 1_000
_MATCHES_S = 0.25
"""Seconds after the first tuple at which MatchesMany ends its reply with the matches so far."""

_TOGETHER = 1_024
"""The number of IDs that are written between two checks of the budget: some tenths of a millisecond."""


class CostCalls:
    """Base class of `QueryServicer`, with TopQueries and MatchesMany. Reader threads do all work."""

    _backend: Backend

    async def TopQueries(
        self, request: queries_pb2.TopQueriesRequest, caller: Caller
    ) -> queries_pb2.TopQueriesResponse:
        """A page of the queries, in descending order of cost."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        limit = page_size(request.limit, _TOP, _MAX_TOP)
        if not 0 <= request.order <= len(ORDERS):
            raise InvalidInput(f"order {request.order} is none; take one of CostOrder", field="order")
        by, labels = ORDERS[max(request.order, 1) - 1], tag_in("", request.labels).labels
        shown = json.dumps([by, request.stream, *labels])
        after = _place(request.page_token, shown)

        def read(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.TopQueriesResponse:
            ranked = top_queries(
                snapshot,
                tenant=tenant,
                by=by,
                stream=request.stream or None,
                limit=limit + 1,
                labels=labels,
                after=after,
                budget=budget,
            )
            messages = (_message(snapshot, cost, backend) for _, cost in ranked[:limit])
            costs, token = fitting(messages, backend.limits.answer_bytes), ""
            if len(ranked) > len(costs):
                figure, clause, query = ranked[len(costs) - 1].place
                token = page_token("costs", of=shown, less=float(figure), clause=clause, query=query)
            return queries_pb2.TopQueriesResponse(costs=costs, sequence=snapshot.sequence, next_page_token=token)

        await backend.reflecting(request.min_sequence)
        return await backend.host.evaluate(read, tenant=tenant)

    async def MatchesMany(self, request: queries_pb2.MatchesManyRequest, caller: Caller) -> Any:
        """The queries that matched each of the given tuples.

        The reply ends early if it is full, or `_MATCHES_S` seconds after the first tuple. It is serialized tuple by
        tuple.
        """
        backend, tenant, now = self._backend, self._backend.tenant(caller), self._backend.now()
        limit = page_size(request.limit, _MATCHES, _MAX_MATCHES)
        count = len(request.tuple_ids)
        if not 0 < count <= _MAX_TUPLES:
            raise InvalidInput(f"tuple_ids has {count:,} IDs; give 1 to {_MAX_TUPLES:,}", field="tuple_ids")
        tuple_ids = list(request.tuple_ids)

        def read(snapshot: Snapshot, budget: ReadBudget) -> Written:
            reply = OpenMessage(queries_pb2.MatchesManyResponse)
            reply.open.sequence = snapshot.sequence
            matched = matches_each(
                snapshot, request.stream, tuple_ids, tenant=tenant, now=now, limit=limit + 1, budget=budget
            )
            room, end = backend.limits.answer_bytes, 0.0
            for tuple_id, queries in zip(tuple_ids, matched, strict=True):
                entry = reply.open.tuples.add(tuple_id=tuple_id, truncated=len(queries) > limit)
                for start in range(0, min(len(queries), limit), _TOGETHER):
                    budget.check()
                    shown = queries[start : min(start + _TOGETHER, limit)]
                    entry.query_ids.extend(map(backend.ids.query, shown))
                if request.keys:
                    entry.keys.extend(keys_of(snapshot, queries[:limit]))
                room -= reply.cut()
                end = end or time.perf_counter() + _MATCHES_S  # the work for the first tuple finds the clauses for all
                if room <= 0 or time.perf_counter() > end:
                    break
            return reply.written()

        await backend.reflecting(request.min_sequence)
        return await backend.host.evaluate(read, tenant=tenant)


def _place(token: str, shown: str) -> Rank | None:
    """The rank after which a page begins; None for the first page. Raises InvalidInput for another list's token."""
    state = read_page_token("costs", token, of=str, less=float, clause=int, query=int)
    if state is None:
        return None
    if state["of"] != shown:
        raise InvalidInput(
            "page_token belongs to a list in another order, of another stream, or of other labels",
            reason="PAGE_TOKEN",
            field="page_token",
        )
    return Rank(state["less"], state["clause"], state["query"])


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
