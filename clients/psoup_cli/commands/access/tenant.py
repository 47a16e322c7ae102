"""psoup tenant: create, list, show, change and drop tenants."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer
from typer.core import TyperGroup

from psoup_cli.common import Address, AsJson, Yes, confirmed, connect, message
from psoup_cli.output import live_table, print_json, print_list, to_the_second, watched
from psoup_cli.quotas import NONE, QUOTAS, with_quotas
from psoup_client import Quotas, Tenant, TenantUsage

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

_USED = ("used", "limit", "part")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant.", show_default=False)]


@app.callback()
def tenant() -> None:
    """\b
    Examples:
      psoup tenant create acme --queries 200000 --tuple-bytes 2GiB
      psoup token issue dashboards --tenant acme --role reader
      psoup tenant list

    Create, list, show, change and drop tenants. These commands take a token with the role operator, of the tenant
    default. Each stream, query and token belongs to one tenant, and a client of one tenant learns nothing of another.
    """


@app.command("create", short_help="Create a tenant.")
@with_quotas
def create(name: Name, quotas: dict[str, float], address: Address = None) -> None:
    """\b
    Examples:
      psoup tenant create acme
      psoup tenant create acme --streams 20 --queries 200000 --tuple-bytes 2GiB --join-share 0.5

    Create a tenant. Other quotas get the service's defaults, which psoup tenant show prints; none means no limit. Its
    first token: psoup token issue NAME --tenant acme --role owner
    """
    with connect(address) as client:
        made = client.create_tenant(name, **quotas)
    message(f"Created tenant {made.name}. Its first token: psoup token issue NAME --tenant {made.name} --role owner")


@app.command("set", short_help="Change quotas of a tenant.")
@with_quotas
def change(name: Name, quotas: dict[str, float], address: Address = None) -> None:
    """\b
    Examples:
      psoup tenant set acme --queries 200000
      psoup tenant set acme --tuple-bytes 4GiB --join-share none --weight 3

    Change some quotas of a tenant; the remaining quotas stay. none removes a limit. A tenant above a new limit keeps
    its data, and gets no more.
    """
    if not quotas:
        raise typer.BadParameter("give a quota to change, such as --queries 200000; psoup tenant show has them")
    with connect(address) as client:
        now = client.alter_tenant(name, **quotas)
    said = ", ".join(f"{quota} {_limit(now, quota)}" for quota in quotas)
    message(f"Tenant {now.name} has {said} from now on.")


@app.command("list", short_help="List the tenants.")
def listed(as_json: AsJson = False, address: Address = None) -> None:
    """\b
    Examples:
      psoup tenant list
      psoup tenant list --json

    List the tenants by their names. What each may have: psoup tenant show NAME
    """
    with connect(address) as client:
        tenants = client.tenants()
    facts = [_facts(each) for each in tenants]
    if as_json:
        for row in facts:
            print_json(row)
        return
    shown = ("streams", "queries", "tuple_bytes", "archive_bytes", "weight")
    rows = [(t.name, to_the_second(t.created or ""), *(_limit(t, quota) for quota in shown)) for t in tenants]
    print_list(["name", "created", *shown], rows, facts)


@app.command("show", short_help="Show what a tenant may have.")
def show(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The tenant; else your own.", show_default=False)] = "",
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup tenant show acme
      psoup tenant show

    Show the quotas of a tenant. Without a name they are your own tenant's, which any role may see.
    """
    with connect(address) as client:
        answer = client.tenant(name)
    if as_json:
        print_json(_facts(answer))
        return
    rows = [(quota, _limit(answer, quota), about) for quota, about in QUOTAS.items()]
    facts = [{"tenant": answer.name, "quota": quota, "limit": _facts(answer)[quota]} for quota in QUOTAS]
    print_list(["quota", "limit", "of what"], rows, facts)


@app.command("usage", short_help="Show what a tenant uses of its quotas.")
def usage(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The tenant; else your own.", show_default=False)] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C.")] = False,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup tenant usage acme
      psoup tenant usage --watch

    Show how much of each quota a tenant uses now. An owner sees the own tenant, the service's operator any tenant.
    Rates are averages over the last seconds.
    """
    with connect(address) as client:
        if watch and not as_json and sys.stdout.isatty():
            live_table(lambda: _usage_table(client.tenant_usage(name)), _USED)
        elif watch:
            watched(lambda: _print_usage(client.tenant_usage(name), as_json))
        figures = client.tenant_usage(name)
    _print_usage(figures, as_json)


def _print_usage(figures: TenantUsage, as_json: bool) -> None:
    used, limits = {quota: _rounded(value) for quota, value in figures.used.items()}, _limits(figures.quotas)
    if as_json:
        print_json({"name": figures.name, "used": used, "limits": limits})
        return
    names, *rows = _usage_table(figures)
    facts = [{"tenant": figures.name, "quota": row[0], "used": used[row[0]], "limit": limits[row[0]]} for row in rows]
    print_list(names, rows, facts, [column in _USED for column in names])


@app.command("drop", short_help="Drop a tenant that has no data.")
def drop(name: Name, yes: Yes = False, address: Address = None) -> None:
    """\b
    Examples:
      psoup tenant drop acme

    Forget a tenant. Its streams must be dropped and its tokens revoked before. The tenant default stays.
    """
    if not confirmed(f"Drop tenant {name}?", yes):
        raise typer.Exit(1)
    with connect(address) as client:
        gone = client.drop_tenant(name)
    message(f"Dropped tenant {gone.name}.")


def _facts(tenant: Tenant) -> dict[str, object]:
    return {"name": tenant.name, "created": tenant.created, **_limits(tenant.quotas)}


def _limits(quotas: Quotas) -> dict[str, float | None]:
    """Return the limit of each quota by its name; None for a quota without a limit."""
    return {quota: value or None for quota, value in dataclasses.asdict(quotas).items()}


def _rounded(value: float) -> float:
    """Round a rate to four digits, or from 1,000 on to a whole number."""
    return round(value) if value == int(value) or abs(value) >= 1_000 else float(f"{value:.4g}")


def _limit(tenant: Tenant, quota: str) -> str:
    value: float = getattr(tenant.quotas, quota)
    return f"{value:,}".removesuffix(".0") if value else NONE


def _usage_table(figures: TenantUsage) -> list[tuple[str, ...]]:
    """Build the lines of the table. The first line has the names of the columns."""
    lines: list[tuple[str, ...]] = [("quota", *_USED, "of what")]
    for quota, about in QUOTAS.items():
        if quota in figures.used:
            used, limit = figures.used[quota], getattr(figures.quotas, quota)
            part = f"{used / limit:.0%}" if limit else ""
            lines.append((quota, _number(used), _number(limit) if limit else NONE, part, about))
    return lines


def _number(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 100 and value != int(value) else f"{value:,.0f}"
