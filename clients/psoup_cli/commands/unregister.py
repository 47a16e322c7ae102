"""psoup unregister: forget a standing query."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.common import Address, OfKey, Timeout, connect, message, query_of


def unregister(
    query_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The query.", show_default=False)] = None,
    key: OfKey = None,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup unregister ID
      psoup unregister --key search-42

    Forget a standing query. Its ID is never used again; its key is free.
    """
    with connect(address, timeout) as client:
        query = query_of(client, query_id, key)
        query.unregister()
    message(f"Unregistered query {query.id}.")
