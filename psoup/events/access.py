"""Access tokens: the record of a token, the commands about tokens, and their events.

    IssueToken ──prepare──> TokenIssued      from here on the token is valid
    RevokeToken ─prepare──> TokenRevoked     from here on it is not

PSoup stores only a digest of a token. Neither the log, nor a backup, nor memory has the token itself. The service's
gate defines the rights of each role (`psoup_service.gate.roles`). This module only stores the names of roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psoup.model import DEFAULT_TENANT

OPERATOR = "operator"
"""The role that issues and revokes tokens."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token, without its secret. Times are in microseconds since 1970 UTC.

    `name`: the holder, for people and the audit log. `digest`: the SHA-256 of the whole token. `streams`: patterns of
    stream names that it allows, () for all streams of its tenant.
    """

    token_id: str
    name: str
    roles: tuple[str, ...]
    digest: bytes
    tenant: str = DEFAULT_TENANT
    streams: tuple[str, ...] = ()
    issued: int = 0
    expires: int = 0
    """The time at which the token expires. 0: it never expires."""

    def expired(self, now: int) -> bool:
        """Whether the token has expired at the clock's time `now`."""
        return 0 < self.expires <= now


@dataclass(frozen=True, slots=True)
class IssueToken:
    """Make a token valid. `first`: refuse the command if the service has a token, because the caller needs none."""

    token: AccessToken
    first: bool = False


@dataclass(frozen=True, slots=True)
class RevokeToken:
    """Make a token invalid. `tenant`: refuse the command unless the token belongs to this tenant. With "", it may
    belong to any tenant."""

    token_id: str
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class TokenIssued:
    """A token is valid from this event on."""

    sequence: int
    token: AccessToken


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    """A token is no longer valid."""

    sequence: int
    token_id: str
    time: int


def tokens_after(tokens: Mapping[str, AccessToken], event: TokenIssued | TokenRevoked) -> dict[str, AccessToken]:
    """The valid tokens after an event, by their IDs. The result is a new dictionary. O(tokens)."""
    if isinstance(event, TokenIssued):
        return {**tokens, event.token.token_id: event.token}
    return {token_id: token for token_id, token in tokens.items() if token_id != event.token_id}
