"""psoup results: a picture of which of the newest tuples satisfy which queries (`psoup_cli.picture`)."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.common import Address, AsJson, Labels, Timeout, WaitFor, connect, labels_of, message
from psoup_cli.output import print_json
from psoup_cli.picture import PictureSize, picture, room_here
from psoup_client import Results
from psoup_client.times import to_micros

_HINT = "--query, --label, --begin, --end and --last say what to show."


Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
Query = Annotated[
    list[str] | None, typer.Option("--query", metavar="TEXT", help="ID or key of a query to show; repeatable.")
]
Begin = Annotated[str | None, typer.Option("--begin", metavar="TIME", help="Tuples from this time on.")]
End = Annotated[str | None, typer.Option("--end", metavar="TIME", help="Tuples up to this time.")]
Last = Annotated[
    int | None,
    typer.Option("--last", "-n", metavar="N", min=1, help="The newest N tuples; by default as many as fit."),
]


def results(
    stream: Stream,
    query: Query = None,
    label: Labels = None,
    begin: Begin = None,
    end: End = None,
    last: Last = None,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup results flights
      psoup results listings --label user=u3 --last 100
      psoup results listings --query search-1 --query search-2 --begin 2026-07-01T12:00:00Z

    Draw which tuples satisfy which queries. A row is a tuple, the newest last; a column is a query, with its number of
    tuples at the bottom. Windows of the queries are not applied. If the terminal is too small, a line says what was
    left out. With --json each line is a tuple with the IDs of its queries.
    """
    if query and label:
        raise typer.BadParameter("--query names queries; leave --label out")
    room = room_here(as_json)
    tuples = last if last and as_json else min(room.tuples, last or room.tuples)
    with connect(address, timeout) as client:
        bits = client.results(
            stream,
            query or None,
            _time("--begin", begin),
            _time("--end", end),
            labels=labels_of(label) or None,
            last=tuples + 1,
            limit=room.queries,
            accept_truncation=True,
            wait_for=wait_for,
        )
    more = bits.end_id - bits.first_id > tuples != last  # tuples outside --last do not count as left out
    first = max(bits.end_id - tuples, bits.first_id)
    shown = _print_rows(bits, first) if as_json else _draw(bits, first, room)
    left = ["older tuples"] * more + ["later queries"] * bits.more + ["names of queries"] * (shown < len(bits))
    if left:
        message(f"Left out: {', '.join(left)}. {_HINT}")


def _print_rows(bits: Results, first: int) -> int:
    """Print a line of JSON for each tuple from `first` on. Returns the number of queries in the output."""
    columns = [bits[query_id][first - bits.first_id :] for query_id in bits]
    for at, row in enumerate(zip(*columns, strict=True) if columns else ()):
        ids = [query_id for query_id, bit in zip(bits, row, strict=True) if bit]
        print_json({"tuple_id": first + at, "query_ids": ids})
    return len(bits)


def _draw(bits: Results, first: int, room: PictureSize) -> int:
    """Print the picture from the tuple `first` on. Returns the number of queries whose names fit."""
    if not bits:
        message("No query is on that stream, or has those labels.")
        return 0
    lines, named = picture(bits, first, room)
    print("\n".join(lines))
    return named


def _time(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else to_micros(text)
    except ValueError as problem:
        raise typer.BadParameter(f"{option}: {problem}") from None
