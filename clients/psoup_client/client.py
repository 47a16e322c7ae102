"""The client: streams, pushes, queries, over one channel.

    >>> client = Client()                                  # PSOUP_ADDRESS, else 127.0.0.1:7433
    >>> _ = client.create_stream("CREATE STREAM letters (letter TEXT, n BIGINT)")
    >>> query = client.register("SELECT letter FROM letters WHERE n > 1")
    >>> client.push("letters", [{"letter": "a", "n": 1}, {"letter": "b", "n": 2}]).accepted
    2
    >>> client.query(query.id).invoke().rows()             # any client, any time later
    [('b',)]
    >>> client.close()

Every call has a deadline, and every call may be repeated without harm, so UNAVAILABLE is retried for a while before
it is raised. A client may be shared by threads. It does not keep data: that is the service's.
"""

from __future__ import annotations

import datetime as dt
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from psoup_client.answer import Answer
from psoup_client.backup import BackupResult, receive
from psoup_client.bulk import Progress, parameters_of, requests_of
from psoup_client.connection import Connection, naming
from psoup_client.convert import to_table
from psoup_client.errors import DeadlineExceeded, InvalidData, NotFound, PSoupError, Unavailable
from psoup_client.many import invoke_many
from psoup_client.options import ClientOptions
from psoup_client.payload import split
from psoup_client.producer import Producer
from psoup_client.push import DirectPusher, PushResult
from psoup_client.query import Query
from psoup_client.reading import PAGE, ReadCalls
from psoup_client.schema import QueryInfo, ServerInfo, StreamInfo
from psoup_client.stage import Stage
from psoup_client.text import refusing_surrogates
from psoup_client.times import Instant, from_proto, to_proto
from psoup_proto.v1 import ingest_pb2, queries_pb2, server_pb2, streams_pb2

DEFAULT_ADDRESS = "127.0.0.1:7433"
DEFAULT_TIMEOUT = 30.0
"""Seconds until a call without a `timeout` of its own is given up."""


