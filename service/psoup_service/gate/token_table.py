"""The present tokens and tenants for the gate, which also asks while the service starts."""

from __future__ import annotations

from collections.abc import Mapping

from psoup.errors import Unavailable
from psoup.events.access import AccessToken
from psoup.events.tenants import Tenant
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host


class TokenTable:
    """The published tokens. `guarded`: no caller is let in before the tokens are known."""

    def __init__(self, host: Host[Snapshot], guarded: bool) -> None:
        self._host = host
        self._guarded = guarded

    def tokens(self) -> Mapping[str, AccessToken]:
        """The access tokens by their IDs. Raises Unavailable while a guarded service starts."""
        if self._host.state != "starting":
            return self._host.snapshot().tokens
        if self._guarded:
            raise _starting()
        return {}

    def tenants(self) -> Mapping[str, Tenant]:
        """The tenants by their names. Raises Unavailable while the service starts."""
        if self._host.state == "starting":
            raise _starting()
        return self._host.snapshot().tenants


def _starting() -> Unavailable:
    return Unavailable("the service is starting; try again in a moment", reason="STARTING")
