"""Access tokens of an OpenID provider (JWTs), signed with its keys: their claims give the principal.

    eyJ… ─ kid ─> key ─> signature, iss, aud, exp, nbf ─> sub, roles, tenant ─> principal, for a minute
                   └─ a thread fetches keys every five minutes; old keys are kept for a day (`provider_keys`)

PyJWT decodes and verifies (the extra `oidc`). Hints in a token about the place of its key (`jku`, `x5u`, `jwk`) are
ignored. Only asymmetric algorithms that suit the key are accepted. Without a provider none of this is loaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

import jwt

from psoup.errors import PermissionDenied, PSoupError, Unauthenticated, Unavailable
from psoup_service.gate.principal import Principal
from psoup_service.gate.provider import Provider
from psoup_service.gate.provider_keys import KeySource
from psoup_service.host.threads import Threads, on

_FAMILIES = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""The algorithms of each type of key. A key that names its algorithm allows only that one."""

FRESH_S = 300.0
"""Seconds after which the keys are fetched again."""
STALE_S = 86_400.0
"""Seconds for which keys are used while the provider does not answer."""
PAUSE_S = 10.0
"""The least seconds between two attempts to fetch the keys, also if a token names an unknown key."""
_REMEMBERED_S = 60
_REMEMBERED = 10_000
_LEEWAY_S = 10
_TIMES_UNCHECKED = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
_NAME_CHARS = 128
_RETRY_MS = 1_000
_SECOND = 1_000_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Key:
    """A named key. `raw`: its JSON. `key`: the object that verifies signatures by one of the algorithms."""

    name: str
    raw: str
    algorithms: tuple[str, ...]
    key: Any = field(compare=False)


