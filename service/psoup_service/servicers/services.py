"""The services of the contract: the servicer of each, and the function that registers it with a gRPC server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from psoup.config import EngineConfig
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
from psoup_service.gate.credentials import Gate
from psoup_service.host.standby_host import Promote
from psoup_service.servicers.admin import AdminServicer
from psoup_service.servicers.attach import AttachServicer
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.backup import BackupServicer
from psoup_service.servicers.cover import CoverServicer
from psoup_service.servicers.follow import FollowServicer
from psoup_service.servicers.groups import GroupServicer
from psoup_service.servicers.ingest import IngestServicer
from psoup_service.servicers.matching import MatchingServicer
from psoup_service.servicers.queries import QueryServicer
from psoup_service.servicers.server import ServerServicer
from psoup_service.servicers.staging import StagingServicer
from psoup_service.servicers.statements import StatementServicer
from psoup_service.servicers.streams import StreamServicer
from psoup_service.servicers.sync import SyncServicer
from psoup_service.servicers.webhooks import WebhookServicer


class Services(NamedTuple):
    """The servicers of one service. `registered`: pairs of a registering function and its servicer."""

    registered: list[tuple[Callable[[Any, Any], None], Any]]
    sync: SyncServicer
    follow: FollowServicer
    groups: GroupServicer
    webhooks: WebhookServicer

    def drain(self) -> None:
        """End the calls of clients that watch, follow or wait: they go on when the service is back."""
        self.sync.drain()
        self.follow.followers.drain()
        self.groups.drain()

    def figures(self) -> dict[str, int]:
        """The figures of watches, followers and webhooks. From any thread."""
        watches = {"watch_rounds": self.sync.rounds}
        return watches | self.follow.followers.figures() | self.webhooks.deliverer.figures()


def services_of(
    backend: Backend,
    config: EngineConfig,
    gate: Gate,
    server: ServerServicer,
    webhook_hosts: Sequence[str],
    amount: str,
    promote: Promote,
) -> Services:
    """Make the servicers of a service, on one backend. `webhook_hosts`, `amount`: the settings."""
    staging, sync = StagingServicer(backend, config), SyncServicer(backend)
    follow = FollowServicer(backend, sync.tokens)
    groups = GroupServicer(backend, follow)
    streams = StreamServicer(backend, staging.forget)
    webhooks = WebhookServicer(backend, sync, webhook_hosts)
    registered: list[tuple[Callable[[Any, Any], None], Any]] = [
        (streams_pb2_grpc.add_StreamServiceServicer_to_server, streams),
        (statements_pb2_grpc.add_StatementServiceServicer_to_server, StatementServicer(backend, streams)),
        (ingest_pb2_grpc.add_IngestServiceServicer_to_server, IngestServicer(backend)),
        (staging_pb2_grpc.add_StagingServiceServicer_to_server, staging),
        (queries_pb2_grpc.add_QueryServiceServicer_to_server, QueryServicer(backend, amount)),
        (matching_pb2_grpc.add_MatchingServiceServicer_to_server, MatchingServicer(backend)),
        (server_pb2_grpc.add_ServerServiceServicer_to_server, server),
        (attach_pb2_grpc.add_AttachServiceServicer_to_server, AttachServicer(backend)),
        (cover_pb2_grpc.add_CoverServiceServicer_to_server, CoverServicer(backend)),
        (backup_pb2_grpc.add_BackupServiceServicer_to_server, BackupServicer(backend)),
        (sync_pb2_grpc.add_SyncServiceServicer_to_server, sync),
        (follow_pb2_grpc.add_FollowServiceServicer_to_server, follow),
        (groups_pb2_grpc.add_GroupServiceServicer_to_server, groups),
        (webhooks_pb2_grpc.add_WebhookServiceServicer_to_server, webhooks),
        (admin_pb2_grpc.add_AdminServiceServicer_to_server, AdminServicer(backend, gate, promote)),
    ]
    return Services(registered, sync, follow, groups, webhooks)
