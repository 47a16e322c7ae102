"""Principals of clients' certificates: a table from names in a certificate to roles.

    certificate_roles = ["spiffe://corp/meters=producer", "dash.example.org=reader+registrar@acme"]

A name is a subject alternative name that the certificate's authority has signed: a URI or a DNS name. URIs are looked
up first, because they name programs, while DNS names name machines. The tenant stands after an @; without an @ it is
`default`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psoup.model import DEFAULT_TENANT
from psoup_service.gate.principal import Principal
from psoup_service.gate.roles import ROLES


def certificate_table(entries: Sequence[str]) -> Mapping[str, Principal]:
    """Read the setting `certificate_roles`: the principals, by the names of certificates. Raises ValueError."""
    table = dict[str, Principal]()
    for entry in entries:
        name, equals, roles = (part.strip() for part in entry.rpartition("="))
        roles, at, tenant = (part.strip() for part in roles.partition("@"))
        chosen = tuple(role.strip() for role in roles.split("+"))
        wrong = next((role for role in chosen if role not in ROLES), None)
        if not (name and equals) or wrong is not None or (at and not tenant):
            raise ValueError(
                f"{entry!r} is not NAME=ROLE, NAME=ROLE+ROLE or NAME=ROLE@TENANT; names are those of a certificate (a"
                f" URI, or of DNS), roles are {', '.join(ROLES)}"
            )
        if name in table:
            raise ValueError(f"{name!r} is there twice; write its roles in one entry, with + between them")
        table[name] = Principal(name, chosen, tenant or DEFAULT_TENANT, certified=True)
    return table
