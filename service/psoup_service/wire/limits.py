"""The limits of calls, in one place: sizes, numbers and times.

The transport enforces the sizes of messages and metadata for all calls (`channel_options`). The remaining limits are
enforced at the beginning of a call (`psoup_service.wire.calls`) and when a batch is decoded (`psoup_service.wire.ipc`).
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf import duration_pb2

from psoup_proto.v1 import server_pb2

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits, read once at the composition root. A zero refuses everything; the settings refuse negative values."""

    ingest_message_bytes: int = 16 * _MIB
    """Bytes of a request that carries tuples."""

    control_message_bytes: int = 4 * _MIB
    """Bytes of any other request."""

    metadata_bytes: int = 8 * _KIB
    """Bytes of a call's metadata."""

    statement_bytes: int = 64 * _KIB
    """Bytes of a statement; checked by the SQL front end too."""

    batch_rows: int = 1_048_576
    """Rows of one push."""

    text_bytes: int = _MIB
    """The most bytes of one text. The engine enforces it."""

    batch_columns: int = 4_096
    """Columns of one push."""

    batch_decoded_bytes: int = 256 * _MIB
    """Bytes of one push once it is decompressed and laid out in the stream's columns."""

    batch_messages: int = 1_024
    """Arrow IPC messages of one push: its schema, dictionaries and record batches."""

    staged_bytes: int = 512 * _MIB
    """Bytes of all staged batches that are not committed."""

    stage_idle_s: float = 1_800.0
    """Seconds without activity after which a staged batch is dropped."""

    concurrent_calls: int = 1_024
    """Calls under way at once, over all clients."""

    watchers: int = 4_096
    """Calls that watch at once, over all clients; they are not among `concurrent_calls`."""

    watches_per_credential: int = 1_000
    """The most watches of one credential: a token, a certificate, or a user of the OpenID provider."""

    connections: int = 20_000
    """The most connections of each listener at a time, including those before the first byte. Further ones are closed.
    """

    streams_per_connection: int = 256
    """Calls under way at once on one connection; more wait at the client."""

    waiting_calls: int = 8_192
    """The most calls that gRPC queues for the event loop, at 14 kB each. Further calls are cancelled."""

    pipelined_batches: int = 32
    """Batches of one PushStream that may wait for their acknowledgement."""

    default_deadline_s: float = 30.0
    """Deadline of a unary call that comes without one."""

    receive_bytes: int = 256 * _MIB
    """Bytes that are charged for requests: incoming requests, and long requests until they are handled."""

    receive_s: float = 10.0
    """Seconds in which a request must arrive, else its call ends. A request that declares its size has more time."""

    receive_window_bytes: int = 64 * _KIB
    """Bytes that a client may send of a request that the service has not begun to read."""

    connection_idle_s: float = 1_800.0
    """Seconds after which a connection without calls is closed. Its client opens another."""

    handshake_s: float = 10.0
    """Seconds in which a new connection must complete its handshake, else it is closed."""

    stream_age_s: float = 3_600.0
    """Seconds after which a streaming call is ended."""

    stream_idle_s: float = 300.0
    """Seconds without a message after which a streaming call is ended."""

    chunk_bytes: int = 256 * _KIB
    """Approximate bytes of Arrow IPC in one message of a streamed answer. Two messages are held for a client that does
    not read.
    """

    answer_bytes: int = 3 * _MIB
    """The most bytes of an answer in one message. A client takes 4 MiB by default."""

    reply_bytes: int = 64 * _MIB
    """The most bytes of any reply. Only a row of very long texts comes near it."""

    longest_deadline_s: float = 3_600.0
    """The longest deadline of a unary call. A longer one is shortened to it."""

    def channel_options(self) -> list[tuple[str, int]]:
        """The limits that gRPC itself enforces."""
        age = int(self.stream_age_s * 1_000)
        return [
            ("grpc.max_receive_message_length", self.ingest_message_bytes),
            ("grpc.max_send_message_length", self.reply_bytes),
            ("grpc.max_metadata_size", self.metadata_bytes),
            ("grpc.absolute_max_metadata_size", self.metadata_bytes),
            ("grpc.max_allowed_incoming_connections", self.connections),
            ("grpc.max_concurrent_streams", self.streams_per_connection),
            # Between the two numbers gRPC cancels calls at random, also other clients' calls. One client that cancels
            # its calls reaches gRPC's defaults of 1,000 and 3,000 while the machine is busy.
            ("grpc.server.max_pending_requests", self.waiting_calls),
            ("grpc.server.max_pending_requests_hard_limit", self.waiting_calls),
            # Unread data must not grow: a probe of the bandwidth would open the window of every stream.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", self.receive_window_bytes),
            ("grpc.max_connection_idle_ms", int(self.connection_idle_s * 1_000)),
            ("grpc.server_handshake_timeout_ms", int(self.handshake_s * 1_000)),
            ("grpc.so_reuseport", 0),  # a second service on the same port must fail
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_time_ms", 60_000),  # finds clients that vanished without a word
            ("grpc.keepalive_timeout_ms", 20_000),
            # A call that was ended while its client does not read lasts as long as its connection. So connections must
            # end, too: clients are told to open a new one, and open calls may finish on the old one.
            ("grpc.max_connection_age_ms", max(age, 60_000)),
            ("grpc.max_connection_age_grace_ms", age),
        ]

    def to_proto(self) -> server_pb2.Limits:
        """The limits that a client should know."""
        return server_pb2.Limits(
            ingest_message_bytes=self.ingest_message_bytes,
            control_message_bytes=self.control_message_bytes,
            metadata_bytes=self.metadata_bytes,
            statement_bytes=self.statement_bytes,
            batch_rows=self.batch_rows,
            batch_decoded_bytes=self.batch_decoded_bytes,
            concurrent_calls=self.concurrent_calls,
            default_deadline=_seconds(self.default_deadline_s),
            stream_age=_seconds(self.stream_age_s),
            stream_idle=_seconds(self.stream_idle_s),
            text_bytes=self.text_bytes,
        )


def _seconds(value: float) -> duration_pb2.Duration:
    whole = int(value)
    return duration_pb2.Duration(seconds=whole, nanos=int((value - whole) * 1_000_000_000))