class OpenId:
    """Tokens of one provider, on one event loop. `now`: the clock's time in microseconds. `threads`: pool for fetching
    keys.

    `latest`: the greatest time that the provider's clock may show, if it differs from `now`. No valid token begins
    after it.
    """

    def __init__(
        self, provider: Provider, now: Callable[[], int], threads: Threads, latest: Callable[[], int] | None = None
    ) -> None:
        self.provider = provider
        self._now = now
        self._latest = latest
        self._source = KeySource(provider)
        self._threads = threads
        self._keys: dict[str, _Key] = {}
        self._fetched = self._tried = float("-inf")
        self._wanted = asyncio.Event()
        self._verified: dict[bytes, tuple[Principal, int]] = {}
        """Principals by the digests of their tokens, each with the time until which it is remembered."""

    def principal(self, token: str) -> Principal:
        """The principal of a token. Some microseconds for one that was verified in the last minute, else about 100.

        Raises Unauthenticated, PermissionDenied; Unavailable while the keys are not known, or fetched again.
        """
        digest, now = hashlib.sha256(token.encode()).digest(), self._now()
        verified = self._verified.get(digest)
        if verified is not None and now < verified[1]:
            return verified[0]
        try:
            principal = self._principal(token)
        except jwt.ExpiredSignatureError:
            raise Unauthenticated(
                "the access token has expired; ask the provider for another", reason="TOKEN_EXPIRED"
            ) from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise _not_valid(str(problem)[:200]) from None
        if len(self._verified) >= _REMEMBERED:
            self._verified.clear()
        self._verified[digest] = principal, min(principal.ends, now + _REMEMBERED_S * _SECOND)
        return principal

    async def run(self) -> None:
        """Fetch the keys regularly, and when a token names an unknown key, until cancelled."""
        while True:
            keys = await self.fetch()
            await asyncio.sleep(PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), FRESH_S if keys else 0)

    async def fetch(self) -> bool:
        """Fetch the keys; if that fails, the old keys are kept for a day. Returns whether there are keys."""
        self._tried = time.monotonic()
        self._wanted.clear()
        try:
            keys = await on(self._threads.gate, self._read)
        except (jwt.PyJWTError, HTTPException, OSError, ValueError, TypeError, RecursionError) as problem:
            _log.warning("the keys of the OpenID provider could not be fetched", extra={"problem": str(problem)[:200]})
            if self._tried - self._fetched > STALE_S:
                self._keys = {}
                self._verified.clear()
            return False
        if keys != self._keys:
            self._verified.clear()
        self._keys = keys
        self._fetched = self._tried
        return True

    def _read(self) -> dict[str, _Key]:
        """Fetch the keys of the provider, by name. Raises ValueError if none of them can be used."""
        read = (_key_of(raw) for raw in self._source.listed())
        keys = {key.name: key for key in read if key is not None}
        if not keys:
            raise ValueError(f"{self._source.url} has no key for signatures that is known here")
        return keys

    def _principal(self, token: str) -> Principal:
        header = jwt.get_unverified_header(token)
        key = self._key(header.get("kid"))
        options: Any = {"require": ["exp", "iss", "aud", "sub"], **_TIMES_UNCHECKED}
        provider = self.provider
        claims = jwt.decode(
            token,
            key.key,
            algorithms=list(key.algorithms),
            audience=provider.audience,
            issuer=provider.issuer,
            options=options,
        )
        self._check_times(claims)
        name, tenant, roles = str(claims["sub"])[:_NAME_CHARS], provider.tenant_in(claims), provider.roles_in(claims)
        if not tenant:
            raise _not_valid(f"it names no tenant: the claim {provider.tenant_claim} is a text")
        if not roles:
            raise PermissionDenied(
                f"the claim {provider.role_claim} of {name!r} stands for no role here; ask the service's operator",
                reason="PERMISSION_DENIED",
            )
        return Principal(name, roles, tenant, ends=(int(claims["exp"]) + _LEEWAY_S) * _SECOND)

    def _check_times(self, claims: dict[str, Any]) -> None:
        """Check the begin and the end of a token by the service's clock. PyJWT would check them by the wall clock."""
        now, leeway = self._now(), _LEEWAY_S * _SECOND
        if int(claims["exp"]) * _SECOND <= now - leeway:
            raise jwt.ExpiredSignatureError("Signature has expired")
        latest = now if self._latest is None else self._latest()
        for name in ("nbf", "iat"):
            if name in claims and int(claims[name]) * _SECOND > latest + leeway:
                raise jwt.ImmatureSignatureError(f"The token is not yet valid ({name})")

    def _key(self, name: Any) -> _Key:
        """The key of this name.

        Raises Unavailable if the keys must be fetched first, Unauthenticated for an unknown key.
        """
        if not isinstance(name, str):
            raise _not_valid("it does not name its key (kid)")
        if name in self._keys:
            return self._keys[name]
        if not self._keys or time.monotonic() - self._tried > PAUSE_S:
            self._wanted.set()
            raise _later()
        raise _not_valid("its provider has no such key")


def _key_of(raw: dict[str, Any]) -> _Key | None:
    """A key from the provider's JSON; None unless it is a named public key for signatures."""
    name, algorithm = raw.get("kid"), raw.get("alg")
    algorithms = [
        family_member for family_member in _FAMILIES.get(str(raw.get("kty")), ()) if algorithm in (None, family_member)
    ]
    if not (isinstance(name, str) and algorithms) or raw.get("use", "sig") != "sig" or "d" in raw:
        return None
    try:
        return _Key(name, json.dumps(raw, sort_keys=True), tuple(algorithms), jwt.PyJWK(raw, algorithms[0]).key)
    except jwt.PyJWTError:
        return None


def _later() -> PSoupError:
    return Unavailable(
        "the keys of the tokens' provider are being fetched; try again in a second",
        reason="KEYS_FETCHED",
        retry_after_ms=_RETRY_MS,
    )


def _not_valid(why: str) -> Unauthenticated:
    return Unauthenticated(f"the access token is not valid here: {why}", reason="TOKEN_INVALID")
