"""Calls of the CoverService: a job asks for chunks on disk that do not cover some queries, and hands in the matches.

    begin_cover([query]) ──> CoverSite: folder, chunks, numbers ──> a directory ──> cover(site, name)

Jobs in `psoup_spark` evaluate the queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psoup_client import html
from psoup_client.arguments import checking_arguments
from psoup_client.calls.queries import QueryCalls
from psoup_client.errors import NotFound
from psoup_proto.v1 import cover_pb2

TIMEOUT = 600.0
"""The deadline of a call, in seconds. The service looks at every chunk on disk."""


@dataclass(frozen=True, slots=True)
class CoverChunk(html.Facts):
    """A chunk on disk: where it is, its tuples, the checksum of its bytes, the tuple ID of its first tuple."""

    path: str
    rows: int
    crc: int
    first_id: int


@dataclass(frozen=True, slots=True)
class CoverSide(html.Facts):
    """A side of a join that a job evaluates: the ID of the join, the number of the side, and its statement."""

    query: str
    number: int
    statement: str


@dataclass(frozen=True, slots=True)
class CoverSite(html.Facts):
    """Chunks to evaluate, and their queries.

    `numbers`: by ID, the number of each query over only this stream that needs the evaluation. `sides`: the same for
    sides of joins. `covered`: number of chunks that are covered already.
    """

    queries: tuple[str, ...]
    folder: str
    stream: str
    statement: str
    incarnation: str
    numbers: dict[str, int]
    chunks: tuple[CoverChunk, ...]
    covered: int
    sides: tuple[CoverSide, ...] = ()


@checking_arguments
class CoverCalls(QueryCalls):
    """Calls of a job that evaluates queries over chunks on disk."""

    def begin_cover(
        self, queries: Sequence[str], *, stream: str | None = None, include_sides: bool = False
    ) -> CoverSite:
        """Ask for the chunks that some queries of one stream have not met. Raises NotFound, and FailedPrecondition
        without a disk.

        For a join, its sides on `stream` are meant. With `include_sides` the IDs may be IDs of sides.
        """
        request = cover_pb2.BeginCoverRequest(query_ids=queries, stream=stream or "", include_sides=include_sides)
        reply = self.connection.call(self.connection.cover.BeginCover, request, TIMEOUT)
        numbers = {query: number for query, number in zip(queries, reply.numbers, strict=True) if number}
        chunks = tuple(CoverChunk(chunk.path, chunk.rows, chunk.crc, chunk.first_id) for chunk in reply.chunks)
        return CoverSite(
            tuple(queries),
            reply.folder,
            reply.stream,
            reply.statement,
            reply.incarnation,
            numbers,
            chunks,
            reply.covered,
            tuple(CoverSide(side.query_id, side.number, side.statement) for side in reply.sides),
        )

    def cover(self, site: CoverSite, directory: str) -> tuple[int, int]:
        """Hand in the directory of that name in the site's folder; returns the chunks and tuples that it covers.

        Raises InvalidRequest for a directory that is not whole, and NotFound once none of the queries stands. Repeating
        it is harmless.
        """
        try:
            return self._cover(directory, site.stream, site.queries[0])
        except NotFound:  # unregistered meanwhile: any other query names the stream as well
            standing = {query.id for query in self.queries(site.stream)}
            standing |= {query.id for query in self.queries(site.stream, include_sides=True)}
            other = next((query for query in site.queries if query in standing), None)
            if other is None:
                raise
            return self._cover(directory, site.stream, other)

    def _cover(self, directory: str, stream: str, query: str) -> tuple[int, int]:
        request = cover_pb2.CoverRequest(directory=directory, query_id=query, stream=stream, include_sides=True)
        reply = self.connection.call(self.connection.cover.Cover, request, TIMEOUT)
        return reply.chunks, reply.rows
