"""The calls that only the service that writes takes. A standby refuses them before it looks at the request.

A standby may lack the stream of a push. A client with several addresses must not take that for the answer.
StatementService/Execute writes or reads, as its statement says. Its servicer refuses the statements that write.
"""

from __future__ import annotations

WRITING = frozenset(
    {
        "StreamService/CreateStream",
        "StreamService/AlterStream",
        "StreamService/DropStream",
        "IngestService/Push",
        "IngestService/PushRows",
        "IngestService/PushStream",
        "IngestService/Heartbeat",
        "IngestService/GetProducer",
        "StagingService/BeginStage",
        "StagingService/AddPart",
        "StagingService/CommitStage",
        "StagingService/AbortStage",
        "QueryService/Register",
        "QueryService/RegisterMany",
        "QueryService/Unregister",
        "QueryService/UnregisterMany",
        "QueryService/AlterQueries",
        "GroupService/TakeBatch",
        "GroupService/ConfirmBatch",
        "GroupService/LeaveGroup",
        "GroupService/RemoveGroup",
        "WebhookService/AddWebhook",
        "WebhookService/RemoveWebhook",
        "WebhookService/PauseWebhook",
        "WebhookService/ResumeWebhook",
        "WebhookService/RotateWebhook",
        "WebhookService/TestWebhook",
        "AttachService/BeginAttach",
        "AttachService/Attach",
        "AdminService/IssueToken",
        "AdminService/RevokeToken",
        "AdminService/CreateTenant",
        "AdminService/AlterTenant",
        "AdminService/DropTenant",
    }
)
"""The calls by "Service/Method". The numbers of a producer and the leases of a group go on where batches are taken."""
