"""psoup matches: which queries a tuple matched."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from psoup_cli.common import Address, AsJson, Timeout, WaitFor, connect, message
from psoup_cli.output import print_json

_MOST = 10_000
"""Queries of one tuple among several."""


def matches(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    tuple_ids: Annotated[
        list[int],
        typer.Argument(
            metavar="TUPLE_ID", help="IDs of tuples, as the pseudo-column _id shows them.", show_default=False
        ),
    ],
    last: Annotated[
        int | None, typer.Option("--to", metavar="TUPLE_ID", help="All tuples from the one given to this one.")
    ] = None,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup matches flights 123456
      psoup matches flights 123456 123457 --json
      psoup matches flights 123456 --to 133455

    Print the IDs of the queries whose WHERE a tuple satisfies, one on a line; of several tuples each line begins with
    the tuple's ID. Windows are not applied.
    """
    for tuple_id in (*tuple_ids, *([] if last is None else [last])):
        if not -(2**63) <= tuple_id < 2**63:
            raise typer.BadParameter(f"{tuple_id} is not a tuple ID: these have 64 bits")
    if last is not None:
        if len(tuple_ids) > 1:
            raise typer.BadParameter("--to goes with one TUPLE_ID, the first")
        with connect(address, timeout) as client:
            _print_all(client.matches_table(stream, tuple_ids[0], min(last + 1, 2**63 - 1), wait_for=wait_for), as_json)
        return
    with connect(address, timeout) as client:
        if len(tuple_ids) == 1:
            matched = [client.matches(stream, tuple_ids[0], wait_for=wait_for)]
        else:
            matched = client.matches_many(stream, tuple_ids, limit=_MOST, wait_for=wait_for)
    for tuple_id, query_ids in zip(tuple_ids, matched, strict=True):
        for query_id in query_ids:
            if as_json:
                print_json({"tuple_id": tuple_id, "query_id": query_id})
            else:
                print(query_id if len(tuple_ids) == 1 else f"{tuple_id}\t{query_id}")
        if len(tuple_ids) > 1 and len(query_ids) == _MOST:
            message(f"Tuple {tuple_id} may have matched more; ask for it alone.")


def _print_all(pairs: Any, as_json: bool) -> None:
    """Print pairs of tuple and query, one on a line."""
    for tuple_id, query_id in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
        if as_json:
            print_json({"tuple_id": tuple_id, "query_id": query_id})
        else:
            print(f"{tuple_id}\t{query_id}")
