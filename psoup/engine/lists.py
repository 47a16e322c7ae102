"""The lists that the engine only stores: access tokens, tenants and groups of followers.

Each change makes a new dictionary, because snapshots share the old one.
"""

from __future__ import annotations

from psoup.events.access import AccessToken, TokenIssued, TokenRevoked, tokens_after
from psoup.events.groups import FollowerGroup, GroupChanged, GroupKey, groups_after, groups_without
from psoup.events.tenants import FIRST_TENANT, Tenant, TenantEvent, tenants_after


class Lists:
    """The valid tokens, the tenants and the groups after the last applied event."""

    def __init__(self) -> None:
        self.tokens: dict[str, AccessToken] = {}
        self.tenants: dict[str, Tenant] = {FIRST_TENANT.name: FIRST_TENANT}
        self.groups: dict[GroupKey, FollowerGroup] = {}

    def apply(self, event: TokenIssued | TokenRevoked | TenantEvent | GroupChanged) -> None:
        """Apply an event. O(length of its list)."""
        if isinstance(event, GroupChanged):
            self.groups = groups_after(self.groups, event)
        elif isinstance(event, TokenIssued | TokenRevoked):
            self.tokens = tokens_after(self.tokens, event)
        else:
            self.tenants = tenants_after(self.tenants, event)

    def drop_stream(self, stream_id: int) -> None:
        """Forget the groups of a dropped stream. O(groups)."""
        self.groups = groups_without(self.groups, stream_id)
