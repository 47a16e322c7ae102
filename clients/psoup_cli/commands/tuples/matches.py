"""psoup matches: which queries a tuple matched."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from psoup_cli.common import Address, AsJson, Labels, Timeout, WaitFor, connect, labels_of
from psoup_cli.legible import legible
from psoup_cli.output import print_json


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
    label: Labels = None,
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
      psoup matches flights 123456 --label user=u3

    Print the ID of each query whose WHERE a tuple satisfies, and its key, if it has one: a line for each query. With
    several tuples each line begins with the tuple's ID. Windows are not applied.
    """
    for tuple_id in (*tuple_ids, *([] if last is None else [last])):
        if not -(2**63) <= tuple_id < 2**63 - 1:
            raise typer.BadParameter(f"{tuple_id} is not a tuple ID: these have 64 bits")
    if last is not None and len(tuple_ids) > 1:
        raise typer.BadParameter("--to goes with one TUPLE_ID, the first")
    ranges = [(tuple_ids[0], last + 1)] if last is not None else [(tuple_id, tuple_id + 1) for tuple_id in tuple_ids]
    labels = labels_of(label)
    with connect(address, timeout) as client:
        for first, end in ranges:
            pairs = client.matches_table(stream, first, end, labels=labels, wait_for=wait_for)
            print_pairs(pairs, as_json, alone=last is None and len(tuple_ids) == 1)


def print_pairs(pairs: Any, as_json: bool, alone: bool = False) -> None:
    """Print a line for each pair of a tuple (or row) and a query. With `alone`, print only the query."""
    first = pairs.column_names[0]
    lines = zip(*(column.to_pylist() for column in pairs.columns), strict=True)
    for number, query_id, key in sorted(lines, key=lambda line: (line[0], len(line[1]), line[1])):  # oldest first
        if as_json:
            print_json({first: number, "query_id": query_id, **({} if key is None else {"key": key})})
        else:
            print(*([] if alone else [number]), query_id, *([] if key is None else [legible(key)]), sep="\t")
