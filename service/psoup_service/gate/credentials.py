"""The gate: it finds the principal of a call, checks its roles, and ends calls whose token is gone.

    call ─> credential ─> principal ─> role ─> under way ─── revoked, expired ──> ended: UNAUTHENTICATED
               │              │          └─ PERMISSION_DENIED
               └──────────────┴─ UNAUTHENTICATED

The gate decides before a request's body is read. As long as the log has no token, local callers need no credential. So
the service of a single user stays simple. From the first token on, every call needs one. A refusal depends only on the
credential and the method's name, never on the data of the service.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from psoup.errors import PermissionDenied, PSoupError, Unauthenticated
from psoup.events.access import AccessToken
from psoup.model import DEFAULT_TENANT
from psoup_service.gate.audit import Audit
from psoup_service.gate.principal import EVERYBODY, STRANGER, Principal
from psoup_service.gate.roles import ANYBODY, OF_THE_SERVICE, may
from psoup_service.gate.tokens import PREFIX, digest_of, id_of

EVERY_S = 1.0
"""Seconds between two looks at the calls under way, for tokens that have expired."""

SCHEME = "Bearer "
_NEEDED = (
    "this service needs an access token: set PSOUP_TOKEN_FILE or PSOUP_TOKEN; an operator issues"
    " tokens (psoup token issue)"
)
_NOT_VALID = "the access token is not valid here: it is torn, was revoked, or is of another service; ask its operator"

Tokens = Callable[[], Mapping[str, AccessToken]]
"""Returns the tokens that are not revoked, by their IDs. Raises Unavailable during a start, before they are known."""


class GateCaller(Protocol):
    """The caller's side of a call, as the gate sees it. `principal`: set by the gate."""

    principal: Principal

    def certificate_names(self) -> Sequence[str]:
        """The names in the client's certificate, the most important first; empty without a certificate."""
        ...

    def certificate_ends(self) -> int:
        """The end of the client's certificate, in microseconds since 1970. Called only if the certificate has names."""
        ...

    def authorization(self) -> str:
        """The value of the metadata `authorization`, "" if it is missing."""
        ...

    def peer(self) -> str:
        """The name of the connection."""
        ...

    def about(self) -> str:
        """The subject of the call, for the audit log; "" if it is not known."""
        ...


class OpenIdTokens(Protocol):
    """Tokens of a provider of OpenID Connect (`psoup_service.gate.oidc`)."""

    def principal(self, token: str) -> Principal:
        """The principal of a token. Raises Unauthenticated, PermissionDenied, Unavailable."""
        ...

    async def run(self) -> None:
        """Keep the provider's keys up to date, until cancelled."""
        ...


