"""The roles that may make each call, as one table. A call that the table lacks is always refused.

    reader      answers, and lists of streams and queries
    registrar   the same, registering and removing queries, and webhooks
    producer    pushes, and the facts that a producer needs for them
    owner       all of these, and streams
    operator    tokens, and jobs that read and write the disk; data only with another role beside it. An operator of
                the tenant `default` runs the service: only this role manages tenants, backups and all tokens

A token has at least one role. `ANYBODY` is the role without a credential, for a probe that checks whether the service
serves.
"""

from __future__ import annotations

from collections.abc import Collection

ANYBODY = "anybody"
READER, REGISTRAR, PRODUCER, OWNER, OPERATOR = ROLES = ("reader", "registrar", "producer", "owner", "operator")
"""The roles that a token may have."""

_READS = frozenset({READER, REGISTRAR, OWNER})
_REGISTERS = frozenset({REGISTRAR, OWNER})
_PUSHES = frozenset({PRODUCER, OWNER})
_OWNS = frozenset({OWNER})
_OPERATES = frozenset({OPERATOR})
_ALL = frozenset(ROLES)

ALLOWED: dict[str, frozenset[str]] = {
    "StreamService/CreateStream": _OWNS,
    "StreamService/AlterStream": _OWNS,
    "StreamService/DropStream": _OWNS,
    "StreamService/ListStreams": _READS | _OPERATES,
    "StreamService/GetStream": _ALL,
    "StatementService/Ask": _READS,
    "StatementService/AskStream": _READS,
    "StatementService/Execute": _OWNS,
    "IngestService/Push": _PUSHES,
    "IngestService/PushRows": _PUSHES,
    "IngestService/PushStream": _PUSHES,
    "IngestService/Heartbeat": _PUSHES,
    "IngestService/GetProducer": _PUSHES,
    "IngestService/TupleIds": _READS | _PUSHES,
    "StagingService/BeginStage": _PUSHES,
    "StagingService/AddPart": _PUSHES,
    "StagingService/CommitStage": _PUSHES,
    "StagingService/AbortStage": _PUSHES,
    "QueryService/Register": _REGISTERS,
    "QueryService/RegisterMany": _REGISTERS,
    "QueryService/Unregister": _REGISTERS,
    "QueryService/UnregisterMany": _REGISTERS,
    "QueryService/AlterQueries": _REGISTERS,
    "QueryService/GetQuery": _READS,
    "QueryService/ListQueries": _READS,
    "QueryService/Explain": _READS,
    "QueryService/Check": _READS,
    "QueryService/Invoke": _READS,
    "QueryService/InvokeMany": _READS,
    "QueryService/InvokeStream": _READS,
    "QueryService/InvokeTable": _READS,
    "QueryService/InvokeRows": _READS,
    "QueryService/Matches": _READS,
    "QueryService/MatchesMany": _READS,
    "QueryService/TopQueries": _READS,
    "QueryService/WaitForSequence": _ALL,
    "MatchingService/Match": _READS,
    "MatchingService/MatchesBetween": _READS,
    "MatchingService/Results": _READS,
    "MatchingService/Why": _READS,
    "SyncService/Sync": _READS,
    "SyncService/Watch": _READS,
    "FollowService/Follow": _READS,
    "GroupService/TakeBatch": _READS,
    "GroupService/ConfirmBatch": _READS,
    "GroupService/LeaveGroup": _READS,
    "GroupService/ListGroups": _READS,
    "GroupService/RemoveGroup": _REGISTERS,
    "WebhookService/AddWebhook": _REGISTERS,
    "WebhookService/ListWebhooks": _REGISTERS,
    "WebhookService/RemoveWebhook": _REGISTERS,
    "WebhookService/PauseWebhook": _REGISTERS,
    "WebhookService/ResumeWebhook": _REGISTERS,
    "WebhookService/RotateWebhook": _REGISTERS,
    "WebhookService/TestWebhook": _REGISTERS,
    "ServerService/GetServerInfo": _ALL,
    "AttachService/BeginAttach": _OPERATES,
    "AttachService/Attach": _OPERATES,
    "CoverService/BeginCover": _OPERATES,
    "CoverService/Cover": _OPERATES,
    "BackupService/Backup": _OPERATES,
    "AdminService/IssueToken": _OPERATES,
    "AdminService/ListTokens": _OPERATES,
    "AdminService/RevokeToken": _OPERATES,
    "AdminService/CreateTenant": _OPERATES,
    "AdminService/AlterTenant": _OPERATES,
    "AdminService/DropTenant": _OPERATES,
    "AdminService/GetTenant": _ALL,
    "AdminService/TenantUsage": _OWNS | _OPERATES,
    "AdminService/ListTenants": _OPERATES,
    "AdminService/AcceptClock": _OPERATES,
    "AdminService/Promote": _OPERATES,
    "Health/Check": _ALL | {ANYBODY},
    "Health/Watch": _ALL,
    "ServerReflection/ServerReflectionInfo": _ALL,
}
"""The roles that may make each call, by "Service/Method". A test compares the table with the server's methods."""


OF_THE_SERVICE = frozenset(
    {
        "BackupService/Backup",
        "AdminService/CreateTenant",
        "AdminService/AlterTenant",
        "AdminService/DropTenant",
        "AdminService/ListTenants",
        "AdminService/AcceptClock",
        "AdminService/Promote",
    }
)
"""Calls about all tenants. The caller needs a role in the tenant `default`."""


def may(roles: Collection[str], method: str) -> bool:
    """Whether one of the roles may make a call. O(roles)."""
    allowed = ALLOWED.get(method, frozenset())
    return any(role in allowed for role in roles)
