"""Decisions about access tokens: which may be issued, and which may be revoked.

    no token yet     the first must be an operator's, as only an operator can issue the next
    some tokens      an unexpired operator's token must remain, for the same reason

In this module, only operators of the tenant `default` count as operators. Operators of other tenants serve only their
own tenant. Only `KnownTokens.adopt` changes state.
"""

from __future__ import annotations

from dataclasses import replace

from psoup.admission.tenants import KnownTenants
from psoup.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound, ResourceExhausted
from psoup.events.access import OPERATOR, AccessToken, IssueToken, RevokeToken, TokenIssued, TokenRevoked
from psoup.events.acknowledgements import Prepared, TokenAcknowledgement
from psoup.model import DEFAULT_TENANT

MOST_TOKENS = 10_000
"""The most valid tokens of all tenants."""

MOST_OF_TENANT = 1_000
"""The most tokens of one tenant other than `default`, so that no tenant takes all places."""

SHARE = 4
"""The divisor of the free places: a tenant other than `default` may take a quarter of them, and at least one.

If ten tenants take all they may, each has about 700 tokens, and 2,800 places stay free. A hundred tenants have 95 each,
and 380 places stay free.
"""

RESERVED = 100
"""Places reserved for tokens of the tenant `default`, so that the service's operator can always issue one."""


class KnownTokens(dict[str, AccessToken]):
    """The valid tokens by their IDs, after the last prepared event."""

    def adopt(self, event: TokenIssued | TokenRevoked) -> None:
        """Add the issued token, or remove the revoked one. O(1)."""
        if isinstance(event, TokenIssued):
            self[event.token.token_id] = event.token
        else:
            self.pop(event.token_id, None)


def decide_token(
    command: IssueToken | RevokeToken, tokens: KnownTokens, tenants: KnownTenants, sequence: int, now: int
) -> Prepared:
    """Decide on issuing or revoking a token. `sequence`: the sequence that its event gets. O(tokens).

    Raises AlreadyExists if `command` asks for the first token and there are tokens. Raises InvalidInput for a first
    token that is not an operator's. Raises ResourceExhausted above a limit, and NotFound for an unknown token or
    tenant. Raises FailedPrecondition for the removal of the last operator's token.
    """
    if isinstance(command, IssueToken):
        tenants.known(command.token.tenant)
        _check_new(command, tokens, now)
        token = replace(command.token, issued=now)
        return Prepared(TokenAcknowledgement(sequence, token=token), TokenIssued(sequence, token))
    token = _check_known(command, tokens, now)
    return Prepared(TokenAcknowledgement(sequence, token=token), TokenRevoked(sequence, command.token_id, now))


def _check_new(command: IssueToken, tokens: KnownTokens, now: int) -> None:
    token = command.token
    if command.first and tokens:
        raise AlreadyExists(
            "there are access tokens already; an operator's token issues more of them (psoup token issue), and so does"
            " psoup admin init --data-dir on the stopped service's directory",
            reason="TOKENS_EXIST",
        )
    if not tokens and (not _operates(token) or token.expires):
        raise InvalidInput(
            "the first token must have the role operator and no end, as it issues all others; psoup admin init"
            " makes it",
            reason="FIRST_TOKEN",
            field="roles",
        )
    if token.token_id in tokens:
        raise AlreadyExists(f"there is a token {token.token_id} already; try again", reason="TOKEN_EXISTS")
    if token.expired(now):
        raise InvalidInput("the token would have expired already; give a later end", field="expires")
    if token.tenant != DEFAULT_TENANT:
        _check_share(token.tenant, tokens)
    if len(tokens) >= MOST_TOKENS:
        raise ResourceExhausted(
            f"{MOST_TOKENS:,} tokens stand, the limit; revoke tokens that are not in use",
            reason="TOO_MANY_TOKENS",
            limit=MOST_TOKENS,
        )


def _check_share(tenant: str, tokens: KnownTokens) -> None:
    """Raise ResourceExhausted if a tenant other than `default` may have no further token. O(tokens)."""
    count, left = sum(other.tenant == tenant for other in tokens.values()), MOST_TOKENS - RESERVED - len(tokens)
    limit = min(MOST_OF_TENANT, max(left // SHARE, 1)) if left > 0 else 0
    if count < limit:
        return
    why = "the most that one tenant may have"
    if limit < MOST_OF_TENANT:
        why = f"and one tenant may have {limit:,} while {len(tokens):,} of {MOST_TOKENS:,} stand"
    raise ResourceExhausted(
        f"{count:,} tokens of tenant {tenant!r} stand, {why}; revoke tokens that are not in use, also those that have"
        " expired, or ask the service's operator to revoke those of other tenants",
        reason="TOO_MANY_TOKENS",
        tenant=tenant,
        used=count,
        limit=limit,
    )


def _check_known(command: RevokeToken, tokens: KnownTokens, now: int) -> AccessToken:
    token = tokens.get(command.token_id)
    if token is None or command.tenant not in ("", token.tenant):
        raise NotFound(
            f"there is no token {command.token_id!r}; it was never issued, or it was revoked",
            reason="UNKNOWN_TOKEN",
            token=command.token_id[:40],
        )
    others = (other for other in tokens.values() if other is not token)
    if _operates(token) and not any(_operates(other) and not other.expired(now) for other in others):
        raise FailedPrecondition(
            f"{token.token_id} is the last token of an operator, who issues all others; issue one first",
            reason="LAST_OPERATOR",
            token=token.token_id,
        )
    return token


def _operates(token: AccessToken) -> bool:
    """Whether a token belongs to an operator of the service."""
    return OPERATOR in token.roles and token.tenant == DEFAULT_TENANT
