"""The access tokens and tenants of the data directory of `format_fixture`."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import Any

from psoup.events.access import AccessToken, IssueToken, RevokeToken
from psoup.events.tenants import AlterTenant, CreateTenant, DropTenant
from psoup.local import LocalPSoup


def let_in(soup: LocalPSoup, end: int) -> None:
    """Issue access tokens, and revoke one. `end`: a time at which all of them are valid."""
    for number, roles in enumerate((("operator",), ("reader", "producer"), ("owner",))):
        digest = bytes([number]) * 32
        streams = ("read*",) if number == 1 else ()
        token = AccessToken(
            f"token{number:05}", f"holder {number}", roles, digest, streams=streams, expires=end * number
        )
        soup.submit(IssueToken(token, first=not number))
    soup.submit(RevokeToken("token00002"))


def part(soup: LocalPSoup) -> None:
    """Create tenants, change one and drop one, and issue a token of one."""
    for name in ("acme", "brief", "corner"):
        soup.submit(CreateTenant(name))
    soup.submit(AlterTenant("acme", {"queries": 7, "join_share": 0.5, "streams": 0}))
    soup.submit(AlterTenant("default", {"weight": 3}))
    soup.submit(DropTenant("brief"))
    soup.submit(IssueToken(AccessToken("token00003", "holder 3", ("owner",), bytes([3]) * 32, "acme")))


def shown_tokens(soup: LocalPSoup) -> Any:
    """The tokens that stand, as readers see them."""
    tokens = soup.engine.snapshot().tokens.values()
    return [[str(part) for part in astuple(token)] for token in tokens]


def shown_tenants(soup: LocalPSoup) -> Any:
    """The tenants, with their quotas."""
    tenants = sorted(soup.engine.snapshot().tenants.values(), key=lambda tenant: tenant.name)
    return [[tenant.name, tenant.created, asdict(tenant.quotas)] for tenant in tenants]
