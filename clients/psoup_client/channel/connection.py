"""A channel to a service: stubs, deadlines, retries, and errors of the SDK's own tree.

    Client, Query, Producer  -->  Connection.call / Connection.open  -->  ThreadConnection  -->  grpc channel
                                                                          AsyncConnection   -->  grpc.aio channel

    call       one reply                                repeated on UNAVAILABLE
    stream     many replies                             repeated on UNAVAILABLE until the first one has come
    open       a call that its caller repeats           `Producer`, `Watching`

A client with several addresses has a channel to each. `psoup_client.channel.routes` chooses the one of a call.

Every call has a deadline for all attempts together. `psoup_client.channel.options` sets the number of attempts, and
`psoup_client.channel.patience` makes the pauses between them. Only this layer repeats calls, and gRPC does not: two
layers would multiply the calls to an overloaded service. The caller repeats calls whose second attempt needs another
request (CreateStream, Execute). This module does not know the meaning of messages.

`Connection` itself does no I/O. It says what is sent, how long, how often, and what a failure means. A subclass sends
and waits: `psoup_client.channel.threads` for `Client`, `psoup_client.aio.connection` for `AsyncClient`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from psoup_client.channel.addresses import TLS, separated
from psoup_client.channel.options import ClientOptions, seconds
from psoup_client.channel.patience import CallAttempts, Throttle
from psoup_client.channel.primitives import Waiting
from psoup_client.channel.routes import Channels, Route, Routes, Trip, at, may_be_done
from psoup_client.channel.tls import tls_credentials
from psoup_client.channel.token import CallToken
from psoup_client.channel.trace_context import trace_metadata
from psoup_client.errors import Cancelled, InvalidRequest, PSoupError, Unavailable, from_rpc
from psoup_client.no_reply import may_be_sent
from psoup_proto.v1 import (
    admin_pb2_grpc,
    attach_pb2_grpc,
    backup_pb2_grpc,
    cover_pb2_grpc,
    follow_pb2_grpc,
    groups_pb2_grpc,
    ingest_pb2_grpc,
    matching_pb2_grpc,
    queries_pb2_grpc,
    server_pb2_grpc,
    staging_pb2_grpc,
    statements_pb2_grpc,
    streams_pb2_grpc,
    sync_pb2_grpc,
    webhooks_pb2_grpc,
)

MAX_SEND_BYTES = 16 * 1024 * 1024
"""The greatest size of a request in bytes. The service accepts no larger request."""

MAX_RECEIVE_BYTES = 64 * 1024 * 1024
"""The greatest size of a reply in bytes. A row of an answer is never split among messages."""

Names = tuple[tuple[str, str | bytes], ...]

_ENVELOPE = 4_096
"""An upper bound of a request's bytes besides its payload."""

_LONGEST_NAME = 1_024


def naming(payload: int, stream: str | None = None) -> Names:
    """Make metadata that declare an upper bound of the request's bytes, and the stream of a push.

    So a service can refuse a large request before its bytes arrive, or give it more time.
    """
    names: Names = (("psoup-size", str(max(payload, min(payload + _ENVELOPE, MAX_SEND_BYTES)))),)
    return names if stream is None else (*names, *naming_stream(stream))


def naming_stream(stream: str) -> Names:
    """Make metadata that name only the stream."""
    raw = stream.encode("utf-8", "replace")
    return (("psoup-stream-bin", raw),) if len(raw) <= _LONGEST_NAME else ()


