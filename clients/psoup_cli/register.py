"""psoup register: a standing query, whose ID goes to standard output."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from psoup_cli.common import Address, AsJson, Timeout, connect, message
from psoup_cli.output import print_json
from psoup_cli.queries import facts


def register(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT ..., or - for standard input.", show_default=False)],
    request_id: Annotated[
        str | None, typer.Option("--request-id", metavar="TEXT", help="The same ID and SQL give the same query.")
    ] = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup register "SELECT * FROM flights WHERE origin = 'JFK' BEGIN (NOW - 1 HOUR)"
      ID=$(psoup register - < query.sql)

    Register a standing query and print its ID. It stays until it is unregistered; come back with: psoup invoke ID
    """
    text = sys.stdin.read() if sql == "-" else sql
    with connect(address, timeout) as client:
        query = client.register(text, request_id=request_id)
    if as_json:
        print_json(facts(query))
        return
    print(query.id)
    message(f"Registered, {query.info.window_kind}: {query.info.window}")
