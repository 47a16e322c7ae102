"""psoup explain: how the service keeps a query."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.common import Address, AsJson, Timeout, WaitFor, connect
from psoup_cli.output import print_json


def explain(
    query_id: Annotated[str, typer.Argument(metavar="ID", help="The query.", show_default=False)],
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup explain ID
      psoup explain ID --json

    Say how a query is kept, and what an invocation would read.
    """
    with connect(address, timeout) as client:
        explanation = client.query(query_id).explain(wait_for=wait_for)
    if as_json:
        print_json(explanation.details)
    else:
        print(explanation)
