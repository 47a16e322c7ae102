"""Calls of the AdminService: access tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from psoup_client.arguments import checking_arguments
from psoup_client.html import Facts
from psoup_client.session import PAGE, Session
from psoup_client.times import from_proto
from psoup_proto.v1 import admin_pb2


@dataclass(frozen=True, slots=True)
class AccessToken(Facts):
    """An access token without its secret. `expires`: None for never. `streams`: patterns; () for all."""

    id: str
    name: str
    roles: tuple[str, ...]
    streams: tuple[str, ...]
    issued: datetime
    expires: datetime | None
    expired: bool
    tenant: str = "default"

    @classmethod
    def of(cls, token: admin_pb2.Token) -> AccessToken:
        """Convert the service's message."""
        expires = from_proto(token.expire_time) if token.HasField("expire_time") else None
        names = token.token_id, token.name, tuple(token.roles), tuple(token.streams)
        return cls(*names, from_proto(token.issue_time), expires, token.expired, token.tenant)


@dataclass(frozen=True, slots=True)
class IssuedToken(Facts):
    """A new token. `secret`: the token itself. No later call returns it, and `repr` does not show it."""

    token: AccessToken
    secret: str = field(repr=False)


@checking_arguments
class TokenCalls(Session):
    """Calls about access tokens; all need the role operator, but for the first token."""

    def issue_token(
        self,
        name: str,
        roles: Sequence[str],
        *,
        streams: Sequence[str] = (),
        expires_after: timedelta | None = None,
        first: bool = False,
        tenant: str = "",
    ) -> IssuedToken:
        """Issue a token to `name` with some of the roles reader, registrar, producer, owner and operator.

        `streams`: patterns of the streams that a producer may push to. `first`: raise AlreadyExists if there is a token
        already. `tenant`: the token's tenant, which the service's operator may choose; "" for this client's own. Raises
        NotFound for an unknown tenant. The call is tried once: after Unavailable look at `tokens()`, and revoke a token
        whose secret was lost.
        """
        seconds = 0 if expires_after is None else max(round(expires_after.total_seconds()), 1)
        request = admin_pb2.IssueTokenRequest(
            name=name, roles=roles, streams=streams, seconds=seconds, first=first, tenant=tenant
        )
        reply = self.connection.call(self.connection.admin.IssueToken, request, repeat=False)
        self.note_sequence(reply.sequence)
        return IssuedToken(AccessToken.of(reply.token), reply.secret)

    def tokens(self, *, tenant: str = "") -> list[AccessToken]:
        """List the tokens of this client's tenant that were not revoked, also expired ones, in the order of their
        issue.

        The service's operator gets the tokens of all tenants, or of one `tenant`.
        """
        request = admin_pb2.ListTokensRequest(page_size=PAGE, tenant=tenant)
        return [AccessToken.of(token) for token in self._pages(self.connection.admin.ListTokens, request, "tokens")]

    def revoke_token(self, token_id: str) -> AccessToken:
        """Revoke a token, and end the calls that it let in. Raises NotFound for an unknown token."""
        request = admin_pb2.RevokeTokenRequest(token_id=token_id)
        reply = self.connection.call(self.connection.admin.RevokeToken, request)
        self.note_sequence(reply.sequence)
        return AccessToken.of(reply.token)
