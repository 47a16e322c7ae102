"""Removal of queries: the selection of queries, and the answer to a repeated request ID.

    IDs                 all must exist, or none is removed
    labels, a prefix    of keys: all that exist, perhaps none; the name of a label must exist if any does
    request ID          a retry gets the answer of the first call (`psoup.admission.queries.known_removals`)

The functions change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from psoup.admission.catalog import KnownStream, KnownTenant
from psoup.admission.queries.known_removals import removal_digest
from psoup.admission.queries.query_streams import Owners
from psoup.admission.queries.requests import check_request_id
from psoup.admission.queries.tags import KnownTags, check_prefix, check_tag
from psoup.errors import InvalidInput, NotFound
from psoup.events.acknowledgements import Prepared, QueryAcknowledgement, RemovalAcknowledgement
from psoup.events.commands import AlterQueries, Unregister, UnregisterMany
from psoup.events.events import Unregistered, UnregisteredMany
from psoup.events.tags import Tag
from psoup.phrases import counted
from psoup.values.columns import Array

_NAMED = 3
"""The most missing queries that an error names."""


def decide_unregister(
    command: Unregister, tenant: KnownTenant, queries: Owners, streams: Mapping[int, KnownStream], sequence: int
) -> Prepared:
    """Decide on the removal of one query. Raises NotFound; the error names the query that has replaced it, if any."""
    stream_id = queries.get(command.query_id)
    if stream_id is None or streams[stream_id].tenant != command.tenant:
        raise tenant.no_query(command.query_id)
    event = Unregistered(sequence, command.tenant, command.query_id)
    return Prepared(QueryAcknowledgement(sequence, query_id=command.query_id), event)


def decide_unregister_many(
    command: UnregisterMany,
    tenant: KnownTenant,
    queries: Owners,
    streams: Mapping[int, KnownStream],
    tags: KnownTags,
    sequence: int,
    now: int,
) -> Prepared:
    """Decide on the removal of some queries. Raises NotFound, with missing IDs or an unknown label, and InvalidInput.

    `sequence`: the sequence that the event gets. `now`: the clock time, which decides whether a query has expired.
    """
    check_request_id(command.request_id)
    earlier = tenant.removals.earlier(command)
    if earlier is not None:
        return Prepared(RemovalAcknowledgement(earlier.sequence, True, earlier.count))
    if command.query_ids is not None and command.expired and not (command.labels or command.prefix):
        ids = np.intersect1d(tags.lifetimes().due(now), command.query_ids)
        ids = ids[queries.stand(ids)]
    else:
        ids = selected_queries(command, queries, streams, tags, "unregistered")
    if command.dry_run or not len(ids):
        return Prepared(RemovalAcknowledgement(sequence - 1, count=len(ids)))
    digest = removal_digest(command) if command.request_id else b""
    event = UnregisteredMany(sequence, command.tenant, ids, len(ids), command.request_id, digest, command.expired)
    return Prepared(RemovalAcknowledgement(sequence, count=len(ids)), event)


def selected_queries(
    command: UnregisterMany | AlterQueries,
    queries: Owners,
    streams: Mapping[int, KnownStream],
    tags: KnownTags,
    done: str,
) -> Array:
    """The queries that a command selects: int64[k], ascending. `done`: what the command does with them, for errors.

    Raises NotFound, with missing IDs or an unknown label, and InvalidInput.
    """
    if (command.query_ids is not None) + bool(command.labels) + bool(command.prefix) != 1:
        raise InvalidInput("say which queries: by their IDs, by labels, or by a prefix of keys", reason="SELECTION")
    if command.query_ids is not None:
        return _standing(np.unique(command.query_ids).astype(np.int64), command.tenant, queries, streams, done)
    check_tag(Tag("", command.labels))
    check_prefix(command.prefix)
    tags.check_selection(command.tenant, command.labels)
    return tags.meant(command.tenant, command.labels, command.prefix, queries)


def _standing(ids: Array, tenant: str, queries: Owners, streams: Mapping[int, KnownStream], done: str) -> Array:
    """Return the IDs, if all are queries of the tenant. Otherwise raise NotFound, with missing IDs."""
    owners = queries.streams(ids)
    used = np.unique(owners[owners >= 0]).tolist()
    mine = [stream_id for stream_id in used if streams[stream_id].tenant == tenant]
    missing = ids[~np.isin(owners, mine)]
    if len(missing):
        some = ", ".join(map(str, missing[:_NAMED].tolist()))
        raise NotFound(
            f"of {counted(len(ids), 'query')}, {len(missing):,} cannot be found: {some}"
            f"{', …' if len(missing) > _NAMED else ''}; nothing was {done}: list the queries to see which there are",
            reason="UNKNOWN_QUERY",
            query_id=int(missing[0]),
            missing=len(missing),
            examples=some,
        )
    return ids
