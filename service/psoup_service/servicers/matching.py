"""MatchingService: the matches between tuples and standing queries. Reader threads do all work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import numpy as np
import pyarrow as pa

from psoup.admission.queries.tags import MAX_LABEL_NAMES, tag_in
from psoup.admission.rows.pushes import offered_to
from psoup.answer.tuples.conditions import MatchCondition
from psoup.answer.tuples.match_bits import Choice, bits_of, stretch
from psoup.answer.tuples.match_rows import match
from psoup.answer.tuples.match_tags import PAIR_BYTES, Tagged, WantedTags, tagged
from psoup.answer.tuples.queries_of_tuple import matches_between
from psoup.answer.tuples.why import Row, stream_of_source, why
from psoup.config import CHUNK_ROWS
from psoup.errors import InvalidInput, NotFound
from psoup.phrases import counted
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.work.read_budget import NO_LIMIT, ReadBudget
from psoup_proto.v1 import matching_pb2, matching_pb2_grpc
from psoup_service.servicers.backend import Backend
from psoup_service.wire import convert
from psoup_service.wire.answers import one_batch
from psoup_service.wire.calls import Caller
from psoup_service.wire.completeness import completeness_message

_BYTES = 1024 * 1024
"""The most bytes of a reply, if the request does not say."""

_ENVELOPE = 1024
"""Bytes that are reserved for the parts of a reply other than its pairs."""

_QUERIES = 10_000
"""The most names of queries in a request."""

_ROWS = 2_048
"""The most queries of a reply, because their keys may be long."""


class MatchingServicer(matching_pb2_grpc.MatchingServiceServicer):
    """See matching.proto."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Match(self, request: matching_pb2.MatchRequest, caller: Caller) -> matching_pb2.MatchResponse:
        """The queries that each row of the request would match if it were pushed."""
        backend, tenant, payload = self._backend, self._backend.tenant(caller), request.arrow_ipc
        limit, wanted = self._most(request.max_bytes), _wanted(request, "row")
        after = backend.ids.read_query(request.after_query_id) if request.after_query_id else -1
        spec = (await backend.reflecting(request.min_sequence)).stream(request.stream, tenant).spec
        decoded = await backend.decoding.batch(spec, payload, caller)

        def read(snapshot: Snapshot, budget: ReadBudget) -> matching_pb2.MatchResponse:
            view, table = snapshot.stream(request.stream, tenant), decoded.table
            offer = offered_to(view, table, snapshot.config, backend.now())
            first = after if 0 in offer.rows[:1] else -1  # the row may be late by now
            matched = match(
                snapshot,
                request.stream,
                offer.batch,
                tenant=tenant,
                after=first,
                most=limit // PAIR_BYTES,
                budget=budget,
            ).among(offer.rows, table.num_rows)
            shown = tagged(snapshot, matched, wanted, limit)
            matched = shown.matched
            return matching_pb2.MatchResponse(
                arrow_ipc=_pairs(shown),
                query_id_prefix=backend.ids.query_prefix,
                rows=matched.done,
                after_query_id="" if matched.more is None else backend.ids.query(matched.more),
                late=int(np.searchsorted(offer.late, matched.done)),
                ahead=int(np.searchsorted(offer.ahead, matched.done)),
                sequence=snapshot.sequence,
            )

        try:
            return await backend.host.evaluate(read, tenant=tenant)
        finally:
            decoded.place.release()

    async def MatchesBetween(
        self, request: matching_pb2.MatchesBetweenRequest, caller: Caller
    ) -> matching_pb2.MatchesBetweenResponse:
        """Pairs of tuples and the queries that they matched."""
        backend, tenant, limit = self._backend, self._backend.tenant(caller), self._most(request.max_bytes)
        after = backend.ids.read_query(request.after_query_id) if request.after_query_id else -1
        wanted = _wanted(request, "tuple_id")
        first, count = request.first_id, min(max(request.end_id - request.first_id, 0), CHUNK_ROWS)
        await backend.reflecting(request.min_sequence)

        def read(snapshot: Snapshot, budget: ReadBudget) -> matching_pb2.MatchesBetweenResponse:
            now = backend.now()
            pairs = limit // PAIR_BYTES
            matches = matches_between(
                snapshot, request.stream, first, count, tenant=tenant, now=now, after=after, most=pairs, budget=budget
            )
            shown = tagged(snapshot, matches, wanted, limit)
            matches = shown.matched
            return matching_pb2.MatchesBetweenResponse(
                arrow_ipc=_pairs(shown, "tuple_id", first),
                query_id_prefix=backend.ids.query_prefix,
                next_id=first + matches.done,
                after_query_id="" if matches.more is None else backend.ids.query(matches.more),
                sequence=snapshot.sequence,
            )

        return await backend.host.evaluate(read, tenant=tenant)

    def _most(self, max_bytes: int) -> int:
        """The most bytes of a reply's pairs: room for at least one pair."""
        return max(self._room(max_bytes) - _ENVELOPE, PAIR_BYTES)

    async def Results(self, request: matching_pb2.ResultsRequest, caller: Caller) -> matching_pb2.ResultsResponse:
        """The result bits of the first queries over the first tuples, as many as fit into the reply."""
        backend, tenant, room = self._backend, self._backend.tenant(caller), self._room(request.max_bytes)
        choice = self._choice(request, tenant)
        window = _window(request)
        await backend.reflecting(request.min_sequence)

        def read(snapshot: Snapshot, budget: ReadBudget) -> matching_pb2.ResultsResponse:
            view = snapshot.stream(request.stream, tenant)
            where = stretch(snapshot, view, now=backend.now(), **window)
            limit = request.limit or NO_LIMIT
            count = max(min(choice.count(snapshot, view, tenant), limit), request.queries_in_all)
            where.refuse_too_large(count)
            row_bytes = max(min(where.high - where.low, CHUNK_ROWS) // 8, 1)
            rows = min(max(room // row_bytes, 1), _ROWS, limit)
            queries = self._named(lambda: choice.records(snapshot, view, tenant, rows + 1, budget))
            more, queries = len(queries) > rows, queries[:rows]
            page = where.first(view, max(room // max(len(queries), 1), row_bytes))
            bits = bits_of(snapshot, view, queries, page, budget)
            return matching_pb2.ResultsResponse(
                query_ids=[backend.ids.query(record.query_id) for record in queries],
                keys=[record.tag.key for record in queries],
                bits=bits.rows.tobytes(),
                first_id=page.low,
                next_id=page.high,
                end_id=where.high,
                more_queries=more,
                completeness=completeness_message(bits.told),
            )

        return await backend.host.evaluate(read, tenant=tenant)

    def _choice(self, request: matching_pb2.ResultsRequest, tenant: str) -> Choice:
        """The choice of queries that a request makes. Raises InvalidInput and NotFound."""
        names, ids = len(request.query_ids) + len(request.keys), self._backend.ids
        if names > _QUERIES:
            raise InvalidInput(
                f"query_ids and keys have {names:,} names, and {_QUERIES:,} is the most; ask in several calls",
                field="query_ids",
            )
        for field in ("last", "limit", "queries_in_all"):
            if getattr(request, field) < 0:
                raise InvalidInput(f"{field} is {getattr(request, field)}; it must not be negative", field=field)
        after = ids.read_query(request.after_query_id) if request.after_query_id else -1
        query_ids = [ids.read_query(text) for text in request.query_ids]
        return Choice(query_ids, list(request.keys), tag_in("", request.labels).labels, after)

    def _named(self, find: Callable[[], list[QueryRecord]]) -> list[QueryRecord]:
        """The queries that `find` returns. Errors have the client's query ID instead of the engine's number."""
        try:
            return find()
        except NotFound as problem:
            ids, query = self._backend.ids, problem.facts.get("query")
            raise problem if query is None else ids.named(problem, ids.query(int(query))) from None
        except InvalidInput as problem:
            raise self._backend.ids.named_join(problem) from None

    def _room(self, max_bytes: int) -> int:
        """The bytes of Arrow IPC or bits that a reply may have."""
        if max_bytes < 0:
            raise InvalidInput(f"max_bytes is {max_bytes}; it must not be negative", field="max_bytes")
        return min(max_bytes or _BYTES, self._backend.limits.answer_bytes)

    async def Why(self, request: matching_pb2.WhyRequest, caller: Caller) -> matching_pb2.WhyResponse:
        """Explain each condition that decides whether a tuple is in an answer."""
        backend, tenant, payload = self._backend, self._backend.tenant(caller), request.arrow_ipc
        as_of = convert.microseconds("as_of", request.as_of) if request.HasField("as_of") else None
        snapshot = await backend.reflecting(request.min_sequence)
        query_id, name = backend.query_of(request.query_id, request.key, tenant)
        decoded = None
        if payload:
            with backend.ids.naming(name):
                spec = stream_of_source(snapshot, query_id, tenant, request.source).spec
            decoded = await backend.decoding.batch(spec, payload, caller)

        def read(snapshot: Snapshot, budget: ReadBudget) -> matching_pb2.WhyResponse:
            subject: int | Row = request.tuple_id
            if decoded is not None:
                view = stream_of_source(snapshot, query_id, tenant, request.source)
                subject = _row(view, decoded.table, snapshot, backend.now())
            explanation = why(
                snapshot,
                query_id,
                subject,
                tenant=tenant,
                now=backend.now(),
                as_of=as_of,
                source=request.source,
                budget=budget,
            )
            return matching_pb2.WhyResponse(steps=map(_step, explanation.steps), sequence=snapshot.sequence)

        try:
            with backend.ids.naming(name):
                return await backend.host.evaluate(read, tenant=tenant)
        finally:
            if decoded is not None:
                decoded.place.release()


class _Window(TypedDict):
    """The window of a request, as `stretch` takes it."""

    begin: int | None
    end: int | None
    ids: tuple[int | None, int | None]
    last: int | None
    accept_truncation: bool


def _window(request: matching_pb2.ResultsRequest) -> _Window:
    first = request.first_id if request.HasField("first_id") else None
    stop = request.end_id if request.HasField("end_id") else None
    return _Window(
        begin=convert.microseconds("begin", request.begin) if request.HasField("begin") else None,
        end=convert.microseconds("end", request.end) if request.HasField("end") else None,
        ids=(first, stop),
        last=request.last or None,
        accept_truncation=request.accept_truncation,
    )


def _row(view: StreamView, table: pa.Table | pa.RecordBatch, snapshot: Snapshot, now: int) -> Row:
    """The only row of a request. Raises InvalidInput for more rows, or none."""
    if table.num_rows != 1:
        raise InvalidInput(f"arrow_ipc has {counted(table.num_rows, 'row')}; give one", field="arrow_ipc")
    offer = offered_to(view, table, snapshot.config, now)
    return Row(offer.columns, int(offer.times[0]), refused=offer.refused_for())


def _step(step: MatchCondition) -> matching_pb2.WhyStep:
    values = [matching_pb2.WhyValue(text=text, value=value) for text, value in step.values]
    kind = matching_pb2.WhyKind.Value(f"WHY_KIND_{step.kind.upper()}")
    partners = [matching_pb2.WhyPartner(source=source, tuple_id=tuple_id) for source, tuple_id in step.partners]
    return matching_pb2.WhyStep(kind=kind, text=step.text, passed=step.passed, values=values, partners=partners)


def _wanted(request: matching_pb2.MatchRequest | matching_pb2.MatchesBetweenRequest, name: str) -> WantedTags:
    """The keys and labels that a request wants besides IDs.

    `name`: the name of the column of rows, which no label may have.
    """
    names = list(request.label_columns)
    if len(names) > MAX_LABEL_NAMES:
        raise InvalidInput(
            f"label_columns has {len(names):,} names; the limit is {MAX_LABEL_NAMES}", field="label_columns"
        )
    taken = [label for label in names if label in (name, "query", "query_id", "key") or names.count(label) > 1]
    if taken:
        raise InvalidInput(
            f"label_columns has {taken[0][:64]!r}, which would be the name of two columns; leave it out",
            field="label_columns",
        )
    return WantedTags(dict(tag_in("", request.labels).labels), request.keys, names)


def _pairs(shown: Tagged, name: str = "row", first: int = 0) -> bytes:
    """Rows and queries as an Arrow IPC stream."""
    sizes = np.diff(shown.matched.ends)
    rows = np.repeat(np.arange(first, first + len(sizes)), sizes)
    columns = {name: pa.array(rows, pa.int64()), "query": pa.array(shown.matched.queries, pa.int64())}
    if shown.keys is not None:
        columns["key"] = shown.keys
    batch = pa.record_batch({**columns, **dict(shown.labels)})
    return one_batch(batch)
