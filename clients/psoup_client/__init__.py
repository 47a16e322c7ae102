"""The Python SDK of PSoup: register standing queries, push data, come back, invoke.

    from psoup_client import Client

    with Client("127.0.0.1:7433") as client:
        query = client.register("SELECT * FROM flights WHERE origin = 'JFK' BEGIN (NOW - 1 HOUR)")
        print(query.invoke().to_pandas())

It speaks gRPC to a service and contains nothing of the engine.
"""

from psoup_client.amounts import Altered
from psoup_client.answer import Answer, AnswerStream
from psoup_client.calls.attach import AttachResult, AttachSite
from psoup_client.calls.backup import BackupResult
from psoup_client.calls.cover import CoverChunk, CoverSide, CoverSite
from psoup_client.calls.dump import DumpInfo
from psoup_client.calls.matching import MatchResult
from psoup_client.calls.promotion import Promotion
from psoup_client.calls.tenants import Quotas, Tenant, TenantUsage
from psoup_client.calls.tokens import AccessToken, IssuedToken
from psoup_client.calls.webhooks import AddedWebhook, Webhook, WebhookTest
from psoup_client.channel.options import ClientOptions, RetryOptions
from psoup_client.client import DEFAULT_ADDRESS, Client
from psoup_client.completeness import Completeness, SourceCompleteness
from psoup_client.copies.answer_copy import AnswerCopy, AnyCopy, Synced
from psoup_client.copies.watch import Watching
from psoup_client.costs import MemoryBill, MemoryItem, QueryCost
from psoup_client.derivations import DelayInfo, DerivationInfo, GapInfo, PinInfo
from psoup_client.errors import (
    AccessDenied,
    AlreadyExists,
    BatchesLost,
    Cancelled,
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidData,
    InvalidRequest,
    InvalidStatement,
    NotFound,
    NotSupported,
    OutOfRange,
    PositionLost,
    PSoupError,
    RefusedRow,
    ResourceExhausted,
    RowsRefused,
    ServerFault,
    Unavailable,
)
from psoup_client.explanation import Checked, Explanation, PlanNode, PlanStep, StateBound
from psoup_client.follow import FollowBatch, Following, Match
from psoup_client.group import FollowerInfo, GroupBatch, GroupFollowing, GroupInfo, GroupWorker
from psoup_client.ingest.lost_rows import RowsNotTaken
from psoup_client.ingest.producer import Producer
from psoup_client.ingest.push import Position, PushResult
from psoup_client.ingest.refused_rows import RefusedRows
from psoup_client.ingest.stage import Stage
from psoup_client.queries import AnyQueries, Queries
from psoup_client.query import AnyQuery, Query
from psoup_client.query_info import QueryInfo, QuerySource
from psoup_client.results import Results
from psoup_client.schema import ColumnInfo, CopyState, QueryCounts, ServerInfo, StreamInfo, SuppliedFunction
from psoup_client.service_clock import ServiceClock
from psoup_client.table import AnswerTable, Places, TableFailure, TableGroup
from psoup_client.tuple_reasons import Why, WhyStep

__all__ = [
    "DEFAULT_ADDRESS",
    "Client",
    "ClientOptions",
    "RetryOptions",
    "Query",
    "Queries",
    "AnyQuery",
    "AnyQueries",
    "Altered",
    "Answer",
    "AnswerStream",
    "AnswerTable",
    "TableGroup",
    "TableFailure",
    "Places",
    "AnswerCopy",
    "AnyCopy",
    "Synced",
    "Watching",
    "Following",
    "FollowBatch",
    "Match",
    "Completeness",
    "SourceCompleteness",
    "Checked",
    "Explanation",
    "PlanStep",
    "PlanNode",
    "StateBound",
    "FollowerInfo",
    "GroupFollowing",
    "GroupBatch",
    "GroupInfo",
    "GroupWorker",
    "Producer",
    "PushResult",
    "Position",
    "RefusedRows",
    "RefusedRow",
    "RowsRefused",
    "RowsNotTaken",
    "Stage",
    "BackupResult",
    "Promotion",
    "DumpInfo",
    "AttachSite",
    "AttachResult",
    "CoverSite",
    "CoverChunk",
    "CoverSide",
    "StreamInfo",
    "DerivationInfo",
    "DelayInfo",
    "GapInfo",
    "PinInfo",
    "QueryInfo",
    "QuerySource",
    "QueryCounts",
    "CopyState",
    "ServerInfo",
    "SuppliedFunction",
    "ColumnInfo",
    "MatchResult",
    "Results",
    "Why",
    "WhyStep",
    "QueryCost",
    "MemoryBill",
    "MemoryItem",
    "PSoupError",
    "InvalidRequest",
    "InvalidStatement",
    "NotSupported",
    "InvalidData",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "BatchesLost",
    "FailedPrecondition",
    "OutOfRange",
    "PositionLost",
    "ResourceExhausted",
    "AccessDenied",
    "AccessToken",
    "IssuedToken",
    "Webhook",
    "AddedWebhook",
    "WebhookTest",
    "ServiceClock",
    "Quotas",
    "Tenant",
    "TenantUsage",
    "Unavailable",
    "DeadlineExceeded",
    "Cancelled",
    "ServerFault",
]
