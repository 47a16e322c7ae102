"""Selection of queries by their labels, or by the prefix of their keys. The result is an array of IDs.

    labels user=u3        the runs of `psoup.published.tags`, confirmed by the labels themselves
    keys from "site-a/"   a pass over all keys of the tenant; the keys of a block are one column

Operations on many queries at once use this module. `psoup.answer.describe` lists queries for clients, page by page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import Labels, TagColumns
from psoup.published.lifetimes import Lifetimes
from psoup.published.paged_map import PagedMap
from psoup.published.record_block import picked
from psoup.published.records import QueryBlock, QueryRecord
from psoup.published.snapshot import StreamView
from psoup.published.tags import PublishedTags
from psoup.values.columns import Array


class Published(Protocol):
    """The part of a snapshot that admission reads, and in which queries are selected."""

    @property
    def sequence(self) -> int:
        """The last event of the snapshot."""
        ...

    @property
    def by_id(self) -> Mapping[int, StreamView]:
        """The streams by their IDs."""
        ...

    @property
    def queries(self) -> PagedMap[QueryRecord]:
        """The registered queries."""
        ...

    @property
    def tags(self) -> PublishedTags:
        """The keys and labels of queries."""
        ...

    @property
    def lifetimes(self) -> Lifetimes:
        """The queries that expire."""
        ...


class NothingPublished:
    """The snapshot of a process without a writer yet."""

    sequence = 0
    by_id: Mapping[int, StreamView] = {}
    queries: PagedMap[QueryRecord] = PagedMap()
    tags = PublishedTags()
    lifetimes = Lifetimes()


def with_labels(published: Published, tenant: str, labels: Labels) -> Array:
    """The queries of a tenant that have all of some labels (at least one): int64[k], ascending. O(log n + k)."""
    candidates = published.queries.find(published.tags.with_labels(tenant, labels))
    wanted = set(labels)
    single = [query_id for query_id, record in candidates.records.items() if wanted <= set(record.tag.labels)]
    ids = [np.array(single, np.int64)]
    for block, places in candidates.blocks:
        if block.tags is not None:
            ids.append(picked(block.ids, places[block.tags.having(labels)[places]]))
    return np.sort(np.concatenate(ids))


def with_prefix(published: Published, tenant: str, prefix: str) -> Array:
    """The queries of a tenant whose keys begin with `prefix`: int64[k], ascending. O(queries), by columns in blocks."""
    single = [
        record.query_id
        for record in published.queries.single()
        if record.tenant == tenant and record.tag.key.startswith(prefix)
    ]
    ids = [np.array(single, np.int64)]
    for block in published.queries.blocks:
        if isinstance(block, QueryBlock) and block.tenant == tenant and block.tags is not None:
            places = block.standing()
            ids.append(picked(block.ids, places[block.tags.beginning(prefix)[places]]))
    return np.sort(np.concatenate(ids))


def among(event: Registered | RegisteredMany, labels: Labels, prefix: str) -> Array:
    """The queries of a registration that the labels, or the prefix of their keys, select: int64[k], ascending.

    Queries that were removed since are among them.
    """
    if isinstance(event, Registered):
        first, tags = event.query_id, TagColumns.of(event.tag)
    else:
        first, tags = event.first_id, event.tags
    if tags is None:
        return np.zeros(0, np.int64)
    return first + np.flatnonzero(tags.having(labels) if labels else tags.beginning(prefix))
