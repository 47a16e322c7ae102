"""psoup admin init: the first access token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from psoup_cli.commands.directory.doctor import NOT_EXAMINED
from psoup_cli.common import Address, connect, message
from psoup_cli.secrets import TokenFile, handing_over

ROLES = ("owner", "operator")
"""The roles of the first token. Together they allow every call."""

Name = Annotated[str, typer.Option("--name", metavar="TEXT", help="The holder's name.")]

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def admin() -> None:
    """\b
    Examples:
      psoup admin init

    Begin with access tokens. More of them: psoup token
    """


@app.command("init", short_help="Make the first access token.")
def init(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="The directory of a service that does not run.")
    ] = None,
    name: Name = "admin",
    token_file: TokenFile = None,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup admin init --token-file ~/.psoup-token
      psoup admin init --data-dir /var/lib/psoup

    Make the first access token, for an owner and operator, and print it. It cannot be shown again. From then on every
    call of every client needs a token. A running service makes it for a caller on a loopback address or a Unix socket,
    and only if the service has no token yet. With --data-dir the token is written into the directory of a service that
    does not run, as often as you like. So an operator who has lost all tokens gets a new one. If the directory does not
    exist, the command creates it and says so. --token-file writes the token to a new file that only you may read.
    """
    if data_dir is None:
        with connect(address) as client, handing_over(token_file) as hand_over:
            hand_over(client.issue_token(name, ROLES, first=True).secret)
    else:
        with handing_over(token_file) as hand_over:
            hand_over(_offline(data_dir, name))
    message("From now on every call needs a token: PSOUP_TOKEN_FILE names its file, or PSOUP_TOKEN is it.")


def _offline(path: Path, name: str) -> str:
    from psoup.errors import PSoupError
    from psoup_service.gate.audit import tell_offline
    from psoup_service.gate.new_token import issued
    from psoup_storage.durable.directory import DATABASE
    from psoup_storage.durable.first_token import issue_offline

    new = not (path / DATABASE).exists()
    try:
        secret, token = issued(name, ROLES)
        issue_offline(path, token)
        tell_offline(path, "AdminService/IssueToken", name)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    if new:
        message(f"Made a new data directory {path}, as there was none.")
    return secret
