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
    str, typer.Option("--tenant", metavar="NAME", help="The tenant it is of; else your own.", show_default=False)
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="How long it lasts: '90 days', 12h; or until when: 2030-01-01."),
]


Listed = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Only those of this tenant.", show_default=False)]


@app.callback()
def token() -> None:
    """\b
    Examples:
      psoup token issue dashboards --role reader
      psoup token list

    Issue, list and revoke access tokens; it takes a token with the role operator. The first one: psoup admin init
    """


@app.command("issue", short_help="Issue a token, and print it once.")
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who holds it.", show_default=False)],
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

    Issue a token and print it: nothing says it again. A reader asks, a registrar registers queries too, a producer
    pushes, an owner does all of these and makes streams, an operator issues tokens and runs jobs; of the tenant default
    he is the service's, who makes backups, tenants, and tokens of all tenants.
    """
    lasts = read_expiry(expires, time.time_ns() // 1_000)
    with connect(address) as client, handing_over(token_file) as hand_over:
        made = client.issue_token(name, role, streams=stream or (), tenant=tenant, expires_after=lasts)
        hand_over(made.secret)
    told = ", ".join(made.token.roles)
    of = f" of tenant {made.token.tenant}" if tenant else ""
    message(f"Token {made.token.id} of {name}{of}: {told}{_until(made.token.expires)}.")


@app.command("list", short_help="List the tokens that stand.")
def listed(tenant: Listed = "", as_json: AsJson = False, address: Address = None) -> None:
    """\b
    Examples:
      psoup token list
      psoup token list --tenant acme --json

    List the tokens that stand, also those that have expired, by when they were issued; no secret is in it. The
    service's operator sees those of all tenants, another operator those of his own.
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

    Revoke a token: nobody comes in by it any more, and the calls that came in by it end, those that stream and watch
    too. The last token of an operator stays.
    """
    with connect(address) as client:
        gone = client.revoke_token(token_id)
    message(f"Revoked token {gone.id} of {gone.name}.")


def _until(expires: dt.datetime | None) -> str:
    return "" if expires is None else f", until {iso(expires.replace(microsecond=0))}"