def channel_options(options: ClientOptions, *, several: bool = False) -> list[tuple[str, Any]]:
    """List gRPC's arguments of a channel. The caller's arguments replace the SDK's.

    `several`: whether the client has several addresses.
    """
    retry = options.retry
    arguments = {
        "grpc.enable_retries": 1,  # gRPC may resend what the service has not seen; the SDK repeats the rest
        "grpc.enable_http_proxy": 0,  # plain text, and tokens, must not go through a proxy that the environment names
        "grpc.per_rpc_retry_buffer_size": MAX_SEND_BYTES,
        "grpc.max_send_message_length": MAX_SEND_BYTES,
        "grpc.max_receive_message_length": MAX_RECEIVE_BYTES,
        "grpc.initial_reconnect_backoff_ms": round(retry.first_pause_seconds * 1_000),
        "grpc.max_reconnect_backoff_ms": round(retry.longest_pause_seconds * 1_000),
        "grpc.use_local_subchannel_pool": 1,
        # If the service's machine or network is gone, a call would wait for its deadline, which is a day for a backup.
        # So the client pings after this time without traffic, and gives up after another minute (gRPC's value; less
        # would be wrong for a slow line). A service allows a ping every 10 s.
        "grpc.keepalive_time_ms": 30_000,
    }
    return list({**arguments, **(_SEVERAL if several else {}), **dict(options.channel_options)}.items())


_SEVERAL = {
    "grpc.min_reconnect_backoff_ms": 5_000,  # the most time for a connection: gRPC's own value is 20 s
    "grpc.keepalive_time_ms": 12_000,
    "grpc.keepalive_timeout_ms": 10_000,
}
"""The arguments of one channel of several. A machine that is gone is noticed within the default deadline of a call."""


_HEALTH = "/grpc.health.v1.Health/Check"

T = TypeVar("T")


def channel_credentials(address: str, options: ClientOptions) -> grpc.ChannelCredentials | None:
    """Return the credentials of a channel. None: it is in plain text. Raises InvalidRequest for unusable files."""
    if options.credentials is None and address.startswith(TLS):
        return tls_credentials()
    return options.credentials


def _route(place: int, address: str, options: ClientOptions) -> Route:
    encrypted = options.credentials is not None or address.startswith(TLS)
    return Route(place, address, CallToken(options.token, address, encrypted=encrypted))


def _too_large(size: int) -> InvalidRequest:
    return InvalidRequest(f"the request has {size:,} bytes, and a call takes {MAX_SEND_BYTES:,}: send less at once")


@dataclass(frozen=True, slots=True)
class OpenedCall:
    """A streaming call that was started. `call`: gRPC's own object. `method`: the call of the stub."""

    call: Any
    route: Route
    method: Any

    def cancel(self) -> None:
        """Cancel the call."""
        self.call.cancel()


