"""psoup config: the settings in force here, and files for Prometheus and Grafana."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from psoup_cli.common import Address, AsJson
from psoup_cli.output import print_json, print_list
from psoup_cli.service import load_settings
from psoup_cli.settings import client_settings

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def config() -> None:
    """\b
    Examples:
      psoup config show
      psoup config show --config /etc/psoup.toml
      psoup config alerts > psoup-alerts.yml

    Show the settings and where each came from. Their order: flag > environment PSOUP_NAME > psoup.toml > default.
    Print the alert rules and the dashboard for the metrics of this version.
    """


@app.command("show", short_help="Show every setting and its source.")
def show(
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Instead of ./psoup.toml.")] = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup config show
      PSOUP_PORT=8000 psoup config show --json

    Show every setting that `psoup serve` and the client commands would use here, and its source.
    """
    client = client_settings(address, None, config)
    rows: list[tuple[str, Any, str, str]] = [
        ("address", client.address, client.origins["address"], "where client commands look for the service"),
        (
            "timeout_seconds",
            client.timeout_seconds,
            client.origins["timeout_seconds"],
            "time after which client commands give up a call",
        ),
    ]
    rows += [(s.name, _listed(s.value), s.origin, s.description) for s in load_settings({}, config).show()]
    facts = [
        {"name": name, "value": _plainly(value), "origin": origin, "description": description}
        for name, value, origin, description in rows
    ]
    if as_json:
        for item in facts:
            print_json(item)
        return
    print_list(["setting", "value", "from", "what it is"], rows, facts)


@app.command("alerts", short_help="Print alert rules for Prometheus.")
def alerts() -> None:
    """\b
    Examples:
      psoup config alerts > /etc/prometheus/psoup-alerts.yml

    Print alert rules for Prometheus (`rule_files`), about the metrics that `psoup serve --metrics-port` shows.
    """
    from psoup_service.monitoring.alerts import rules

    typer.echo(rules(), nl=False)


@app.command("dashboard", short_help="Print a dashboard for Grafana.")
def dashboard() -> None:
    """\b
    Examples:
      psoup config dashboard > psoup-dashboard.json

    Print a dashboard for Grafana, in JSON: Dashboards, New, Import. It shows every metric of a service, by subject.
    """
    from psoup_service.monitoring.dashboard import dashboard as made

    typer.echo(made(), nl=False)


def _listed(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, tuple) else value


def _plainly(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float) else str(value)
