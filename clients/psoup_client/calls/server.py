"""Calls of the ServerService: facts of the service, its state, and the content of its memory."""

from __future__ import annotations

import time

from psoup_client.arguments import checking_arguments
from psoup_client.channel.options import seconds
from psoup_client.costs import MemoryBill
from psoup_client.errors import DeadlineExceeded, Unavailable
from psoup_client.schema import ServerInfo
from psoup_client.session import Session
from psoup_proto.v1 import admin_pb2, server_pb2

_SERVING = b"\x08\x01"
"""HealthCheckResponse with the status SERVING, as in gRPC's health.proto."""


@checking_arguments
class ServerCalls(Session):
    """Calls about the service itself."""

    def info(self) -> ServerInfo:
        """Return version, state, limits and memory of the service, and the numbers of queries by how they are kept."""
        request = server_pb2.GetServerInfoRequest(with_queries=True)
        return ServerInfo.of(self.connection.call(self.connection.server.GetServerInfo, request))

    def check_ready(self, timeout: float | None = None) -> None:
        """Ask once whether the service serves; raises Unavailable if not. A service with tokens needs none for this.

        For probes: `wait_ready` waits instead. `timeout`: seconds for a reply.
        """
        reply = self.connection.call(self.connection.health, None, timeout, repeat=False)
        if reply != _SERVING:
            address = self.connection.routes.last.address
            raise Unavailable(f"the service at {address} does not serve: it starts, drains or has failed")

    def wait_ready(self, timeout: float = 30.0) -> ServerInfo:
        """Wait until the service serves; raises Unavailable after `timeout` seconds."""
        request = server_pb2.GetServerInfoRequest()
        deadline = time.monotonic() + seconds(timeout)
        seen = "no service answers"
        while (left := deadline - time.monotonic()) > 0:
            try:
                reply = self.connection.call(
                    self.connection.server.GetServerInfo, request, left, repeat=False, wait_for_ready=True
                )
            except (DeadlineExceeded, Unavailable) as problem:
                if problem.reason == "STARTING" or self.connection.routes.several:  # these fail at once, so wait here
                    self.connection.pause(min(0.1, left))
                continue
            if reply.state == "serving":
                return ServerInfo.of(reply)
            seen = f"the service is {reply.state}"
            self.connection.pause(min(0.1, left))
        raise Unavailable(f"not ready at {self.connection.address} within {timeout:g} s: {seen}")

    def accept_clock(self) -> bool:
        """Let the service follow the wall clock of its machine at once, though that was set forward: for its operator.

        Returns whether there was a step to accept. Streams in system time then expire by the new time: see the guide
        for operators. `info().clock` shows both times.
        """
        reply = self.connection.call(self.connection.admin.AcceptClock, admin_pb2.AcceptClockRequest())
        return bool(reply.accepted)

    def memory(self, *, wait_for: int | None = None) -> MemoryBill:
        """Count what every structure of the service takes now: some milliseconds of work, and more for much data."""
        request = server_pb2.GetServerInfoRequest(with_bill=True)
        return MemoryBill.of(self._read(self.connection.server.GetServerInfo, request, wait_for))
