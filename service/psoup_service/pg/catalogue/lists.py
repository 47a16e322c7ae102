"""Reads the streams and queries that a caller may list, by calls of the contract."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from psoup.errors import NotFound, PermissionDenied
from psoup_proto.v1 import queries_pb2, streams_pb2
from psoup_service.gate.principal import Principal
from psoup_service.host.ids import page_token
from psoup_service.pg.calls import Calls
from psoup_service.pg.catalogue.content import number_of

_STREAMS, _QUERIES = 100, 1_000
"""The most streams and queries of a page."""

_FEW = 32
"""The most streams that are read one by one."""


async def identity(calls: Calls, name: str, request: Any) -> Principal | None:
    """The identity of a caller that may make a call; None if its roles do not allow the call."""
    try:
        return (await calls.present(name, request))[1]
    except PermissionDenied:
        return None


async def read_streams(calls: Calls, names: Mapping[int, str]) -> AsyncIterator[list[streams_pb2.Stream]]:
    """Pages of some streams. `names`: their names by ID. A stream that was dropped meanwhile is left out."""
    if len(names) <= _FEW:
        for number, name in names.items():
            stream = await _stream(calls, name)
            if stream is not None and number_of(stream.stream_id) == number:
                yield [stream]
        return
    request = streams_pb2.ListStreamsRequest(page_size=_STREAMS)
    while True:
        reply, _ = await calls.present("StreamService/ListStreams", request)
        yield [stream for stream in reply.streams if number_of(stream.stream_id) in names]
        if not reply.next_page_token:
            return
        request.page_token = reply.next_page_token


async def _stream(calls: Calls, name: str) -> streams_pb2.Stream | None:
    try:
        reply, _ = await calls.present("StreamService/GetStream", streams_pb2.GetStreamRequest(name=name))
    except NotFound:
        return None
    stream: streams_pb2.Stream = reply.stream
    return stream


async def read_queries(calls: Calls, ids: Sequence[int]) -> AsyncIterator[list[queries_pb2.Query]]:
    """Pages of the queries with some IDs, in ascending order. A query that was removed meanwhile is left out."""
    wanted = frozenset(ids)
    at = 0
    while at < len(ids):
        span = ids[bisect_left(ids, ids[at] + _QUERIES) - 1] - ids[at] + 1
        token = page_token("queries", after=ids[at] - 1, stream="")
        request = queries_pb2.ListQueriesRequest(page_size=span, page_token=token)
        reply, _ = await calls.present("QueryService/ListQueries", request)
        if not reply.queries:
            return
        yield [query for query in reply.queries if number_of(query.query_id) in wanted]
        at = bisect_left(ids, number_of(reply.queries[-1].query_id) + 1)
