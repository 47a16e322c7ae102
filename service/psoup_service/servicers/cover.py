"""CoverService: queries evaluated by a job over chunks on disk.

BeginCover   finds the chunks that lack them, on a reader thread, as that may wait for the disk
Cover        takes the job's files in, on a thread; no event, as no answer changes
"""

from __future__ import annotations

import asyncio

from psoup.answer.coverage import lacking
from psoup.data.archived import ArchivedChunk
from psoup.errors import InvalidInput
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup_proto.v1 import cover_pb2, cover_pb2_grpc
from psoup_service.host.threads import on
from psoup_service.servicers.backend import Backend, Context
from psoup_storage.durable.chunks.covering import MOST_QUERIES, TakenCover
from psoup_storage.formats.job_folder import check_name


class CoverServicer(cover_pb2_grpc.CoverServiceServicer):
    """See cover.proto."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def BeginCover(self, request: cover_pb2.BeginCoverRequest, context: Context) -> cover_pb2.BeginCoverResponse:
        """Return the chunks to evaluate, and the folder for the job's directory."""
        if not 0 < len(request.query_ids) <= MOST_QUERIES:
            raise InvalidInput(
                f"query_ids has {len(request.query_ids):,} IDs; 1 to {MOST_QUERIES:,} go in one job, the others in"
                " another",
                field="query_ids",
            )
        store, tenant = self._backend.durable(), self._backend.tenant(context)
        folder = await on(self._backend.threads.jobs, store.incoming)

        def plan(snapshot: Snapshot) -> cover_pb2.BeginCoverResponse:
            records = [self._record(snapshot, name, tenant) for name in request.query_ids]
            other = next((record for record in records if record.stream_id != records[0].stream_id), None)
            view = snapshot.by_id[records[0].stream_id]
            if other is not None:
                raise InvalidInput(
                    f"queries of streams {view.spec.name!r} and {snapshot.by_id[other.stream_id].spec.name!r}; a job"
                    " covers those of one stream",
                    field="query_ids",
                )
            clauses = [snapshot.clause(record.sqc_id) for record in records]
            chunks = lacking(view, [clause for clause in clauses if clause.factors])
            return cover_pb2.BeginCoverResponse(
                folder=str(folder),
                stream=view.spec.name,
                statement=view.sql,
                incarnation=store.incarnation,
                numbers=[r.query_id if c.factors else 0 for r, c in zip(records, clauses, strict=True)],
                chunks=[
                    cover_pb2.StoredChunk(path=file.path, rows=file.rows, crc=file.crc, first_id=file.first_id)
                    for file in store.files(chunks)
                ],
                covered=view.archived - len(chunks),
            )

        return await self._backend.host.read(plan)

    async def Cover(self, request: cover_pb2.CoverRequest, context: Context) -> cover_pb2.CoverResponse:
        """Take a directory in."""
        check_name(request.directory, "BeginCover")
        store, snapshot = self._backend.durable(), self._backend.host.snapshot()
        view = snapshot.by_id[self._record(snapshot, request.query_id, self._backend.tenant(context)).stream_id]
        chunks = [entry.data for entry in view.chunks[: view.archived] if isinstance(entry.data, ArchivedChunk)]
        directory = await on(self._backend.threads.jobs, store.incoming) / request.directory

        def work() -> TakenCover:
            """Remove the covers of queries that are gone, and take the new one in."""
            queries = self._backend.host.snapshot().queries
            store.prune_covers(lambda number: queries.get(number) is not None)
            return store.cover(directory, chunks, self._backend.host.next_query)

        taken = await asyncio.shield(on(self._backend.threads.jobs, work))
        return cover_pb2.CoverResponse(chunks=taken.chunks, rows=taken.rows)

    def _record(self, snapshot: Snapshot, name: str, tenant: str) -> QueryRecord:
        with self._backend.ids.naming(name):
            return snapshot.query(self._backend.ids.read_query(name), tenant)
