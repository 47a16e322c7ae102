"""The lists that admission stores beside streams and queries: access tokens, tenants, groups and webhooks.

    command ── decide ──> event ── adopt ──> the list after it

Only `adopt` and `drop_stream` change state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from psoup.admission.access import KnownTokens, decide_token
from psoup.admission.catalog import KnownTenant
from psoup.admission.groups import KnownGroups, decide_group
from psoup.admission.next_ids import NextIds
from psoup.admission.queries.query_streams import Owners
from psoup.admission.queries.tags import KnownTags
from psoup.admission.tenants import KnownTenants, decide_tenant
from psoup.admission.webhooks import KnownWebhooks, decide_webhook
from psoup.events.access import IssueToken, RevokeToken, TokenIssued, TokenRevoked
from psoup.events.acknowledgements import Prepared
from psoup.events.events import StreamDropped
from psoup.events.groups import ConfirmGroup, DropGroup, FormGroup, GroupChanged
from psoup.events.lists import ListCommand, ListEvent
from psoup.events.tenants import AlterTenant, CreateTenant, DropTenant, TenantAltered, TenantCreated, TenantDropped
from psoup.events.webhooks import (
    AddWebhook,
    AdvanceWebhook,
    DropWebhook,
    PauseWebhook,
    ResumeWebhook,
    RotateWebhook,
    WebhookChanged,
)


class KnownLists:
    """The lists after the last prepared event."""

    def __init__(self, owners: Mapping[str, KnownTenant], queries: Owners, tags: KnownTags, ids: NextIds) -> None:
        """`owners`: the streams of each tenant. `queries`, `tags`: for the keys of queries. `ids`: of new webhooks."""
        self._owners = owners
        self._queries = queries
        self._tags, self._ids = tags, ids
        self.tokens = KnownTokens()
        self.tenants = KnownTenants()
        self.groups = KnownGroups()
        self.webhooks = KnownWebhooks()

    def decide(self, command: ListCommand, sequence: int, now: int) -> Prepared:
        """Decide on a command. `sequence`: the sequence of the last event. O(length of its list).

        Raises the errors of `decide_token`, `decide_tenant`, `decide_group` and `decide_webhook`.
        """
        match command:
            case IssueToken() | RevokeToken():
                return decide_token(command, self.tokens, self.tenants, sequence + 1, now)
            case CreateTenant() | AlterTenant() | DropTenant():
                streams = len(self._owner(command.name).streams)
                return decide_tenant(command, self.tenants, self.tokens.values(), streams, sequence + 1, now)
            case FormGroup() | ConfirmGroup() | DropGroup():
                return decide_group(command, self._owner(command.tenant), self.groups, sequence, now)
            case AddWebhook() | AdvanceWebhook() | PauseWebhook() | ResumeWebhook() | RotateWebhook() | DropWebhook():
                places = self._tags, self._queries, self._ids
                return decide_webhook(command, self.webhooks, *places, sequence, now)
            case _:
                assert_never(command)

    def adopt(self, event: ListEvent) -> None:
        """Apply an event. O(length of its list)."""
        match event:
            case TokenIssued() | TokenRevoked():
                self.tokens.adopt(event)
            case TenantCreated() | TenantAltered() | TenantDropped():
                self.tenants.adopt(event)
                if isinstance(event, TenantDropped):
                    self.webhooks.forget(event.name)
            case GroupChanged():
                self.groups.adopt(event)
            case WebhookChanged():
                self.webhooks.adopt(event)
            case _:
                assert_never(event)

    def drop_stream(self, event: StreamDropped) -> None:
        """Forget the groups of a dropped stream. O(groups)."""
        self.groups.forget(event)

    def _owner(self, name: str) -> KnownTenant:
        """A tenant's streams. For a tenant without streams so far, a new empty state."""
        return self._owners.get(name) or KnownTenant()
