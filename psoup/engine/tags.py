"""The writer's table of the keys and labels of queries.

registered    each event adds a run of keys and a run of labels. The next snapshot has them.
unregistered  the removals are recorded. Once half of the queries are removed, new runs are made without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG
from psoup.invariants import ensure
from psoup.published.records import QueryRecord
from psoup.published.tags import PublishedTags, Runs, TagRun, key_run, label_run, runs_of, with_run
from psoup.values.columns import Array


class Tags:
    """Keys and labels of registered queries, and of some removed ones. Only the writer changes them."""

    def __init__(self) -> None:
        self._keys: Runs = ()
        self._labels: Runs = ()
        self._frozen = PublishedTags()
        self._tagged = 0
        """The number of queries in the runs."""
        self._gone: list[int] = []
        """The removed queries that are still in the runs."""

    def add(self, event: Registered | RegisteredMany) -> None:
        """Add the queries of an event. A replay also adds those that it knows to be removed later."""
        if isinstance(event, Registered):
            (keys, labels), first, count = runs_of(event.tenant, event.tag), event.query_id, 1
        else:
            assert event.tags is not None
            keys, labels = key_run(event.tenant, event.tags), label_run(event.tenant, event.tags)
            first, count = event.first_id, len(event.tags)
            event.tags.let_go()
            self._gone += [first + place for place in event.gone]
        self._keys = with_run(self._keys, keys.at(first, event.sequence))
        self._labels = with_run(self._labels, labels.at(first, event.sequence))
        self._tagged += count
        self._renew()

    def remove(self, query_ids: Sequence[int]) -> None:
        """Record that queries with keys or labels were removed. O(k), amortised."""
        self._gone += query_ids
        self._renew()

    def freeze(self, sequence: int) -> PublishedTags:
        """The keys and labels for readers, after the event `sequence`. The same object while no query has a tag."""
        if self._keys or self._labels or self._frozen.keys or self._frozen.labels:
            self._frozen = frozen = PublishedTags(sequence, self._keys, self._labels)
            return frozen
        return self._frozen

    @property
    def nbytes(self) -> int:
        """Bytes of the runs."""
        return PublishedTags(0, self._keys, self._labels).nbytes

    def check(self, queries: Mapping[int, QueryRecord]) -> None:
        """Check that a search by key and labels finds each query that has them, and that the count is right."""
        tags = PublishedTags(0, self._keys, self._labels)
        tags.check()
        tagged = {query_id: record for query_id, record in queries.items() if record.tags is not NO_TAG}
        counted = self._tagged - len(set(self._gone))
        ensure(counted == len(tagged), self, "queries with tags are miscounted", counted=counted, found=[*tagged])
        for query_id, record in tagged.items():
            key, labels = record.tag
            query = tags.query_of(record.tenant, key) if key else query_id
            ensure(query == query_id, self, "a query is not found by its key", key=key, found=query, query=query_id)
            labelled = not labels or query_id in tags.queries_of(record.tenant, labels, query_id - 1)
            ensure(labelled, self, "a query is not found by its labels", labels=labels, query=query_id)

    def _renew(self) -> None:
        if 2 * len(self._gone) <= self._tagged:
            return
        gone = np.unique(np.array(self._gone, np.int64))
        self._keys, self._labels = _without(self._keys, gone), _without(self._labels, gone)
        self._tagged -= len(gone)
        self._gone.clear()


def _without(runs: Runs, gone: Array) -> Runs:
    renewed: Runs = ()
    for run in runs:
        standing = np.flatnonzero(~np.isin(run.ids + np.int64(run.first), gone))
        low = run.low[standing] if len(run.low) else run.low
        renewed = with_run(renewed, TagRun(run.high[standing], low, run.ids[standing], run.first, run.sequence))
    return renewed
