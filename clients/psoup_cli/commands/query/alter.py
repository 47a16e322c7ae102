"""psoup alter: change how much the service keeps of standing queries."""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from psoup_cli.common import (
    Address,
    OfKey,
    OfLabel,
    OfPrefix,
    QueryIds,
    Timeout,
    Yes,
    check_selection,
    confirmed,
    connect,
    labels_of,
    message,
)
from psoup_client import Altered
from psoup_client.amounts import Amount
from psoup_client.phrases import counted, verb


class _Change(TypedDict):
    """The change: None leaves a part as it is."""

    amount: Amount | None
    eager: bool | None
    active: bool | None
    parked: bool | None


def alter(
    query_ids: QueryIds = None,
    key: OfKey = None,
    label: OfLabel = None,
    key_prefix: OfPrefix = None,
    amount: Annotated[
        Amount | None,
        typer.Option(
            "--amount",
            help="Keep nothing between invocations, the matches, or also the answer; auto: let the service choose.",
        ),
    ] = None,
    eager: Annotated[
        bool | None,
        typer.Option("--eager/--no-eager", help="Update a complete answer as tuples come, or when it is asked for."),
    ] = None,
    active: Annotated[
        bool | None,
        typer.Option("--active/--inactive", help="Test new tuples against the queries, or do not."),
    ] = None,
    parked: Annotated[
        bool | None,
        typer.Option("--parked/--not-parked", help="Take inactive queries out of memory, or read them into it again."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the queries.")] = False,
    yes: Yes = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup alter --key search-42 --amount complete --eager
      psoup alter --label user=u3 --inactive
      psoup alter --key-prefix old/ --parked

    Change how much the service keeps of standing queries between invocations. Answers stay the same. Several queries
    are changed together, or none of them. For labels or a prefix of keys, the command first shows the number of queries
    and asks.
    """
    check_selection(query_ids, key, label, key_prefix)
    if amount is None and eager is None and active is None and parked is None:
        choices = "--amount, --eager, --no-eager, --active, --inactive, --parked or --not-parked"
        raise typer.BadParameter(f"say what to change: {choices}")
    change: _Change = {"amount": amount, "eager": eager, "active": active, "parked": parked}
    with connect(address, timeout) as client:
        ids = query_ids or (None if key is None else [client.query(key=key).id])
        labels = labels_of(label)
        if ids is None or dry_run:
            altered = client.alter_queries(ids, labels=labels, key_prefix=key_prefix, dry_run=True, **change)
            if dry_run:
                message(_result("Would change", altered))
                return
            if altered.changed and not confirmed(f"Change {counted(altered.changed, 'query')}?", yes):
                raise typer.Exit(1)
        altered = client.alter_queries(ids, labels=labels, key_prefix=key_prefix, **change)
    message(_result("Changed", altered))


def _result(done: str, altered: Altered) -> str:
    """A sentence with the number of changed queries, and of those that are already as they should be."""
    same = altered.count - altered.changed
    rest = f"; {same:,} {verb(same, 'is', 'are')} so already" if same else ""
    return f"{done} {counted(altered.changed, 'query')}{rest}."
