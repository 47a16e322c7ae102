"""One channel to a service: stubs, deadlines, retries, and errors of the SDK's own tree.

    Client, Query, Producer  -->  Connection.call / Connection.open  -->  grpc channel

Every call has a deadline. Calls that may be repeated are retried on UNAVAILABLE: by gRPC itself, after the service
config below, and again by `call`, because gRPC gives up for good when a connection breaks between the headers of a
reply and its end. What may not be repeated as it is (CreateStream, PushStream) is left to the caller. Nothing here
knows what the messages mean.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import grpc

from psoup_client.errors import Cancelled, Unavailable, from_rpc
from psoup_proto.v1 import (
    attach_pb2_grpc,
    backup_pb2_grpc,
    cover_pb2_grpc,
    ingest_pb2_grpc,
    queries_pb2_grpc,
    server_pb2_grpc,
    staging_pb2_grpc,
    streams_pb2_grpc,
)

MAX_SEND_BYTES = 16 * 1024 * 1024
"""Largest request; the service takes no larger one."""

MAX_RECEIVE_BYTES = 64 * 1024 * 1024
"""Largest reply: one row of an answer comes in one message, whatever its size."""

_SERVICES = (
    "StreamService",
    "IngestService",
    "StagingService",
    "QueryService",
    "ServerService",
    "BackupService",
    "AttachService",
    "CoverService",
)
_NOT_REPEATED = (("StreamService", "CreateStream"), ("StreamService", "AlterStream"), ("IngestService", "PushStream"))
_RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_SERVICE_CONFIG = {
    "methodConfig": [
        {"name": [{"service": f"psoup.v1.{service}"} for service in _SERVICES], "retryPolicy": _RETRY},
        {"name": [{"service": f"psoup.v1.{service}", "method": method} for service, method in _NOT_REPEATED]},
    ]
}
_PAUSES = (0.1, 0.2, 0.4)
"""Seconds between the attempts of `call`."""

_OPTIONS = [
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ("grpc.enable_retries", 1),
    ("grpc.per_rpc_retry_buffer_size", MAX_SEND_BYTES),
    ("grpc.max_send_message_length", MAX_SEND_BYTES),
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
]


Names = tuple[tuple[str, str | bytes], ...]

_ENVELOPE = 4_096
"""Bytes of a request beside its payload, at most."""

_LONGEST_NAME = 1_024

_LONGEST_PATH = 107
"""Bytes of a Unix socket's path: what Linux allows."""


def naming(payload: int, stream: str | None = None) -> Names:
    """Metadata that name how long a request with so long a payload may be, and the stream that it is pushed to.

    A service that knows them can refuse what it has no room for before it is sent, and gives a long one more time.
    """
    names: Names = (("psoup-size", str(max(payload, min(payload + _ENVELOPE, MAX_SEND_BYTES)))),)
    return names if stream is None else (*names, *naming_stream(stream))


def naming_stream(stream: str) -> Names:
    """Metadata that name the stream alone."""
    raw = stream.encode("utf-8", "replace")
    return (("psoup-stream-bin", raw),) if len(raw) <= _LONGEST_NAME else ()


def target(address: str) -> str:
    """What gRPC calls an address: "host:port" as it is, and "unix:" with the path of a socket.

    Raises ValueError for a path that no socket can have.
    """
    kind, colon, path = address.partition(":")
    if kind != "unix" or not colon:
        return address
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    if not path or "\0" in path or len(os.fsencode(path)) > _LONGEST_PATH:
        raise ValueError(
            f"{address!r} is no address of a Unix socket: write unix:PATH, with a path of 1 to {_LONGEST_PATH} bytes"
        )
    return f"unix:{quote(path)}"


class Connection:
    """A channel to `address` ("host:port", "unix:path"); `timeout`: the deadline of calls that name none, in seconds.

    Raises ValueError for an address or a timeout that cannot be.
    """

    def __init__(self, address: str, timeout: float) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}: every call has a deadline, give seconds above 0")
        self.address = address
        self.timeout = timeout
        self._channel = grpc.insecure_channel(target(address), options=_OPTIONS)
        self.streams = streams_pb2_grpc.StreamServiceStub(self._channel)
        self.ingest = ingest_pb2_grpc.IngestServiceStub(self._channel)
        self.staging = staging_pb2_grpc.StagingServiceStub(self._channel)
        self.queries = queries_pb2_grpc.QueryServiceStub(self._channel)
        self.server = server_pb2_grpc.ServerServiceStub(self._channel)
        self.attach = attach_pb2_grpc.AttachServiceStub(self._channel)
        self.cover = cover_pb2_grpc.CoverServiceStub(self._channel)
        self.backup = backup_pb2_grpc.BackupServiceStub(self._channel)

    def call(
        self,
        method: Any,
        request: Any,
        timeout: float | None = None,
        *,
        repeat: bool = True,
        wait_for_ready: bool = False,
        names: Names = (),
    ) -> Any:
        """The reply of a unary call; raises PSoupError. `timeout` is for all attempts together.

        With `wait_for_ready` it waits for a server to come up, without `repeat` it is tried once. `names`: what the
        service may know of the request before it reads it (`naming`).
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        for pause in (*_PAUSES, None):
            try:
                left = max(0.001, deadline - time.monotonic())
                return method(request, timeout=left, wait_for_ready=wait_for_ready, metadata=names)
            except grpc.RpcError as problem:
                error = from_rpc(problem, self.address)
            except ValueError as problem:
                raise _closed(problem) from None
            if pause is None or not repeat or not isinstance(error, Unavailable):
                raise error
            pause = max(pause, error.retry_after or 0.0)
            if time.monotonic() + pause >= deadline:
                raise error
            time.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def open(self, method: Any, request: Any, timeout: float | None = None) -> Any:
        """A started streaming call; whoever opens it cancels it when done."""
        try:
            return method(request, timeout=self.timeout if timeout is None else timeout)
        except ValueError as problem:
            raise _closed(problem) from None

    def replies(self, call: Any) -> Iterator[Any]:
        """The messages of an opened call; it is cancelled when the iteration ends or is abandoned.

        gRPC itself never ends a call that nobody reads any more.
        """
        try:
            yield from call
        except grpc.RpcError as problem:
            raise from_rpc(problem, self.address) from None
        finally:
            call.cancel()

    def close(self) -> None:
        """End all calls and close the channel. May be called twice."""
        self._channel.close()


def _closed(problem: ValueError) -> Exception:
    if "closed channel" in str(problem):
        return Cancelled("the client is closed; make a new one: Client(address)")
    return problem
