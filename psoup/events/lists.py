"""Commands and events about the lists that the engine only stores.

The lists have access tokens, tenants, groups of followers and webhooks.
"""

from __future__ import annotations

from psoup.events.access import IssueToken, RevokeToken, TokenIssued, TokenRevoked
from psoup.events.groups import ConfirmGroup, DropGroup, FormGroup, GroupChanged
from psoup.events.tenants import AlterTenant, CreateTenant, DropTenant, TenantEvent
from psoup.events.webhooks import WebhookChanged, WebhookCommand

ListCommand = (
    IssueToken
    | RevokeToken
    | CreateTenant
    | AlterTenant
    | DropTenant
    | FormGroup
    | ConfirmGroup
    | DropGroup
    | WebhookCommand
)
"""Commands that change a list."""

ListEvent = TokenIssued | TokenRevoked | TenantEvent | GroupChanged | WebhookChanged
"""Events that change a list."""
