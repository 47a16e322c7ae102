"""The pages of many followers of few queries each, which are all at the same place of a stream.

    clauses of all followers ── one pass over the new results ──> pairs, by follower, tuple and query
    tuples, keys and labels  ── gathered once ──> one batch in this order ──> a slice for each follower

The arrays of all followers are handled at once. Python takes a few steps for each follower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import (
    PAIR_BYTES,
    Follower,
    FollowPage,
    first_pairs,
    fitting_page,
    gathered_rows,
    row_bytes,
    tags_of,
)
from psoup.answer.follow.pairs import FollowPairs, TogetherPairs, pairs_together
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_SHARED = 4
"""The most bytes of the pages that are gathered together, as a multiple of the bytes of a page."""


def follow_together(
    snapshot: Snapshot,
    view: StreamView,
    followers: Sequence[Follower],
    low: int,
    high: int,
    *,
    most_rows: int,
    most_bytes: int,
    budget: ReadBudget = UNBOUNDED,
) -> list[FollowPage]:
    """The pages of followers of few queries each, all from the same place on. One pass reads the clauses of all.

    The pages have tuples of one chunk at most, before `high`. The followers are resolved. Queries that have left since
    are not told. O(new matches + clauses + pages).
    """
    snapshot.automatic.note_followed(view.stream_id)
    catalogs = [follower.catalog for follower in followers]
    pairs = _standing(snapshot, pairs_together(snapshot, view, low, high, catalogs, budget))
    starts = np.searchsorted(pairs.owners, np.arange(len(followers) + 1))
    rows = gathered_rows(snapshot, view, np.unique(pairs.tuple_ids), most_bytes, budget)
    slices = _slices(snapshot, pairs, rows, starts, most_rows, most_bytes)
    place, pages, ends = FollowPlace(pairs.end_id), list[FollowPage](), starts.tolist()
    for number, follower in enumerate(followers):
        tuple_ids, queries = (column[ends[number] : ends[number + 1]] for column in (pairs.tuple_ids, pairs.queries))
        if slices is not None and slices.fits[number]:
            tuples, tags = slices.of(number)
            pages.append(FollowPage(tuple_ids, queries, tuples, tags, place, view.next_id, follower.left_out))
            continue
        first = first_pairs(FollowPairs(tuple_ids, queries, pairs.end_id), most_rows)
        pages.append(fitting_page(snapshot, view, first, follower.left_out, most_bytes, budget))
    return pages


def _standing(snapshot: Snapshot, pairs: TogetherPairs) -> TogetherPairs:
    """The pairs without queries that have left."""
    ids = np.unique(pairs.queries)
    gone = snapshot.queries.find(ids).missing if len(ids) else ids
    return pairs.of(~np.isin(pairs.queries, gone)) if len(gone) else pairs


class _Slices(NamedTuple):
    """Rows and tags in the order of the followers, and the starts of each follower's.

    `fits`: the followers whose rows and tags are here.
    """

    rows: pa.RecordBatch
    tags: pa.RecordBatch
    row_starts: list[int]
    tag_starts: list[int]
    fits: list[bool]

    def of(self, number: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The tuples and the tags of a follower."""
        row, tag = self.row_starts[number], self.tag_starts[number]
        rows = self.rows.slice(row, self.row_starts[number + 1] - row)
        return rows, self.tags.slice(tag, self.tag_starts[number + 1] - tag)


def _slices(
    snapshot: Snapshot, pairs: TogetherPairs, rows: pa.RecordBatch, starts: Array, most_rows: int, most_bytes: int
) -> _Slices | None:
    """The rows and tags of the pages that fit. None if `rows` lacks some of the tuples."""
    tuples, row_of_pair = np.unique(pairs.tuple_ids, return_inverse=True)
    if rows.num_rows < len(tuples):
        return None
    ids, tag_of_pair = np.unique(pairs.queries, return_inverse=True)
    tags, followers = tags_of(snapshot, ids), np.arange(len(starts))
    each_row, row_owners = _each_once(pairs.owners, row_of_pair, len(tuples))
    each_tag, tag_owners = _each_once(pairs.owners, tag_of_pair, len(ids))
    counts = np.diff(starts)
    sizes: Array = PAIR_BYTES * counts
    sizes = sizes + np.bincount(row_owners, row_bytes(rows)[each_row], len(counts))
    sizes = sizes + np.bincount(tag_owners, row_bytes(tags)[each_tag], len(counts))
    fits = (counts <= most_rows) & (sizes <= most_bytes) & (np.cumsum(sizes) <= _SHARED * most_bytes)
    each_row, row_owners = each_row[fits[row_owners]], row_owners[fits[row_owners]]
    each_tag, tag_owners = each_tag[fits[tag_owners]], tag_owners[fits[tag_owners]]
    row_starts, tag_starts = np.searchsorted(row_owners, followers), np.searchsorted(tag_owners, followers)
    row_batch, tag_batch = rows.take(pa.array(each_row)), tags.take(pa.array(each_tag))
    return _Slices(row_batch, tag_batch, row_starts.tolist(), tag_starts.tolist(), fits.tolist())


def _each_once(owners: Array, things: Array, count: int) -> tuple[Array, Array]:
    """The things (below `count`) of each owner once, ascending by owner and thing: the things and their owners."""
    each = np.unique(owners * count + things)
    return each % max(count, 1), each // max(count, 1)
