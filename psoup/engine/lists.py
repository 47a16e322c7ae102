"""The lists that the engine only stores: access tokens, tenants, groups of followers and webhooks.

Each change makes a new dictionary, because snapshots share the old one.
"""

from __future__ import annotations

from collections.abc import Mapping

from psoup.events.access import AccessToken, TokenIssued, TokenRevoked, tokens_after
from psoup.events.groups import FollowerGroup, GroupChanged, GroupKey, groups_after, groups_without
from psoup.events.lists import ListEvent
from psoup.events.tenants import FIRST_TENANT, Tenant, TenantDropped, tenants_after
from psoup.events.webhooks import Webhook, WebhookChanged, webhooks_after, webhooks_without

Published = tuple[
    Mapping[str, AccessToken], Mapping[str, Tenant], Mapping[GroupKey, FollowerGroup], Mapping[int, Webhook]
]


class Lists:
    """The valid tokens, the tenants, the groups and the webhooks after the last applied event."""

    def __init__(self) -> None:
        self.tokens: dict[str, AccessToken] = {}
        self.tenants: dict[str, Tenant] = {FIRST_TENANT.name: FIRST_TENANT}
        self.groups: dict[GroupKey, FollowerGroup] = {}
        self.webhooks: dict[int, Webhook] = {}

    @property
    def published(self) -> Published:
        """The lists in the order in which a snapshot has them."""
        return self.tokens, self.tenants, self.groups, self.webhooks

    def apply(self, event: ListEvent) -> None:
        """Apply an event. O(length of its list)."""
        if isinstance(event, GroupChanged):
            self.groups = groups_after(self.groups, event)
        elif isinstance(event, WebhookChanged):
            self.webhooks = webhooks_after(self.webhooks, event)
        elif isinstance(event, TokenIssued | TokenRevoked):
            self.tokens = tokens_after(self.tokens, event)
        else:
            self.tenants = tenants_after(self.tenants, event)
            if isinstance(event, TenantDropped):
                self.webhooks = webhooks_without(self.webhooks, event.name)

    def drop_stream(self, stream_id: int) -> None:
        """Forget the groups of a dropped stream. O(groups)."""
        self.groups = groups_without(self.groups, stream_id)
