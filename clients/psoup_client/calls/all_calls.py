"""All calls of a client, over any connection: the core that `Client` and `AsyncClient` share."""

from __future__ import annotations

from psoup_client.calls.answers import AnswerCalls
from psoup_client.calls.attach import AttachCalls
from psoup_client.calls.backup import BackupCalls
from psoup_client.calls.cover import CoverCalls
from psoup_client.calls.dump import DumpCalls
from psoup_client.calls.follow import FollowCalls
from psoup_client.calls.ingest import IngestCalls
from psoup_client.calls.load import LoadCalls
from psoup_client.calls.matching import MatchingCalls
from psoup_client.calls.promotion import PromotionCalls
from psoup_client.calls.queries import QueryCalls
from psoup_client.calls.server import ServerCalls
from psoup_client.calls.statements import StatementCalls
from psoup_client.calls.streams import StreamCalls
from psoup_client.calls.sync import SyncCalls
from psoup_client.calls.tables import TableCalls
from psoup_client.calls.tenants import TenantCalls
from psoup_client.calls.tokens import TokenCalls
from psoup_client.calls.webhooks import WebhookCalls
from psoup_client.ingest.lost_rows import warn


class AllCalls(  # a group stands before the groups that it builds on
    LoadCalls,
    TableCalls,
    DumpCalls,
    CoverCalls,
    AttachCalls,
    BackupCalls,
    PromotionCalls,
    ServerCalls,
    TenantCalls,
    TokenCalls,
    FollowCalls,
    WebhookCalls,
    MatchingCalls,
    SyncCalls,
    AnswerCalls,
    QueryCalls,
    StatementCalls,
    IngestCalls,
    StreamCalls,
):
    """All calls, and their end."""

    def _close(self) -> None:
        """Close the producers of this client, which waits for them, and the channel. Raises a producer's error."""
        try:
            for producer in list(self.senders):
                producer.close()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Close the channel, without waiting for producers that are open."""
        for producer in list(self.senders):
            warn(producer.abandon())
        self.connection.close()
