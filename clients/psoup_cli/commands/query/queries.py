"""psoup queries: the standing queries of the service."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from psoup_cli.common import Address, AsJson, Labels, Timeout, connect, labels_of, message
from psoup_cli.output import print_json, print_list
from psoup_client import Query

_MOST = 1_000
"""The greatest number of queries in a table on the terminal. More are not readable."""

Stream = Annotated[
    str | None, typer.Option("--stream", metavar="STREAM", help="Only the queries on this stream, joins among them.")
]
Key = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Only the query with this key.")]
Expiring = Annotated[
    str | None, typer.Option("--expiring", metavar="TIME", help="Only queries that expire within this time: '7 days'.")
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", "-n", min=1, metavar="N", help="List at most this many; without --json the default is 1,000."
    ),
]


def facts(query: Query) -> dict[str, Any]:
    """Describe a query as a JSON object."""
    row = dataclasses.asdict(query.info)
    if len(query.info.sources) == 1:
        del row["sources"]  # only joins list their sources
    row["columns"] = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in query.info.columns]
    return row


def queries(
    stream: Stream = None,
    label: Labels = None,
    key: Key = None,
    expiring: Expiring = None,
    limit: Limit = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup queries
      psoup queries --stream flights --json
      psoup queries --limit 20
      psoup queries --label user=u3
      psoup queries --expiring "7 days"

    List the standing queries in the order of their registration.
    """
    bound = limit if as_json or limit else _MOST
    with connect(address, timeout) as client:
        if key is None:
            shown = client.queries(stream, labels=labels_of(label), expiring=expiring, limit=bound and bound + 1)
        elif stream or label or expiring:
            raise typer.BadParameter("--key names one query; leave --stream, --label and --expiring out")
        else:
            shown = [client.query(key=key)]
    more, shown = shown[bound:] if bound else [], shown[:bound]
    if as_json:
        for query in shown:
            print_json(facts(query))
        return
    if shown:
        _print_table(shown)
    else:
        message(_why_none(bool(stream or label), bool(expiring)))
    if more:
        message(f"These are the first {len(shown):,}. There are more: --limit says how many to list, --json lists all.")


def _print_table(shown: Sequence[Query]) -> None:
    """Print a line for each query. A column that is empty for all queries is left out."""
    rows = [
        (q.id, *_tags(q), _expires(q), _streams(q), _amount(q), q.info.window_kind, " ".join(q.sql.split()))
        for q in shown
    ]
    heads = ["id", "key", "labels", "expires", "joins", "amount", "window", "query"]
    columns = [place for place in range(len(heads)) if not 1 <= place <= 5 or any(row[place] for row in rows)]
    print_list(
        [heads[place] for place in columns], [[row[place] for place in columns] for row in rows], map(facts, shown)
    )


def _why_none(narrowed: bool, expiring: bool) -> str:
    if expiring:
        return "No query expires within that time. List all: psoup queries"
    if narrowed:
        return "No query is on that stream or has those labels. List all: psoup queries"
    return 'There are no queries yet. Register one: psoup register "SELECT ..."'


def _tags(query: Query) -> tuple[str, str]:
    return query.key, " ".join(f"{name}={value}" for name, value in query.labels.items())


def _streams(query: Query) -> str:
    """Return the names of a join's streams; "" for a query over one stream."""
    return ", ".join(query.streams) if len(query.sources) > 1 else ""


def _amount(query: Query) -> str:
    """The amount of a query, "auto (none)" with a choice, and whether it is inactive; "" for active and partial."""
    info = query.info
    amount = "" if info.amount == "partial" and info.active else info.amount
    amount += f" ({info.amount_in_force})" if info.amount == "auto" and info.active else ""
    eager = "eager" if info.eager and info.amount == "complete" else ""
    words = [amount, eager, "" if info.active else "parked" if info.parked else "inactive"]
    return ", ".join(word for word in words if word)


def _expires(query: Query) -> str:
    return "" if query.info.expires is None else f"{query.info.expires:%Y-%m-%d}"
