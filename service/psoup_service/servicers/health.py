"""Health and reflection: the state of the service, and its methods. The gate checks these calls, too.

Check        anybody may ask, without a credential, however busy the service is: probes have none
Watch        a watcher among the others: it is counted, has an age, and ends when the service drains
reflection   any role
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, TypeAlias

from grpc_health.v1 import health_pb2, health_pb2_grpc

from psoup.errors import NotFound
from psoup_service.wire.calls import Caller

if TYPE_CHECKING:
    Serving: TypeAlias = health_pb2.HealthCheckResponse.ServingStatus.ValueType


class HealthServicer(health_pb2_grpc.HealthServicer):
    """The standard service grpc.health.v1.Health. One event loop."""

    def __init__(self) -> None:
        self._states: dict[str, Serving] = {}
        self._changed = asyncio.Event()
        self._draining = False

    def set(self, names: Iterable[str], state: Serving) -> None:
        """Set the state of services. The name "" stands for the whole service."""
        self._states.update(dict.fromkeys(names, state))
        self._tell()

    def drain(self) -> None:
        """End the open watches after they have sent the last state."""
        self._draining = True
        self._tell()

    async def Check(self, request: health_pb2.HealthCheckRequest, caller: Caller) -> health_pb2.HealthCheckResponse:
        """The state of a service now."""
        state = self._states.get(request.service)
        if state is None:
            raise NotFound(f"there is no service {request.service[:100]!r} here", reason="UNKNOWN_SERVICE")
        return health_pb2.HealthCheckResponse(status=state)

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, caller: Caller
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """The state of a service now, and each time that it changes."""
        last: Serving | None = None
        while True:
            changed = self._changed
            state = self._states.get(request.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if state != last:
                last = state
                yield health_pb2.HealthCheckResponse(status=state)
            if self._over:
                return
            await changed.wait()

    @property
    def _over(self) -> bool:
        return self._draining

    def _tell(self) -> None:
        """Wake the present watchers. Later watchers wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()