@refusing_surrogates
class Client(ReadCalls):
    """A connection to a PSoup service; use it in a `with` statement, or call `close()`.

    `address` is "host:port", or "unix:" and the path of a socket; without it the environment variable PSOUP_ADDRESS,
    else 127.0.0.1:7433. Nothing is sent before the first call. `timeout` is the deadline in seconds of each call that
    names none. `options`: credentials, channel options, interceptors, and how calls are repeated.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        options: ClientOptions = ClientOptions(),
    ) -> None:
        self.address = address or os.environ.get("PSOUP_ADDRESS") or DEFAULT_ADDRESS
        super().__init__(Connection(self.address, timeout, options))
        self._pushers: dict[str, DirectPusher] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"

    def close(self) -> None:
        """Close the channel; calls that are under way end with Cancelled. May be called twice."""
        self.connection.close()

    # The server ------------------------------------------------------------------------------------------

    def info(self) -> ServerInfo:
        """Version, state, limits and memory of the service."""
        return ServerInfo.of(
            self.connection.call(self.connection.server.GetServerInfo, server_pb2.GetServerInfoRequest())
        )

    def wait_ready(self, timeout: float = 30.0) -> ServerInfo:
        """Wait until the service serves; raises Unavailable after `timeout` seconds."""
        request = server_pb2.GetServerInfoRequest()
        deadline = time.monotonic() + timeout
        seen = "nobody answers"
        while (left := deadline - time.monotonic()) > 0:
            try:
                reply = self.connection.call(
                    self.connection.server.GetServerInfo, request, left, repeat=False, wait_for_ready=True
                )
            except (DeadlineExceeded, Unavailable):
                continue
            if reply.state == "serving":
                return ServerInfo.of(reply)
            seen = f"the service is {reply.state}"
            time.sleep(min(0.1, left))
        raise Unavailable(f"not ready at {self.address} within {timeout:g} s: {seen}")

    def wait_for(self, sequence: int, *, timeout: float | None = None) -> int:
        """Wait until the event with this sequence is visible to every call; returns the last one that is."""
        request = queries_pb2.WaitForSequenceRequest(sequence=sequence)
        return int(self.connection.call(self.connection.queries.WaitForSequence, request, timeout).sequence)

    def backup(
        self,
        destination: str | os.PathLike[str],
        *,
        progress: Callable[[str, int, int], None] | None = None,
        timeout: float = 86_400.0,
    ) -> BackupResult:
        """Copy the data directory of the service, as of one event, to the new folder `destination`.

        The service goes on meanwhile. What arrives is a data directory; the first service that runs on it gives it IDs
        of its own. `progress` is told which file comes, and bytes done and in all. Raises FailedPrecondition if
        the service keeps nothing on disk, FileExistsError for a place that is taken. Memory: one message.
        """
        return receive(self, destination, progress, timeout)

    # Streams ---------------------------------------------------------------------------------------------

    def create_stream(self, sql: str, *, if_not_exists: bool = False) -> StreamInfo:
        """Create a stream from a CREATE STREAM statement.

        Raises AlreadyExists if the name is taken; with `if_not_exists` only if it is taken by a stream that is
        defined otherwise. Raises InvalidStatement that shows the place.
        """
        request = streams_pb2.CreateStreamRequest(statement=sql, allow_existing=if_not_exists)

        def allow_existing() -> None:
            request.allow_existing = True  # the attempt before may have been carried out

        reply = self.connection.call(self.connection.streams.CreateStream, request, before_repeating=allow_existing)
        self.note_sequence(reply.sequence)
        info = StreamInfo.of(reply.stream)
        self._schemas[info.name.lower()] = info
        return info

    def alter_stream(self, sql: str) -> StreamInfo:
        """Give a stream more columns: `ALTER STREAM readings ADD COLUMN room TEXT`. Its tuples have NULL in them.

        Queries that stand already do not see the columns. Raises AlreadyExists for a column that is there; with
        `ADD COLUMN IF NOT EXISTS` only if it has another type. Raises InvalidStatement that shows the place.
        """
        request = streams_pb2.AlterStreamRequest(statement=sql)
        reply = self.connection.call(self.connection.streams.AlterStream, request, repeat=False)
        self.note_sequence(reply.sequence)
        info = StreamInfo.of(reply.stream)
        self._schemas[info.name.lower()] = info
        return info

    def drop(self, stream: str) -> None:
        """Forget a stream and its tuples; raises FailedPrecondition while queries use it."""
        info = self.describe(stream, wait_for=0)
        request = streams_pb2.DropStreamRequest(name=stream, stream_id=info.stream_id, allow_missing=True)
        self.note_sequence(self.connection.call(self.connection.streams.DropStream, request).sequence)
        self._schemas.pop(stream.lower(), None)

    # Data ------------------------------------------------------------------------------------------------

    def push(self, stream: str, data: Any, *, timeout: float | None = None) -> PushResult:
        """Push rows: an Arrow table or batch, a pandas or Polars frame, a list of dicts or a dict of lists.

        More rows than fit one batch (65,536, or 8 MiB) go in several, each applied whole or not at all: the error of a
        later one leaves the earlier ones in. Rows that are too late or too far ahead are refused alone and
        counted in the result. A call that is retried on the way is taken once. For many pushes use `producer`.
        """
        table = self.convert(stream, data)
        with self._lock:
            pusher = self._pushers.setdefault(stream.lower(), DirectPusher(self, stream))
        try:
            result = pusher.push(split(table), timeout)
        except (InvalidData, NotFound):
            self._schemas.pop(stream.lower(), None)  # the name may be another stream's by now
            raise
        self.note_sequence(result.sequence)
        return result

    def producer(self, stream: str, **options: Any) -> Producer:
        """A pipelined, exactly-once sender for one stream; see `Producer` for its options."""
        return Producer(self, stream, **options)

    def stage(
        self, stream: str, *, producer: str | None = None, epoch: int = 0, number: int = 0, since: int = 0
    ) -> Stage:
        """One batch in parts, visible as a whole once it is committed, and taken once; see `Stage`.

        `producer` and `number` name the batch, so that a job that runs again does not double it; without a producer it
        has a name of its own. `number` counts up from 0 for each producer (and `epoch`) without a gap. `since`: an
        event that had happened before number 0 was first sent, if that is known; see PushRequest.
        """
        if producer is None:
            self.describe(stream, wait_for=0)
            since = since or self.known_sequence
        return Stage.begin(self, stream, producer or f"stage-{uuid.uuid4().hex}", epoch, number, since)

    def heartbeat(self, stream: str, time: Instant) -> dt.datetime | None:
        """Promise that no tuple with a time below `time` will come; returns where the watermark is now."""
        request = ingest_pb2.HeartbeatRequest(stream=stream, time=to_proto(time))
        reply = self.connection.call(self.connection.ingest.Heartbeat, request)
        self.note_sequence(reply.sequence)
        return from_proto(reply.watermark) if reply.HasField("watermark") else None

    def convert(self, stream: str, data: Any) -> Any:
        """`data` as an Arrow table that fits `stream`; raises InvalidData. The stream's schema is asked for once."""
        known = self._schemas.get(stream.lower())
        if known is not None:
            try:
                return to_table(data, known)
            except InvalidData:  # perhaps the stream has other columns by now
                fresh = self.describe(stream, wait_for=0)
                if fresh.columns == known.columns:
                    raise
                return to_table(data, fresh)
        return to_table(data, self.describe(stream, wait_for=0))

    # Queries ---------------------------------------------------------------------------------------------

    def register(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        request_id: str | None = None,
    ) -> Query:
        """Register a standing query; it stays when this client goes.

        `params` are the values of its parameters: a list for `?` and `$1`, a dict for `$name`.

        A call with the same `request_id` and text gives the same query as long as that stands, a new one when it was
        unregistered; the same ID with another text raises Conflict. The last 65,536 IDs are kept, over restarts.
        Without one, each call makes a query. Raises InvalidStatement, NotSupported or OutOfRange.
        """
        request = queries_pb2.RegisterRequest(statement=sql, request_id=request_id or uuid.uuid4().hex)
        if params:
            found = parameters_of(sql, [params])
            request.parameters, request.by_name = next(split(found.table)).data, found.by_name
        reply = self.connection.call(self.connection.queries.Register, request)
        self.note_sequence(reply.sequence)
        return Query(self, QueryInfo.of(reply.query))

    def register_many(
        self,
        sql: str | Sequence[str],
        rows: Any = None,
        *,
        request_id: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> list[Query]:
        """Register a statement with parameters for each row of values, or a list of statements; in their order.

        `rows`: tuples in the order of the parameters, dicts, an Arrow table, a pandas or Polars frame. They go in parts
        of 8,192 queries, each registered whole or not at all; an error names the query, counted from 1, and leaves the
        parts before it in. A call that is repeated with the same `request_id` and rows takes up where it ended, and
        gives the same queries; FailedPrecondition if some of a part were unregistered since. Raises as `register`;
        InvalidData for rows that are none.
        """
        parts = self.register_parts(sql, rows, request_id=request_id, progress=progress, timeout=timeout)
        return [query for part in parts for query in part]

    def register_parts(
        self,
        sql: str | Sequence[str],
        rows: Any = None,
        *,
        request_id: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Iterator[list[Query]]:
        """`register_many` as it goes: the queries of each part once it is registered."""
        total, requests = requests_of(sql, rows, request_id)
        done = 0
        for request in requests:
            reply = self.connection.call(
                self.connection.queries.RegisterMany, request, timeout, names=naming(request.ByteSize())
            )
            self.note_sequence(reply.sequence)
            done += len(reply.query_ids)
            yield [Query(self, query_id) for query_id in reply.query_ids]
            if progress is not None:
                progress(done, total)

    def query(self, query_id: str) -> Query:
        """The query with this ID; raises NotFound."""
        request = queries_pb2.GetQueryRequest(query_id=str(query_id))
        return Query(self, QueryInfo.of(self.connection.call(self.connection.queries.GetQuery, request).query))

    def queries(self, stream: str | None = None, *, limit: int | None = None) -> list[Query]:
        """All queries, or those on one stream, in the order of their registration; the first `limit` of them."""
        request = queries_pb2.ListQueriesRequest(page_size=PAGE, stream=stream or "")
        pages = self._pages(self.connection.queries.ListQueries, request, "queries")
        return [Query(self, QueryInfo.of(message)) for message in islice(pages, limit)]

    def invoke_many(
        self,
        queries: Iterable[Query | str],
        *,
        as_of: Instant | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        return_errors: bool = False,
        timeout: float | None = None,
    ) -> Iterator[Answer | PSoupError]:
        """The answers of many queries, or of their IDs, in their order: far cheaper than a call for each.

        They come some at a time, the next ones while the caller looks at those before; answers of one reply belong to
        one snapshot, later ones may reflect more. What is wrong with a query is raised where its answer would come, or
        with `return_errors` takes its place. The other arguments are those of `Query.invoke`; `timeout` is for a call.
        """
        answers = invoke_many(
            self, queries, as_of=as_of, accept_truncation=accept_truncation, wait_for=wait_for, timeout=timeout
        )
        for answer in answers:
            if isinstance(answer, PSoupError) and not return_errors:
                raise answer
            yield answer

    def unregister(self, query_id: str) -> None:
        """Forget a query; raises NotFound if there is none of that ID."""
        self.query(query_id)
        request = queries_pb2.UnregisterRequest(query_id=query_id, allow_missing=True)
        self.note_sequence(self.connection.call(self.connection.queries.Unregister, request).sequence)
