"""Calls of the StreamService: streams are created, altered, listed and dropped."""

from __future__ import annotations

from typing import Any

from psoup_client.arguments import checking_arguments
from psoup_client.html import Listing
from psoup_client.schema import StreamInfo
from psoup_client.session import PAGE, Session
from psoup_proto.v1 import streams_pb2


@checking_arguments
class StreamCalls(Session):
    """Calls about streams; `describe` is in the session, as pushes need it, too."""

    def stream(self, name: str, *, wait_for: int | None = None) -> StreamInfo:
        """Return a stream: its definition, `next_tuple_id`, `watermark` and sizes at the time of the call.

        `describe` is the same call. Tuple IDs count up from 0, so `next_tuple_id` is the end of a range for
        `matches_table` and `matches_many`. Raises NotFound, which names the most similar stream. O(chunks).
        """
        return self.describe(name, wait_for=wait_for)

    def create_stream(self, sql: str, *, if_not_exists: bool = False) -> StreamInfo:
        """Create a stream from a CREATE STREAM statement, or a table from a CREATE TABLE statement.

        Raises AlreadyExists if the name is in use; with `if_not_exists` only if that stream has another definition.
        Raises InvalidStatement, which shows the place.
        """
        request = streams_pb2.CreateStreamRequest(statement=sql, allow_existing=if_not_exists)

        def allow_existing() -> None:
            request.allow_existing = True  # the lost attempt may have created it

        return self._defined(
            self.connection.call(self.connection.streams.CreateStream, request, before_repeating=allow_existing)
        )

    def alter_stream(self, sql: str) -> StreamInfo:
        """Add columns to a stream or a table: `ALTER STREAM readings ADD COLUMN room TEXT`.

        Existing tuples have NULL in them. Standing queries do not see the new columns. Raises AlreadyExists for an
        existing column; with `ADD COLUMN IF NOT EXISTS` only if it has another type. Raises InvalidStatement, which
        shows the place.

        `ALTER STREAM delayed SUSPEND`, `RESUME` or `RESUME FROM NOW` stops and starts a derived stream. Raises
        FailedPrecondition for another stream (reason NOT_DERIVED), or if its sources have not kept what a RESUME needs
        (PINS_RELEASED).
        """
        request = streams_pb2.AlterStreamRequest(statement=sql)
        return self._defined(self.connection.call(self.connection.streams.AlterStream, request, repeat=False))

    def drop(self, stream: str, *, cascade: bool = False, expected: int | None = None) -> int:
        """Drop a stream or a table, and its tuples; with `cascade` also the queries on it.

        Returns the number of these queries. Without `cascade`, raises FailedPrecondition while queries use the stream.
        `expected`: the drop is refused unless there are exactly this many queries.
        """
        info = self.describe(stream, wait_for=0)
        request = streams_pb2.DropStreamRequest(
            name=stream, stream_id=info.stream_id, allow_missing=True, cascade=cascade, expected_queries=expected
        )
        reply = self.connection.call(self.connection.streams.DropStream, request)
        self.note_sequence(reply.sequence)
        self._schemas.pop(stream.lower(), None)
        return reply.queries if reply.sequence else info.queries  # 0: a lost attempt has dropped it already

    def streams(self, *, wait_for: int | None = None) -> list[StreamInfo]:
        """List all streams and tables in the order of their names, with what this client did (or as of `wait_for`)."""
        request = streams_pb2.ListStreamsRequest(page_size=PAGE)
        messages = self._pages(self.connection.streams.ListStreams, request, "streams", wait_for)
        return Listing(map(StreamInfo.of, messages), "stream", StreamInfo._listed)

    def _defined(self, reply: Any) -> StreamInfo:
        """Return the stream in the reply to CREATE or ALTER, and remember its schema."""
        self.note_sequence(reply.sequence)
        info = StreamInfo.of(reply.stream)
        self._schemas[info.name.lower()] = info
        return info
