"""psoup explain: how the service keeps a query."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.common import Address, AsJson, OfKey, Timeout, WaitFor, connect, query_of
from psoup_cli.legible import legible
from psoup_cli.output import print_json


def explain(
    query_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The query.", show_default=False)] = None,
    key: OfKey = None,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup explain ID
      psoup explain --key search-42 --json

    Explain how the service keeps a query, and which data an invocation would read.
    """
    with connect(address, timeout) as client:
        explanation = query_of(client, query_id, key).explain(wait_for=wait_for)
    if as_json:
        print_json(explanation.details)
    else:
        print(*map(legible, explanation.lines), sep="\n")
