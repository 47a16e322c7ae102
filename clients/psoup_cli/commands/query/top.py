"""psoup top: the queries that cost most."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from psoup_cli.common import Address, AsJson, Labels, Timeout, connect, labels_of, message
from psoup_cli.output import live_table, print_json, print_list, watched
from psoup_client import QueryCost
from psoup_client.costs import CostOrder

_SQL_CHARS = 60


By = Annotated[CostOrder, typer.Option("--by", help="Order by this, the largest first.")]
Stream = Annotated[str | None, typer.Option("--stream", metavar="STREAM", help="Only the queries on this stream.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most this many queries.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C.")]


def top(
    by: By = "cpu",
    stream: Stream = None,
    label: Labels = None,
    limit: Limit = 20,
    watch: Watch = False,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup top
      psoup top --by bytes --limit 5
      psoup top --stream flights --watch
      psoup top --label user=u3

    Show the queries that cost most. The columns are their share of the work, the new tuples that were evaluated for
    them (candidates), how many of these matched, all matches (older tuples included), and their bytes. If many
    candidates and few matches are shown, no condition of the query is selective.
    """
    labels = labels_of(label)
    with connect(address, timeout) as client:

        def ask() -> list[QueryCost]:
            return client.top_queries(by, stream=stream, labels=labels, limit=limit)

        if watch and not as_json and sys.stdout.isatty():
            live_table(lambda: _table(ask()), _FIGURES)
        elif watch:
            watched(lambda: _print(ask(), as_json))
        costs = ask()
    if not costs and not as_json and (stream or labels):
        message("No query is on that stream or has those labels. Show all: psoup top")
        return
    if not costs and not as_json:
        message('There are no queries yet. Register one: psoup register "SELECT ..."')
        return
    _print(costs, as_json)


def _print(costs: list[QueryCost], as_json: bool) -> None:
    if as_json:
        for cost in costs:
            print_json(facts(cost))
        return
    names, *rows = _table(costs)
    print_list(names, rows, map(facts, costs), [name in _FIGURES for name in names])


_FIGURES = ("cpu", "looked at", "of these", "matched", "bytes")


def _table(costs: list[QueryCost]) -> list[tuple[str, ...]]:
    """Build the lines of the table. The first line has the names of the columns. If no query has a key, there is no
    such column.
    """
    lines = [("id", "key", *_FIGURES, "query"), *map(row, costs)]
    keyed = any(cost.query.key for cost in costs)
    return [line if keyed else (line[0], *line[2:]) for line in lines]


def row(cost: QueryCost) -> tuple[str, ...]:
    """Build the line of one query."""
    sql = " ".join(cost.query.sql.split())
    short = sql if len(sql) <= _SQL_CHARS else sql[: _SQL_CHARS - 1] + "…"
    part = f"{cost.selectivity:.1%}" if cost.candidates else "-"
    figures = (f"{100 * cost.cpu_share:.3g}%", f"{cost.candidates:,}", part, f"{cost.matched:,}", f"{cost.bytes:,}")
    return (cost.query.query_id, cost.query.key, *figures, short)


def facts(cost: QueryCost) -> dict[str, object]:
    """Describe the cost of a query as a JSON object."""
    figures = dataclasses.asdict(cost)
    del figures["query"]
    tags = {"key": cost.query.key, "labels": cost.query.labels}
    texts = {"query_id": cost.query.query_id, **tags, "stream": cost.query.stream, "sql": cost.query.sql}
    return {**texts, **figures, "selectivity": cost.selectivity}
