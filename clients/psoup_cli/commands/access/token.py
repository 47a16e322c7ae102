"""psoup token: issue, list and revoke access tokens."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from typing import Annotated

import typer
from typer.core import TyperGroup

from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.expiry import read_expiry
from psoup_cli.output import iso, print_json, print_list, to_the_second
from psoup_cli.secrets import TokenFile, handing_over

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

Role = Annotated[
    list[str],
    typer.Option("--role", metavar="ROLE", help="reader, registrar, producer, owner or operator; repeatable."),
]
Stream = Annotated[
    list[str] | None,
    typer.Option("--stream", metavar="PATTERN", help="A producer's streams, such as 'meters_*'; repeatable."),
]
OfTenant = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="The token's tenant; by default your own.", show_default=False)
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="Life of the token: '90 days', 12h; or its end: 2030-01-01."),
]


Listed = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Only tokens of this tenant.", show_default=False)
]


@app.callback()
def token() -> None:
    """\b
    Examples:
      psoup token issue dashboards --role reader
      psoup token list

    Issue, list and revoke access tokens. These commands take a token with the role operator. Make the first token with:
    psoup admin init
    """


@app.command("issue", short_help="Issue a token, and print it once.")
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The holder's name.", show_default=False)],
    role: Role,
    stream: Stream = None,
    tenant: OfTenant = "",
    expires: Expires = None,
    token_file: TokenFile = None,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup token issue dashboards --role reader --expires "90 days"
      psoup token issue meters --role producer --stream "meters_*" --token-file meters.token
      psoup token issue analysts --role registrar --expires 2030-01-01
      psoup token issue admin --tenant acme --role owner --role operator

    Issue a token and print it. It cannot be shown again. A reader asks for answers; a registrar also registers queries;
    a producer pushes. An owner does all of these and creates streams. An operator issues tokens and runs jobs. An
    operator of the tenant default is the service's operator, and also makes backups, tenants, and tokens of all
    tenants.
    """
    lasts = read_expiry(expires, time.time_ns() // 1_000)
    with connect(address) as client, handing_over(token_file) as hand_over:
        made = client.issue_token(name, role, streams=stream or (), tenant=tenant, expires_after=lasts)
        hand_over(made.secret)
    roles_text = ", ".join(made.token.roles)
    owner = f" of tenant {made.token.tenant}" if tenant else ""
    message(f"Token {made.token.id} of {name}{owner}: {roles_text}{_until(made.token.expires)}.")


@app.command("list", short_help="List the tokens.")
def listed(tenant: Listed = "", as_json: AsJson = False, address: Address = None) -> None:
    """\b
    Examples:
      psoup token list
      psoup token list --tenant acme --json

    List the tokens that were not revoked, also expired ones, in the order of their issue, without secrets. The
    service's operator sees the tokens of all tenants, another operator only those of the own tenant.
    """
    with connect(address) as client:
        tokens = client.tokens(tenant=tenant)
    facts = [dataclasses.asdict(token) for token in tokens]
    if as_json:
        for row in facts:
            print_json(row)
        return
    if not tokens:
        if tenant:
            message(f"Tenant {tenant} has no tokens. Make one: psoup token issue NAME --tenant {tenant} --role owner")
        else:
            message(
                "There are no tokens: every caller that reaches the service gets in. Make the first: psoup admin init"
            )
        return
    rows = [
        (
            t.id,
            t.name,
            t.tenant,
            " ".join(t.roles),
            " ".join(t.streams),
            to_the_second(t.issued),
            "expired" if t.expired else to_the_second(t.expires or ""),
        )
        for t in tokens
    ]
    cells = [{**row, "roles": " ".join(row["roles"]), "streams": " ".join(row["streams"])} for row in facts]
    print_list(["id", "name", "tenant", "roles", "streams", "issued", "expires"], rows, cells)


@app.command("revoke", short_help="Revoke a token.")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's ID.", show_default=False)],
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup token revoke 4kTz0QbX2m

    Revoke a token. New calls with it are refused, and running calls with it end, also streams and watches. The last
    token of an operator cannot be revoked.
    """
    with connect(address) as client:
        gone = client.revoke_token(token_id)
    message(f"Revoked token {gone.id} of {gone.name}.")


def _until(expires: dt.datetime | None) -> str:
    return "" if expires is None else f", until {iso(expires.replace(microsecond=0))}"
