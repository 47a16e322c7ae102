"""The OpenID Connect provider whose access tokens are accepted, as settings name it.

    oidc_issuer = "https://id.example.org"          oidc_audience = "psoup"
    oidc_roles = ["analysts=reader+registrar"]      oidc_role_claim = "realm_access.roles"
    oidc_tenant_claim = "team"                      oidc_jwks_url: where its keys are, if it does not say so itself

This module makes no request and needs no library; `psoup_service.gate.oidc` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from psoup.model import DEFAULT_TENANT
from psoup_service.gate.roles import ROLES


@dataclass(frozen=True, slots=True)
class Provider:
    """The settings of a provider: the claims of its tokens, and their meaning.

    `keys_url`: "" if the provider's own document names the URL. `roles`: roles by value of the claim `role_claim`.
    `tenant_claim`: "" if all tokens belong to the tenant `default`. A dot separates the names of nested claims.
    """

    issuer: str
    audience: str
    keys_url: str
    role_claim: str
    roles: Mapping[str, tuple[str, ...]]
    tenant_claim: str = ""

    def roles_in(self, claims: Mapping[str, object]) -> tuple[str, ...]:
        """The roles that the claims name, in a list or as words of a text; `()` without any."""
        said = _claim(claims, self.role_claim)
        values = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
        named = {role for value in values if isinstance(value, str) for role in self.roles.get(value, ())}
        return tuple(role for role in ROLES if role in named)

    def tenant_in(self, claims: Mapping[str, object]) -> str:
        """The tenant that the claims name, "" if they lack it. Without `tenant_claim`, the tenant `default`."""
        if not self.tenant_claim:
            return DEFAULT_TENANT
        said = _claim(claims, self.tenant_claim)
        return said if isinstance(said, str) else ""


def role_table(entries: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Read the setting `oidc_roles`. Without entries, each value is the name of a role. Raises ValueError."""
    table: dict[str, tuple[str, ...]] = {} if entries else {role: (role,) for role in ROLES}
    for entry in entries:
        value, equals, roles = (part.strip() for part in entry.rpartition("="))
        chosen = tuple(role.strip() for role in roles.split("+"))
        if not (value and equals) or not set(chosen) <= set(ROLES):
            raise ValueError(f"{entry!r} is not VALUE=ROLE or VALUE=ROLE+ROLE; roles are {', '.join(ROLES)}")
        if value in table:
            raise ValueError(f"{value!r} is there twice; write its roles in one entry, with + between them")
        table[value] = chosen
    return table


def wrong_provider(issuer: str, audience: str, keys_url: str, others: Mapping[str, object]) -> tuple[str, str] | None:
    """Return an unusable or incomplete setting of the provider, and the reason; None if all are usable.

    `others`: further settings that are not empty. They need these three.
    """
    others = {**({"oidc_jwks_url": keys_url} if keys_url else {}), **others}
    if not issuer and not audience:
        return next(((name, "it goes together with oidc_issuer; give that too") for name in others), None)
    if not (issuer and audience):
        given, missing = ("oidc_issuer", "oidc_audience") if issuer else ("oidc_audience", "oidc_issuer")
        return given, f"it goes together with {missing}; give both or none"
    name, url = ("oidc_jwks_url", keys_url) if keys_url else ("oidc_issuer", issuer)
    if trusted(url):
        return None
    why = "any attacker who changes the keys on their way gets in; write https://, or http:// on loopback"
    return name, why if keys_url else f"{why}, or give oidc_jwks_url, where its keys are"


def trusted(url: str) -> bool:
    """Whether the content of a URL cannot be changed on its way: the URL is https, or of this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and _of_this_machine(host)))


def _of_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _claim(claims: Mapping[str, object], name: str) -> object:
    """A claim by its name. Dots in the name lead to claims within other claims."""
    if name in claims:
        return claims[name]
    value: object = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
