"""Pages of following clients as Arrow IPC, made on a reader thread from one snapshot. Equal pages are made once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from psoup.answer.copies.watched_clauses import WatchedClause
from psoup.answer.follow.page import Follower, FollowPage, FollowPlace, follow_page
from psoup.errors import NotFound
from psoup.published.snapshot import Snapshot, StreamView
from psoup.work.read_budget import ReadBudget
from psoup_service.following.follower import FollowClient
from psoup_service.following.positions import kept
from psoup_service.wire.answers import one_batch

Clauses = dict[int, WatchedClause] | None
"""The clauses of a follower's queries, by their IDs. None: it is marked by every new tuple."""


@dataclass(frozen=True, slots=True)
class FollowBatch:
    """The matches of a page as Arrow IPC streams, which are empty without matches. `sequence`: the event reflected."""

    tuples: bytes
    matches: bytes
    queries: bytes
    place: FollowPlace
    end_id: int
    left_out: int
    sequence: int
    clauses: Clauses

    @property
    def lag(self) -> int:
        """The number of tuples after the place."""
        return max(self.end_id - self.place.next_id, 0)


class FollowPages:
    """Makes pages from one snapshot. `now`: the clock's time."""

    def __init__(self, snapshot: Snapshot, budget: ReadBudget, now: int) -> None:
        self._snapshot = snapshot
        self._budget = budget
        self._now = now
        self._made: dict[object, FollowBatch] = {}

    def page(self, client: FollowClient, place: FollowPlace) -> FollowBatch:
        """The page of a client from a place on.

        Raises PositionLost if the tuple there is no longer kept, NotFound if the stream was dropped.
        """
        form = client.form
        name = (client.stream_id, client.wanted, place, form.most_rows, form.most_bytes)
        if name not in self._made:
            view = self.view(client)
            page = follow_page(
                self._snapshot,
                view,
                client.follower,
                kept(place, view, self._now),
                most_rows=form.most_rows,
                most_bytes=form.most_bytes,
                budget=self._budget,
            )
            self._made[name] = self._batch(client.follower, view, page)
        return self._made[name]

    def view(self, client: FollowClient) -> StreamView:
        """The stream of a client. Raises NotFound if it was dropped."""
        view = self._snapshot.by_id.get(client.stream_id)
        if view is None:
            raise NotFound(
                "the stream was dropped while it was followed", reason="UNKNOWN_STREAM", stream=str(client.stream_id)
            )
        return view

    def _batch(self, follower: Follower, view: StreamView, page: FollowPage) -> FollowBatch:
        tuples = matches = queries = b""
        if len(page.tuple_ids):
            pairs = pa.record_batch({"tuple_id": pa.array(page.tuple_ids), "query": pa.array(page.queries)})
            tuples, matches, queries = one_batch(page.tuples), one_batch(pairs), one_batch(page.tags)
        clauses = clauses_of(self._snapshot, follower)
        rest = page.place, page.end_id, page.left_out, self._snapshot.sequence
        return FollowBatch(tuples, matches, queries, *rest, clauses)


def clauses_of(snapshot: Snapshot, follower: Follower) -> Clauses:
    """The clauses of a follower's queries. O(clauses)."""
    if not follower.few:
        return None
    clauses = map(snapshot.clause, follower.known.clauses.tolist())
    return {clause.sqc_id: WatchedClause(clause.sqc_id, clause.slot, not clause.factors) for clause in clauses}
