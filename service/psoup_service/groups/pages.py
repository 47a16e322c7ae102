"""The page of a worker: the first matches of its partitions after their positions.

    positions   p3: tuple 41   p7: tuple 52, query 8        the page begins at tuple 41
    matches     41 p3   41 p9   52 p7 query 5   60 p7       given: 41 p3, 60 p7

A match before the position of its partition is left out, because it was confirmed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.answer.follow.kept_entries import FollowPlace, kept_from
from psoup.answer.follow.page import (
    Follower,
    FollowPage,
    follow_page,
)
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget
from psoup_service.groups.partitions import partitions_of
from psoup_service.wire.answers import one_batch
from psoup_service.wire.follow_pairs import pairs_batch

_LONGEST_S = 0.25
"""Seconds after which a page without matches looks at no further tuples."""


@dataclass(frozen=True, slots=True)
class PageForm:
    """The most matches and the most bytes of a batch."""

    most_rows: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class WorkerPage:
    """Matches as Arrow IPC streams, empty without matches. `place`: the position after them.

    `missed`: the number of expired tuples. Such a page has no matches. `end_id`: the next tuple ID of the stream.
    """

    tuples: bytes
    matches: bytes
    queries: bytes
    place: FollowPlace
    end_id: int
    left_out: int
    sequence: int
    missed: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.matches and not self.missed

    @property
    def caught_up(self) -> bool:
        """Whether no tuple is left."""
        return self.place.next_id >= self.end_id


def worker_page(
    snapshot: Snapshot,
    view: StreamView,
    follower: Follower,
    partitions: Array,
    positions: Array,
    form: PageForm,
    now: int,
    budget: ReadBudget,
) -> WorkerPage:
    """The page of a worker. `partitions`: bool[PARTITIONS], with at least one; `positions`: int64[PARTITIONS, 2].

    It ends with the first matches, at the newest tuple, or after `_LONGEST_S`.
    """
    place = FollowPlace(*min(map(tuple, positions[partitions].tolist())))
    oldest = kept_from(view, place, now)
    if oldest != place:
        missed = oldest.next_id - place.next_id
        return WorkerPage(b"", b"", b"", oldest, view.next_id, 0, snapshot.sequence, missed)
    end = time.perf_counter() + _LONGEST_S
    while True:
        page = follow_page(
            snapshot, view, follower, place, most_rows=form.most_rows, most_bytes=form.most_bytes, budget=budget
        )
        chosen, place = _chosen(page, partitions, positions), page.place
        if chosen.any() or page.caught_up or time.perf_counter() > end:
            return WorkerPage(*_written(page, chosen), place, page.end_id, page.left_out, snapshot.sequence)


def _chosen(page: FollowPage, partitions: Array, positions: Array) -> Array:
    """The matches of a page that a worker is told: bool[n]."""
    if not len(page.queries):
        return np.zeros(0, np.bool_)
    ids = page.tags["query"].to_numpy()
    order = np.argsort(ids)
    of_pairs = partitions_of(page.tags)[order[np.searchsorted(ids[order], page.queries)]]
    next_ids, after = positions[of_pairs, 0], positions[of_pairs, 1]
    later = (page.tuple_ids > next_ids) | ((page.tuple_ids == next_ids) & (page.queries > after))
    chosen: Array = partitions[of_pairs] & later
    return chosen


def _written(page: FollowPage, chosen: Array) -> tuple[bytes, bytes, bytes]:
    """The tuples, the matches and the queries of the told matches."""
    if not chosen.any():
        return b"", b"", b""
    tuple_ids, queries = page.tuple_ids[chosen], page.queries[chosen]
    pairs = pairs_batch(tuple_ids, queries, None if page.changes is None else page.changes[chosen])
    rows = page.tuples.filter(pa.array(np.isin(page.tuples.column(0).to_numpy(), tuple_ids)))
    tags = page.tags.filter(pa.array(np.isin(page.tags["query"].to_numpy(), queries)))
    return one_batch(rows), one_batch(pairs), one_batch(tags)
