"""The list of calls that a page may make. A new call of the contract is not on it until it is added.

Pages may read, register queries, add webhooks, run statements and push a few rows. They cannot push in bulk, make
backups, run jobs or issue tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from psoup_service.wire.call_steps import NamedCall
from psoup_service.wire.grpc_calls import WATCHING_METHODS

PACKAGE = "psoup.v1."
"""The prefix of the full names of services."""

ALLOWED = {
    "psoup.v1.ServerService": ("GetServerInfo",),
    "psoup.v1.StreamService": ("ListStreams", "GetStream"),
    "psoup.v1.IngestService": ("PushRows",),
    "psoup.v1.QueryService": (
        "Register",
        "Unregister",
        "AlterQueries",
        "GetQuery",
        "ListQueries",
        "Explain",
        "Check",
        "InvokeRows",
        "Matches",
        "TopQueries",
    ),
    "psoup.v1.StatementService": ("Execute", "Ask", "AskStream"),
    "psoup.v1.SyncService": ("Sync", "Watch"),
    "psoup.v1.FollowService": ("Follow",),
    "psoup.v1.WebhookService": (
        "AddWebhook",
        "ListWebhooks",
        "RemoveWebhook",
        "PauseWebhook",
        "ResumeWebhook",
        "RotateWebhook",
        "TestWebhook",
    ),
}
"""The methods, by service."""


@dataclass(frozen=True, slots=True)
class WebMethod:
    """A method. `asked`: its name. `behaviour`: the function that serves it. `streams`: whether it has many replies."""

    asked: NamedCall
    descriptor: MethodDescriptor
    request: type[Message]
    reply: type[Message]
    behaviour: Callable[[Any, Any], Any]
    streams: bool


def methods_of(service: str, servicer: Any) -> dict[str, WebMethod]:
    """The methods of a service that a page may call, by their paths without the prefix /api/."""
    return {f"{service}/{name}": method_of(service, name, servicer) for name in ALLOWED.get(service, ())}


def method_of(service: str, name: str, servicer: Any) -> WebMethod:
    """A method of a service. `service`: its full name."""
    descriptor = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    return WebMethod(
        NamedCall(f"{service.rpartition('.')[2]}/{name}", name in WATCHING_METHODS),
        descriptor,
        GetMessageClass(descriptor.input_type),
        GetMessageClass(descriptor.output_type),
        getattr(servicer, name),
        descriptor.server_streaming,
    )
