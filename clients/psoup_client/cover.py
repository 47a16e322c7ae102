"""Covering queries over chunks on disk: which ones, and handing in what a job found. What evaluates is `psoup_spark`.

begin(client, [query]) ──> CoverSite: folder, chunks, numbers ──> a directory ──> take(client, site, name)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup_client.errors import NotFound
from psoup_proto.v1 import cover_pb2

if TYPE_CHECKING:
    from psoup_client.client import Client

TIMEOUT = 600.0
"""Seconds that a call may take: the service looks at every chunk on disk."""


@dataclass(frozen=True, slots=True)
class CoverChunk:
    """A chunk on disk: where it is, its tuples, the checksum of its bytes, the tuple ID of its first tuple."""

    path: str
    rows: int
    crc: int
    first_id: int


@dataclass(frozen=True, slots=True)
class CoverSite:
    """What is to be evaluated. `numbers`: of the queries that need it, by ID; `covered`: chunks that are there."""

    queries: tuple[str, ...]
    folder: str
    stream: str
    statement: str
    incarnation: str
    numbers: dict[str, int]
    chunks: tuple[CoverChunk, ...]
    covered: int


def begin(client: Client, queries: Sequence[str]) -> CoverSite:
    """Which chunks some queries of one stream lack; raises NotFound, FailedPrecondition without a disk."""
    request = cover_pb2.BeginCoverRequest(query_ids=queries)
    reply = client.connection.call(client.connection.cover.BeginCover, request, TIMEOUT)
    numbers = {query: number for query, number in zip(queries, reply.numbers, strict=True) if number}
    chunks = tuple(CoverChunk(one.path, one.rows, one.crc, one.first_id) for one in reply.chunks)
    return CoverSite(
        tuple(queries),
        reply.folder,
        reply.stream,
        reply.statement,
        reply.incarnation,
        numbers,
        chunks,
        reply.covered,
    )


def take(client: Client, site: CoverSite, directory: str) -> tuple[int, int]:
    """Hand in the directory of that name in the site's folder; returns the chunks and tuples that it covers.

    Raises InvalidRequest for what is not whole, and NotFound once none of the queries stands. Repeating it is harmless.
    """
    try:
        return _take(client, directory, site.queries[0])
    except NotFound:  # unregistered while the job ran: any other one says as well whose chunks they are
        standing = {query.id for query in client.queries(site.stream)}
        other = next((query for query in site.queries if query in standing), None)
        if other is None:
            raise
        return _take(client, directory, other)


def _take(client: Client, directory: str, query: str) -> tuple[int, int]:
    request = cover_pb2.CoverRequest(directory=directory, query_id=query)
    reply = client.connection.call(client.connection.cover.Cover, request, TIMEOUT)
    return reply.chunks, reply.rows