class Gate:
    """The check of every call, on one event loop.

    `tokens`: returns the tokens that are not revoked. `closed`: every caller needs a credential, even before the first
    token. `now`: the clock's time in microseconds. `audit`: the log of changes and refusals. `certificates`: principals
    by the names in a certificate. `tenants`: returns the existing tenants. `openid`: tokens of an OpenID provider.
    """

    def __init__(
        self,
        tokens: Tokens,
        now: Callable[[], int],
        audit: Audit,
        *,
        closed: bool,
        certificates: Mapping[str, Principal] = MappingProxyType({}),
        tenants: Callable[[], Container[str]] = lambda: (DEFAULT_TENANT,),
        openid: OpenIdTokens | None = None,
    ) -> None:
        self.audit = audit
        self._certificates = certificates
        self._tokens = tokens
        self._now = now
        self._closed = closed
        self._tenants = tenants
        self._openid = openid
        self._open: dict[Callable[[PSoupError], None], Principal] = {}
        """The principals of the open calls whose credential can end, by the function that ends the call."""

    def admit(self, method: str, caller: GateCaller) -> Principal:
        """Identify the caller of `method` ("Service/Method") and check its roles. O(1), some microseconds.

        Sets the caller's principal, even if the call is refused for its roles. Raises Unauthenticated and
        PermissionDenied; Unavailable during a start, until the tokens are known.
        """
        if may((ANYBODY,), method):
            return STRANGER
        tokens = self._tokens()
        if self._is_open(tokens):
            caller.principal = EVERYBODY
            return EVERYBODY
        principal = caller.principal = self._principal(caller, tokens)
        if not may(principal.roles, method):
            raise PermissionDenied(
                f"the roles of {principal.name!r} ({', '.join(principal.roles)}) do not include {method}; ask the"
                " operator for a token that does",
                reason="PERMISSION_DENIED",
                call=method,
            )
        if method in OF_THE_SERVICE and not principal.serves:
            raise PermissionDenied(
                f"{method} is about all tenants, and {principal.name!r} is of tenant {principal.tenant!r}; ask the"
                " service's operator, whose token is of tenant 'default'",
                reason="PERMISSION_DENIED",
                call=method,
            )
        return principal

    def is_open(self) -> bool:
        """Whether callers need no credential. Raises Unavailable during a start, until the tokens are known."""
        return self._is_open(self._tokens())

    def tell(self, method: str, outcome: str, caller: GateCaller) -> None:
        """Write a line of the audit log about a call that has ended."""
        self.audit.note(self._now(), method, outcome, caller.principal, peer=caller.peer(), object=caller.about())

    def under_way(
        self, principal: Principal, end: Callable[[], Callable[[PSoupError], None]]
    ) -> AbstractContextManager[None]:
        """The context of an open call. The gate ends the call when its credential is revoked or expires.

        `end`: makes the function that ends the call.
        """
        return _UnderWay(self._open, principal, end()) if principal.token_id or principal.ends else _NEVER_ENDED

    def look(self) -> None:
        """End the calls under way whose token is revoked, or whose credential has expired. O(calls under way)."""
        if not self._open:
            return
        tokens, now = self._tokens(), self._now()
        for end, principal in [*self._open.items()]:
            token = tokens.get(principal.token_id)
            if principal.ends:
                if now >= principal.ends:
                    end(_over(principal))
            elif token is None:
                end(Unauthenticated(_NOT_VALID, reason="TOKEN_INVALID"))
            elif token.expired(now):
                end(_expired(token))

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()

    async def fetch(self) -> None:
        """Keep the provider's keys up to date, until cancelled. Returns at once without a provider."""
        if self._openid is not None:
            await self._openid.run()

    def _is_open(self, tokens: Mapping[str, AccessToken]) -> bool:
        return not tokens and not self._closed

    def _principal(self, caller: GateCaller, tokens: Mapping[str, AccessToken]) -> Principal:
        authorization = caller.authorization()
        if not authorization:
            names = caller.certificate_names() if self._certificates else ()
            for name in names:
                if name in self._certificates:
                    return self._of_a_certificate(self._certificates[name], caller.certificate_ends())
            raise Unauthenticated(_NEEDED + _unknown(names), reason="NO_CREDENTIAL")
        text = authorization.removeprefix(SCHEME)
        if self._openid is not None and text != authorization and not text.startswith(PREFIX):
            return self._of_a_tenant(self._openid.principal(text), "its token")
        token_id = id_of(text)
        token = None if token_id is None or text == authorization else tokens.get(token_id)
        if not hmac.compare_digest(digest_of(text), _NO_DIGEST if token is None else token.digest) or token is None:
            raise Unauthenticated(_NOT_VALID, reason="TOKEN_INVALID")
        if token.expired(self._now()):
            raise _expired(token)
        return Principal(token.name, token.roles, token.tenant, token.token_id, token.streams)

    def _of_a_certificate(self, named: Principal, ends: int) -> Principal:
        """The principal of a certificate. Raises Unauthenticated if it has expired.

        TLS checks the end only in the handshake, and the connection may last longer.
        """
        principal = replace(named, ends=ends)
        if self._now() >= ends:
            raise _over(principal)
        return self._of_a_tenant(principal, "certificate_roles")

    def _of_a_tenant(self, principal: Principal, by: str) -> Principal:
        """The principal of a certificate or a provider's token; raises Unauthenticated if the tenant is not there."""
        if not principal.serves and principal.tenant not in self._tenants():
            raise Unauthenticated(
                f"{principal.name!r} is of tenant {principal.tenant[:64]!r} by {by}, and there is no such tenant; the"
                " service's operator creates it (psoup tenant create)",
                reason="UNKNOWN_TENANT",
            )
        return principal


class _UnderWay:
    """Context in which a call is listed as open."""

    __slots__ = ("_end", "_open", "_principal")

    def __init__(
        self,
        calls: dict[Callable[[PSoupError], None], Principal],
        principal: Principal,
        end: Callable[[PSoupError], None],
    ) -> None:
        self._open = calls
        self._principal = principal
        self._end = end

    def __enter__(self) -> None:
        self._open[self._end] = self._principal

    def __exit__(self, *_: object) -> None:
        del self._open[self._end]


_NEVER_ENDED = nullcontext()

_NO_DIGEST = bytes(32)
"""The digest that stands for unknown tokens, so that the comparison takes as long as for a known token."""


def _unknown(names: Sequence[str]) -> str:
    """The message for a certificate whose names stand for no principal."""
    shown = ", ".join(repr(name[:100]) for name in names[:3])
    return f"; the names of your certificate ({shown}) are not in its certificate_roles" if names else ""


def _over(principal: Principal) -> Unauthenticated:
    """The error for an expired certificate or an expired token of a provider."""
    credential, reason = (
        ("certificate", "CERTIFICATE_EXPIRED") if principal.certified else ("access token", "TOKEN_EXPIRED")
    )
    return Unauthenticated(f"the {credential} of {principal.name!r} has expired; connect with a new one", reason=reason)


def _expired(token: AccessToken) -> Unauthenticated:
    return Unauthenticated(
        f"the access token {token.token_id} of {token.name!r} has expired; ask the operator for another",
        reason="TOKEN_EXPIRED",
    )
