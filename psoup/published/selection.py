"""Queries that are meant together, by their labels or by how their keys begin: IDs as an array, found by columns.

    labels user=u3        the runs of `psoup.published.tags`, and a look at the labels themselves
    keys from "site-a/"   a look at all keys of the tenant: those of a block are one column

For what is done to many queries at once; lists for readers come page by page (`psoup.answer.describe`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from psoup.columns import Array
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import Labels, TagColumns
from psoup.published.lifetimes import Lifetimes
from psoup.published.paged import PagedMap
from psoup.published.records import QueryBlock, QueryRecord, picked
from psoup.published.tags import PublishedTags


class Published(Protocol):
    """The part of a snapshot in which queries are looked for."""

    @property
    def queries(self) -> PagedMap[QueryRecord]:
        """The queries that stand."""
        ...

    @property
    def tags(self) -> PublishedTags:
        """Their keys and labels."""
        ...

    @property
    def lifetimes(self) -> Lifetimes:
        """Queries that expire."""
        ...


class NothingPublished:
    """The snapshot before there is a writer."""

    queries: PagedMap[QueryRecord] = PagedMap()
    tags = PublishedTags()
    lifetimes = Lifetimes()


def with_labels(published: Published, tenant: str, labels: Labels) -> Array:
    """The queries of a tenant that have all of some labels (one at least): int64[k], ascending. O(log n + k)."""
    found = published.queries.find(published.tags.with_labels(tenant, labels))
    wanted = set(labels)
    single = [query_id for query_id, record in found.records.items() if wanted <= set(record.tag.labels)]
    ids = [np.array(single, np.int64)]
    for block, places in found.blocks:
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
    """The queries of a registration that are meant, whether they still stand or not: int64[k], ascending."""
    if isinstance(event, Registered):
        first, tags = event.query_id, TagColumns.of(event.tag)
    else:
        first, tags = event.first_id, event.tags
    if tags is None:
        return np.zeros(0, np.int64)
    return first + np.flatnonzero(tags.having(labels) if labels else tags.beginning(prefix))