class Connection(Waiting, ABC):
    """A channel to each `address` ("host:port", "https://host:port", "unix:path"; commas separate several).

    `timeout`: the default deadline of a call, in seconds. Raises ValueError for a malformed address, and for a timeout
    that is not above 0; TypeError for other types; InvalidRequest for unusable files of TLS, or an unusable token.
    """

    def __init__(self, address: str, timeout: float, options: ClientOptions) -> None:
        self.addresses = separated(address)
        self.address = ",".join(self.addresses)
        self.timeout = seconds(timeout)
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}: every call has a deadline, give seconds above 0")
        self.retry = options.retry
        self._throttle = Throttle()
        self._reached = False
        """Whether the service has ever answered a call."""
        self.routes = Routes([_route(place, each, options) for place, each in enumerate(self.addresses)])
        self._closed = False

    def _make_stubs(self, channels: Sequence[Any]) -> None:
        """Make the stubs of all services, which send through these channels: one for each address."""
        self._channels = channels
        self._channel = Channels(channels) if self.routes.several else channels[0]
        self.streams = streams_pb2_grpc.StreamServiceStub(self._channel)
        self.ingest = ingest_pb2_grpc.IngestServiceStub(self._channel)
        self.staging = staging_pb2_grpc.StagingServiceStub(self._channel)
        self.matching = matching_pb2_grpc.MatchingServiceStub(self._channel)
        self.queries = queries_pb2_grpc.QueryServiceStub(self._channel)
        self.statements = statements_pb2_grpc.StatementServiceStub(self._channel)
        self.server = server_pb2_grpc.ServerServiceStub(self._channel)
        self.attach = attach_pb2_grpc.AttachServiceStub(self._channel)
        self.cover = cover_pb2_grpc.CoverServiceStub(self._channel)
        self.backup = backup_pb2_grpc.BackupServiceStub(self._channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self._channel)
        self.groups = groups_pb2_grpc.GroupServiceStub(self._channel)
        self.webhooks = webhooks_pb2_grpc.WebhookServiceStub(self._channel)
        self.follow = follow_pb2_grpc.FollowServiceStub(self._channel)
        self.sync = sync_pb2_grpc.SyncServiceStub(self._channel)
        # The health of a service needs no credential. Its message is one field, so that it needs no library either.
        self.health = self._channel.unary_unary(_HEALTH, lambda _: b"", bytes)

    def call(
        self,
        method: Any,
        request: Any,
        timeout: float | None = None,
        *,
        repeat: bool = True,
        before_repeating: Callable[[], None] | None = None,
        wait_for_ready: bool = False,
        names: Names = (),
    ) -> Any:
        """Make a unary call and return its reply. Raises PSoupError. `timeout` is for all attempts together.

        With `wait_for_ready` it waits for a server to start; without `repeat` it is tried once. `before_repeating`
        changes the request so that it may be sent twice. `names`: metadata about the request, which the service reads
        first (`naming`).
        """
        attempts = CallAttempts(self._seconds(timeout), self.retry, self._throttle)
        trip = Trip(self.routes, method, repeats=repeat)
        wait_for_ready &= not self.routes.several
        while True:
            self._check_open()
            route = trip.route
            try:
                metadata = self._metadata(route, names)
                reply = self._reply(at(method, route), request, attempts.left(), wait_for_ready, metadata)
            except grpc.RpcError as problem:
                error = self._failure(problem, self._closed, route, request, attempts.lost)
                was_sent = may_be_sent(problem.details() or "")
            else:
                self._answered(route, method)
                return reply
            if not trip.goes_on(error, was_sent=was_sent):
                self._wait(attempts, trip.error, repeat)
            elif not may_be_done(error, was_sent=was_sent):
                attempts.lost = error.message
                continue
            if before_repeating is not None:
                before_repeating()

    def stream(self, method: Any, request: Any, timeout: float | None = None) -> Generator[Any]:
        """Yield the messages of a call with many replies. `timeout` is for the whole call. Raises PSoupError.

        The call begins with the first `next`. Until the first message has come it is repeated like `call`. Later it is
        not repeated, because a second answer might not continue the first one. Closing the iterator cancels the call.
        """
        attempts = CallAttempts(self._seconds(timeout), self.retry, self._throttle)
        trip = Trip(self.routes, method)
        while True:
            call, begun = self._open(method, trip.route, request, attempts.left()), False
            try:
                for reply in self.messages(call):
                    begun = True
                    yield reply
                return
            except grpc.RpcError as problem:
                error = self._failure_of(call, problem, request, attempts.lost)
            finally:
                call.cancel()
            if begun:
                raise error
            attempts.lost = error.message
            if not trip.goes_on(error, was_sent=True):
                self._wait(attempts, trip.error)

    def open(self, method: Any, request: Any, timeout: float | None = None, *, names: Names = ()) -> OpenedCall:
        """Start a streaming call, without repetition. The caller must cancel it at its end."""
        return self._open(method, Trip(self.routes, method).route, request, timeout, names)

    def _open(
        self, method: Any, route: Route, request: Any, timeout: float | None = None, names: Names = ()
    ) -> OpenedCall:
        self._check_open()
        call = at(method, route)(request, timeout=self._seconds(timeout), metadata=self._metadata(route, names))
        return OpenedCall(call, route, method)

    def _metadata(self, route: Route, names: Names) -> Names:
        return (*route.token.metadata(), *trace_metadata(), *names)

    def replies(self, call: OpenedCall) -> Generator[Any]:
        """Yield the messages of an opened call, and cancel the call when the iteration ends or is abandoned.

        gRPC itself never ends a call whose replies nobody reads. Raises the errors of `failed`.
        """
        try:
            yield from self.messages(call)
        except grpc.RpcError as problem:
            raise self.failed(call, problem) from None
        finally:
            call.cancel()

    def failed(self, call: OpenedCall, problem: grpc.RpcError) -> PSoupError:
        """Convert the error of an opened call. If the caller opens it again, it goes to the best address then."""
        return self.routes.failed(call.route, call.method, self._failure_of(call, problem))

    def messages(self, call: OpenedCall) -> Iterator[Any]:
        """Yield the messages of an opened call. Raises grpc.RpcError."""
        begun = False
        for message in self._messages(call.call):
            if not begun:
                begun = True
                self._answered(call.route, call.method)
            yield message

    @abstractmethod
    def _reply(
        self, method: Any, request: Any, timeout: float, wait_for_ready: bool, metadata: tuple[tuple[str, Any], ...]
    ) -> Any:
        """Send a unary call and wait for its reply. Raises grpc.RpcError."""

    @abstractmethod
    def _messages(self, call: Any) -> Iterator[Any]:
        """Yield the messages of a call of gRPC. Raises grpc.RpcError."""

    @abstractmethod
    def requests(self, requests: Iterator[Any]) -> Any:
        """Return what a call with many requests takes in place of an iterator that waits for the next one."""

    def _cancelled(self, call: Any, problem: grpc.RpcError) -> bool:
        """Whether this client cancelled a call that ended with `problem`."""
        return bool(call.cancelled())

    def cancel(self, call: OpenedCall) -> None:
        """Cancel an opened call."""
        call.cancel()

    @abstractmethod
    def close(self) -> None:
        """End all calls and close the channel. May be called twice."""

    def _answered(self, route: Route, method: Any) -> None:
        """Record that the service at an address has answered a call."""
        self._reached = True
        self.routes.answered(route, method)
        self._throttle.succeeded()

    def _wait(self, attempts: CallAttempts, error: PSoupError, repeat: bool = True) -> None:
        """Wait before the next attempt at a call. Raises `error` if no attempt is left."""
        self._reached |= error.reason != type(error).reason  # a reason in the reply shows that a service answered
        if not repeat or not isinstance(error, Unavailable):
            raise error
        self.pause(attempts.next(error, self._reached))

    def _failure_of(self, call: OpenedCall, problem: grpc.RpcError, request: Any = None, lost: str = "") -> PSoupError:
        given_up = self._closed or self._cancelled(call.call, problem)
        return self._failure(problem, given_up, call.route, request, lost)

    def _failure(
        self, problem: grpc.RpcError, given_up: bool, route: Route, request: Any = None, lost: str = ""
    ) -> PSoupError:
        """Convert an error of gRPC to an error of the SDK. `given_up`: this client cancelled the call.

        A call that was cancelled elsewhere becomes Unavailable. A service cancels its calls when it ends. gRPC cancels
        a call above the limit of waiting calls.
        """
        if problem.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and request is not None:
            size = request.ByteSize()
            if size > MAX_SEND_BYTES:
                return _too_large(size)
        error = from_rpc(problem, route.address, lost)
        if isinstance(error, Cancelled) and not given_up:
            why = "it has more calls than it may, or is about to end"
            return Unavailable(f"the service at {route.address} cancelled the call: {why}; try again later")
        return error

    def _seconds(self, timeout: float | None) -> float:
        """Return the deadline of a call in seconds: `timeout`, or the client's default."""
        return self.timeout if timeout is None else seconds(timeout)

    def _check_open(self) -> None:
        """Raise Cancelled if the channel is closed. gRPC with interceptors would end the whole process."""
        if self._closed:
            raise Cancelled("the client is closed; make a new client")
