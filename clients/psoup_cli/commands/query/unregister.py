"""psoup unregister: forget standing queries."""

from __future__ import annotations

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
    query_of,
)
from psoup_client.phrases import counted


def unregister(
    query_ids: QueryIds = None,
    key: OfKey = None,
    label: OfLabel = None,
    key_prefix: OfPrefix = None,
    yes: Yes = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup unregister ID
      psoup unregister --key search-42
      psoup unregister ID ID ID
      psoup unregister --label user=u3
      psoup unregister --key-prefix site-a/ --yes

    Unregister standing queries. Their IDs are never used again; their keys are free. Several IDs are unregistered
    together, or none of them. For labels or a prefix of keys, the command first shows the number of queries and asks.
    """
    check_selection(query_ids, key, label, key_prefix)
    with connect(address, timeout) as client:
        if key is not None or (query_ids and len(query_ids) == 1):
            query = query_of(client, query_ids[0] if query_ids else None, key)
            query.unregister()
            message(f"Unregistered query {query.id}.")
            return
        labels = labels_of(label)
        if not query_ids:
            count = client.unregister_many(labels=labels, key_prefix=key_prefix, dry_run=True)
            if count and not confirmed(f"Unregister {counted(count, 'query')}?", yes):
                raise typer.Exit(1)
        count = client.unregister_many(query_ids or None, labels=labels, key_prefix=key_prefix)
    message(f"Unregistered {counted(count, 'query')}.")
