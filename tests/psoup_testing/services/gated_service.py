"""A service behind its gate, under test: all methods that it serves, an operator's token, and the tokens he issues."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

import psoup_proto.v1
from psoup.work.clock import VirtualClock
from psoup_proto.v1 import admin_pb2 as admin
from psoup_proto.v1 import admin_pb2_grpc
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.gate.roles import OPERATOR
from psoup_testing.services.wire import Wire, run


def descriptors() -> dict[str, MethodDescriptor]:
    """Every method of the contract and of gRPC's own services, by its row in the table of roles."""
    methods: list[MethodDescriptor] = []
    modules = [
        importlib.import_module(f"psoup_proto.v1.{module.name}")
        for module in pkgutil.iter_modules(psoup_proto.v1.__path__)
        if module.name.endswith("_pb2")
    ]
    for module in (*modules, health_pb2, reflection_pb2):
        methods += [m for service in module.DESCRIPTOR.services_by_name.values() for m in service.methods]
    return {f"{method.containing_service.name}/{method.name}": method for method in methods}


def methods() -> dict[str, str]:
    """The path of each of them."""
    return {name: f"/{m.containing_service.full_name}/{m.name}" for name, m in descriptors().items()}


def with_token(secret: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {secret}"),)


class Door:
    """Tokens of a service: it has none, or an operator's first one."""

    def __init__(self, wire: Wire) -> None:
        self.wire, self.admin = wire, admin_pb2_grpc.AdminServiceStub(wire.channel)
        self.operator: tuple[tuple[str, str], ...] = ()

    async def begin(self) -> Door:
        made = await self.admin.IssueToken(admin.IssueTokenRequest(name="op", roles=[OPERATOR], first=True))
        self.operator = with_token(made.secret)
        return self

    async def issue(self, *roles: str, **more: Any) -> tuple[str, Any]:
        """The ID of a new token, and the metadata that bring it."""
        request = admin.IssueTokenRequest(name=" and ".join(roles), roles=roles, **more)
        made = await self.admin.IssueToken(request, metadata=self.operator)
        return made.token.token_id, with_token(made.secret)

    def list(self, metadata: Any) -> Any:
        return self.wire.streams.ListStreams(streams.ListStreamsRequest(), metadata=metadata)


def behind(script: Callable[[Door], Awaitable[None]], clock: VirtualClock | None = None) -> None:
    """Run a script against a service with one token, an operator's."""

    async def opened(wire: Wire) -> None:
        await script(await Door(wire).begin())

    run(opened, clock=clock)
