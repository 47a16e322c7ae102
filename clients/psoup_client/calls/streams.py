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

    def create_stream(self, sql: str, *, if_not_exists: bool = False) -> StreamInfo:
        """Create a stream from a CREATE STREAM statement.

        Raises AlreadyExists if the name is taken; with `if_not_exists` only if it is taken by a stream that is
        defined otherwise. Raises InvalidStatement that shows the place.
        """
        request = streams_pb2.CreateStreamRequest(statement=sql, allow_existing=if_not_exists)

        def allow_existing() -> None:
            request.allow_existing = True  # the attempt before may have been carried out

        return self._defined(
            self.connection.call(self.connection.streams.CreateStream, request, before_repeating=allow_existing)
        )

    def alter_stream(self, sql: str) -> StreamInfo:
        """Give a stream more columns: `ALTER STREAM readings ADD COLUMN room TEXT`. Its tuples have NULL in them.

        Queries that stand already do not see the columns. Raises AlreadyExists for a column that is there; with
        `ADD COLUMN IF NOT EXISTS` only if it has another type. Raises InvalidStatement that shows the place.
        """
        request = streams_pb2.AlterStreamRequest(statement=sql)
        return self._defined(self.connection.call(self.connection.streams.AlterStream, request, repeat=False))

    def drop(self, stream: str, *, cascade: bool = False, expected: int | None = None) -> int:
        """Forget a stream and its tuples; with `cascade` the queries on it, too, whose number is returned.

        Without, raises FailedPrecondition while queries use it. `expected`: so many queries at that moment, or the
        drop is refused.
        """
        info = self.describe(stream, wait_for=0)
        request = streams_pb2.DropStreamRequest(
            name=stream, stream_id=info.stream_id, allow_missing=True, cascade=cascade, expected_queries=expected
        )
        reply = self.connection.call(self.connection.streams.DropStream, request)
        self.note_sequence(reply.sequence)
        self._schemas.pop(stream.lower(), None)
        return reply.queries if reply.sequence else info.queries  # a repeated call finds nothing left to drop

    def streams(self, *, wait_for: int | None = None) -> list[StreamInfo]:
        """List all streams in the order of their names, with what this client did (or as of `wait_for`)."""
        request = streams_pb2.ListStreamsRequest(page_size=PAGE)
        messages = self._pages(self.connection.streams.ListStreams, request, "streams", wait_for)
        return Listing(map(StreamInfo.of, messages), "stream", StreamInfo._facts)

    def _defined(self, reply: Any) -> StreamInfo:
        """The stream of a reply to a definition, whose schema is known from now on."""
        self.note_sequence(reply.sequence)
        info = StreamInfo.of(reply.stream)
        self._schemas[info.name.lower()] = info
        return info
