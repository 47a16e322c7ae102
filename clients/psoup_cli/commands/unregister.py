"""psoup unregister: forget a standing query."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.common import Address, Timeout, connect, message


def unregister(
    query_id: Annotated[str, typer.Argument(metavar="ID", help="The query.", show_default=False)],
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup unregister ID

    Forget a standing query. Its ID is never used again.
    """
    with connect(address, timeout) as client:
        client.unregister(query_id)
    message(f"Unregistered query {query_id}.")
