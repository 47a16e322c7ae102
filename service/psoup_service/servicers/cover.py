"""CoverService: queries evaluated by a job over chunks on disk.

BeginCover   finds the chunks that do not cover the queries; on a reader thread, as it may wait for the disk
Cover        takes in the job's files on a thread; there is no event, because no answer changes
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from psoup.answer.coverage import lacking
from psoup.data.archived_chunk import ArchivedChunk
from psoup.errors import InvalidInput
from psoup.plan.sides import is_side
from psoup.published.records import ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup_proto.v1 import cover_pb2, cover_pb2_grpc
from psoup_service.host.threads import on
from psoup_service.servicers.backend import Backend
from psoup_service.wire.calls import Caller
from psoup_storage.durable.chunks.covers import MOST_QUERIES, TakenCover
from psoup_storage.formats.job_folder import check_name


class CoverServicer(cover_pb2_grpc.CoverServiceServicer):
    """See cover.proto."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def BeginCover(self, request: cover_pb2.BeginCoverRequest, caller: Caller) -> cover_pb2.BeginCoverResponse:
        """Return the chunks to evaluate, and the folder for the job's directory."""
        if not 0 < len(request.query_ids) <= MOST_QUERIES:
            raise InvalidInput(
                f"query_ids has {len(request.query_ids):,} IDs; 1 to {MOST_QUERIES:,} go in one job, the others in"
                " another",
                field="query_ids",
            )
        store, tenant, limits = self._backend.durable(), self._backend.tenant(caller), self._backend.limits
        folder = await on(self._backend.threads.jobs, store.incoming, tenant)

        def plan(snapshot: Snapshot) -> cover_pb2.BeginCoverResponse:
            wanted = [self._selections(snapshot, request, name, tenant) for name in request.query_ids]
            view = _one_stream(snapshot, [record for records in wanted for record in records])
            numbers, sides, clauses = self._to_evaluate(snapshot, request.query_ids, wanted)
            if len(clauses) > MOST_QUERIES or sum(side.ByteSize() for side in sides) > limits.reply_bytes // 2:
                raise InvalidInput("these joins have too many sides for one job; name fewer of them", field="query_ids")
            chunks = lacking(view, clauses)
            return cover_pb2.BeginCoverResponse(
                folder=str(folder),
                stream=view.spec.name,
                statement=view.sql,
                incarnation=store.incarnation,
                numbers=numbers,
                chunks=[
                    cover_pb2.StoredChunk(path=file.path, rows=file.rows, crc=file.crc, first_id=file.first_id)
                    for file in store.files(chunks)
                ],
                covered=view.archived - len(chunks),
                sides=sides,
            )

        return await self._backend.host.read(plan)

    async def Cover(self, request: cover_pb2.CoverRequest, caller: Caller) -> cover_pb2.CoverResponse:
        """Take in the directory with a job's results."""
        check_name(request.directory, "BeginCover")
        store, snapshot = self._backend.durable(), self._backend.host.snapshot()
        tenant = self._backend.tenant(caller)
        records = self._selections(snapshot, request, request.query_id, tenant)
        view = snapshot.by_id[records[0].stream_id]
        chunks = [entry.data for entry in view.chunks[: view.archived] if isinstance(entry.data, ArchivedChunk)]
        directory = await on(self._backend.threads.jobs, store.incoming, tenant) / request.directory

        def work() -> TakenCover:
            """Remove the covers of queries that are gone, and take in the new cover."""
            queries = self._backend.host.snapshot().queries
            store.prune_covers(lambda number: queries.get(number) is not None)
            return store.cover(directory, chunks, self._backend.host.next_query)

        taken = await asyncio.shield(on(self._backend.threads.jobs, work))
        return cover_pb2.CoverResponse(chunks=taken.chunks, rows=taken.rows)

    def _to_evaluate(
        self, snapshot: Snapshot, names: Sequence[str], wanted: Sequence[Sequence[QueryRecord]]
    ) -> tuple[list[int], list[cover_pb2.CoverSide], list[ClauseRecord]]:
        """The work of a job.

        Returns the number of each query, the sides of joins, and all clauses. The number is 0 for a join, and for a
        query without conditions.
        """
        numbers, sides, clauses = list[int](), list[cover_pb2.CoverSide](), list[ClauseRecord]()
        for name, records in zip(names, wanted, strict=True):
            numbers.append(0)
            for record in records:
                clause = snapshot.clause(record.sqc_id)
                if not clause.factors:
                    continue
                clauses.append(clause)
                number = record.query_id
                if name == self._backend.ids.query(number):
                    numbers[-1] = number
                else:
                    sides.append(cover_pb2.CoverSide(query_id=name, number=number, statement=record.query.text))
        return numbers, sides, clauses

    def _selections(
        self,
        snapshot: Snapshot,
        request: cover_pb2.BeginCoverRequest | cover_pb2.CoverRequest,
        name: str,
        tenant: str,
    ) -> list[QueryRecord]:
        """The query, or the side of a join, that an ID names. For a join, its sides on the stream of the request."""
        with self._backend.ids.naming(name):
            query_id = self._backend.ids.read_query(name)
            side = snapshot.queries.get(query_id) if request.include_sides and is_side(query_id) else None
            if side is not None and side.tenant == tenant:
                return [side]
            record = snapshot.query(query_id, tenant)
        if not record.query.sides:
            return [record]
        wanted = snapshot.stream(request.stream, tenant).stream_id if request.stream else None
        sides = [side for side in snapshot.sides_of(record) if side.stream_id == wanted]
        if not sides:
            raise InvalidInput(
                f"query {name!r} is a join of {', '.join(map(repr, record.query.streams))}; say which of these streams"
                " is meant",
                field="stream",
            )
        return sides


def _one_stream(snapshot: Snapshot, records: Sequence[QueryRecord]) -> StreamView:
    """The stream of some queries. Raises InvalidInput if there are several."""
    view = snapshot.by_id[records[0].stream_id]
    other = next((record for record in records if record.stream_id != view.stream_id), None)
    if other is not None:
        raise InvalidInput(
            f"queries of streams {view.spec.name!r} and {snapshot.by_id[other.stream_id].spec.name!r}; a job"
            " covers those of one stream",
            field="query_ids",
        )
    return view
