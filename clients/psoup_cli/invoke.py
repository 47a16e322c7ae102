"""psoup invoke: the answer of a standing query, now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from psoup_cli.common import Address, Timeout, connect, message
from psoup_cli.output import counted, numeric, print_batches, print_table
from psoup_client import AnswerStream
from psoup_client.times import to_micros

SHOWN_ROWS = 100


class Format(StrEnum):
    """Forms of an answer."""

    table = "table"
    csv = "csv"
    json = "json"
    arrow = "arrow"


def invoke(
    query_id: Annotated[str, typer.Argument(metavar="ID", help="The query.", show_default=False)],
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="Evaluate with NOW at this time (ISO 8601, else UTC).")
    ] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="'BEGIN ... END ...'", help="Instead of the query's own window.")
    ] = "",
    accept_truncation: Annotated[
        bool, typer.Option("--accept-truncation", help="Answer over what is kept, if the window begins before it.")
    ] = False,
    format: Annotated[
        Format | None, typer.Option("--format", help="By default a table on a terminal, else CSV.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json: an object on each line.")] = False,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Rows shown in a table; 0 means all.")] = SHOWN_ROWS,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup invoke ID
      psoup invoke ID --as-of 2013-07-04T12:00:00Z
      psoup invoke ID --window "BEGIN (NOW - 7 DAYS)" --format csv > week.csv

    Print the answer of a query. How complete it is goes to standard error.
    """
    if as_json and format not in (None, Format.json):
        raise typer.BadParameter("--json and another --format exclude each other")
    form = Format.json if as_json else format or (Format.table if sys.stdout.isatty() else Format.csv)
    if form is Format.arrow and sys.stdout.isatty():
        raise typer.BadParameter("Arrow is binary: send it to a file, --format arrow > answer.arrow")
    try:
        now = None if as_of is None else to_micros(as_of)
    except ValueError as problem:
        raise typer.BadParameter(f"--as-of: {problem}") from None
    with connect(address, timeout) as client:
        query = client.query(query_id)
        with query.stream(as_of=now, window=window, accept_truncation=accept_truncation) as answer:
            if form is Format.table:
                count = _table(answer, rows)
            else:
                count = print_batches(form.value, answer.schema, answer)
    message(f"{counted(count, 'row')}. {answer.completeness.sentence()}")


def _table(answer: AnswerStream, shown: int) -> int:
    """Print the first `shown` rows (0: all) as a table; returns how many rows there are."""
    count = 0

    def first_rows() -> Iterator[tuple[object, ...]]:
        nonlocal count
        for batch in answer:
            wanted = batch if not shown else batch.slice(0, max(0, shown - count))
            yield from zip(*(column.to_pylist() for column in wanted.columns), strict=True)
            count += batch.num_rows

    print_table(answer.schema.names, first_rows(), numeric(answer.schema))
    if shown and count > shown:
        message(f"The first {shown:,} of {count:,} rows; --rows 0 or --format csv gives all.")
    return count
