"""psoup matches: which queries a tuple matched."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.common import Address, AsJson, Timeout, connect
from psoup_cli.output import print_json


def matches(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    tuple_id: Annotated[
        int, typer.Argument(metavar="TUPLE_ID", help="As the pseudo-column _id shows it.", show_default=False)
    ],
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup matches flights 123456

    Print the IDs of the queries whose WHERE a tuple satisfies, one on a line. Windows are not applied.
    """
    with connect(address, timeout) as client:
        for query_id in client.matches(stream, tuple_id):
            if as_json:
                print_json({"query_id": query_id})
            else:
                print(query_id)
