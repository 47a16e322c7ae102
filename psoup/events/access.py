"""Access tokens: what is known of one, the commands about them, and their events.

    IssueToken ──prepare──> TokenIssued      from here on its holder is let in
    RevokeToken ─prepare──> TokenRevoked     from here on nobody is, by that token

Only a digest of a token is in here: neither the log, nor a backup, nor the memory says the token itself. What a role
may do is a matter of the service's gate (`psoup_service.gate.roles`); here roles are words.
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

    `name`: who holds it, for people and the audit log. `digest`: the SHA-256 of the whole token. `streams`: patterns of
    the names of streams that it is for, () for all of its tenant.
    """

    token_id: str
    name: str
    roles: tuple[str, ...]
    digest: bytes
    tenant: str = DEFAULT_TENANT
    streams: tuple[str, ...] = ()
    issued: int = 0
    expires: int = 0
    """When it ends; 0: never."""

    def expired(self, now: int) -> bool:
        """Whether it has ended at the clock's time `now`."""
        return 0 < self.expires <= now


@dataclass(frozen=True, slots=True)
class IssueToken:
    """Let the holder of a token in. `first`: only if there is no token yet, as anybody may ask then."""

    token: AccessToken
    first: bool = False


@dataclass(frozen=True, slots=True)
class RevokeToken:
    """Let nobody in by a token any more. `tenant`: only if it is of that one; "" for any."""

    token_id: str
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class TokenIssued:
    """The holder of a token is let in from here on."""

    sequence: int
    token: AccessToken


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    """A token is gone."""

    sequence: int
    token_id: str
    time: int


def tokens_after(tokens: Mapping[str, AccessToken], event: TokenIssued | TokenRevoked) -> dict[str, AccessToken]:
    """The tokens that stand after an event, by their IDs: a new dictionary. O(tokens)."""
    if isinstance(event, TokenIssued):
        return {**tokens, event.token.token_id: event.token}
    return {token_id: token for token_id, token in tokens.items() if token_id != event.token_id}
