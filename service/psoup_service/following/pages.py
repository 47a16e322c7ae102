"""Pages of following clients as Arrow IPC, made on a reader thread from one snapshot. Equal pages are made once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psoup.answer.copies.watched_clauses import WatchedClause
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import (
    Follower,
    FollowPage,
    follow_page,
)
from psoup.answer.follow.together import follow_together
from psoup.errors import NotFound
from psoup.published.snapshot import Snapshot, StreamView
from psoup.work.read_budget import ReadBudget
from psoup_service.following.follower import FollowClient
from psoup_service.following.positions import kept
from psoup_service.wire.answers import one_batch
from psoup_service.wire.follow_pairs import pairs_batch

Clauses = dict[int, WatchedClause] | None
"""The clauses of a follower's queries, by their IDs. None: it is marked by every new tuple."""


@dataclass(frozen=True, slots=True)
class FollowBatch:
    """The matches of a page as Arrow IPC streams, which are empty without matches. `sequence`: the event reflected.

    `late`: whether the follower names a query with amount NONE.
    """

    tuples: bytes
    matches: bytes
    queries: bytes
    place: FollowPlace
    end_id: int
    left_out: int
    sequence: int
    clauses: Clauses
    late: bool = False

    @property
    def lag(self) -> int:
        """The number of tuples after the place."""
        return max(self.end_id - self.place.next_id, 0)


class FollowTask(NamedTuple):
    """A page to make: of a client, from a place on, with tuples before the ID `before`.

    `anew`: whether a new query may be one of the client's.
    """

    client: FollowClient
    place: FollowPlace
    before: int = 2**62
    anew: bool = True


class FollowPages:
    """Makes pages from one snapshot. `now`: the clock's time."""

    def __init__(self, snapshot: Snapshot, budget: ReadBudget, now: int) -> None:
        self._snapshot = snapshot
        self._budget = budget
        self._now = now
        self._made: dict[Hashable, tuple[FollowBatch, Follower]] = {}
        """The pages, each with the follower whose queries it tells."""

    def page(self, task: FollowTask) -> FollowBatch:
        """The page of one client.

        Raises PositionLost if the tuple at the place has left the stream. Raises NotFound if the stream was dropped.
        """
        name, follower = _name(task), task.client.follower
        if name not in self._made:
            view, form = self._view(task), task.client.form
            page = follow_page(
                self._snapshot,
                view,
                follower,
                kept(task.place, view, self._now),
                most_rows=form.most_rows,
                most_bytes=form.most_bytes,
                budget=self._budget,
                before=task.before,
                anew=task.anew,
            )
            self._made[name] = self._batch(follower, page), follower
        batch, maker = self._made[name]
        follower.take_queries(maker)
        return batch

    def has(self, task: FollowTask) -> bool:
        """Whether the page of a client has been made."""
        return _name(task) in self._made

    def share(self, tasks: Sequence[FollowTask]) -> None:
        """Make the pages of clients of few queries each in one pass. They are at the same place of a stream.

        `page` returns them afterwards. A task that does not fit is left to it.
        """
        groups = defaultdict[Hashable, dict[Hashable, FollowTask]](dict)
        for task in tasks:
            form = task.client.form
            together = (task.client.stream_id, task.place, task.before, form.most_rows, form.most_bytes)
            groups[together].setdefault(_name(task), task)
        for group in groups.values():
            if len(group) > 1:
                self._share(group)

    def _share(self, group: dict[Hashable, FollowTask]) -> None:
        sample = next(iter(group.values()))
        view = self._view(sample)
        if view.spec.table is not None:  # a page of a table also reads the versions before
            return
        if sample.place.after >= 0 or kept(sample.place, view, self._now).next_id >= min(sample.before, view.next_id):
            return
        for task in group.values():
            task.client.follower.resolve(self._snapshot, view, anew=task.anew)
        few = {name: task.client.follower for name, task in group.items() if task.client.follower.few}
        if len(few) < 2:
            return
        form, high = sample.client.form, min(sample.before, view.next_id)
        pages = follow_together(
            self._snapshot,
            view,
            [*few.values()],
            sample.place.next_id,
            high,
            most_rows=form.most_rows,
            most_bytes=form.most_bytes,
            budget=self._budget,
        )
        gone = self._gone([*few.values()])
        for (name, follower), page in zip(few.items(), pages, strict=True):
            self._made[name] = self._batch(follower, page, gone), follower

    def _view(self, task: FollowTask) -> StreamView:
        """The stream of a task's client. Raises NotFound if it was dropped."""
        stream_id = task.client.stream_id
        view = self._snapshot.by_id.get(stream_id)
        if view is None:
            raise NotFound("the stream was dropped while it was followed", reason="UNKNOWN_STREAM")
        return view

    def _gone(self, followers: Sequence[Follower]) -> Set[int]:
        """The clauses of some followers whose queries have all left."""
        clauses = np.unique(np.concatenate([follower.catalog.clauses for follower in followers]))
        return frozenset(self._snapshot.clauses.find(clauses).missing.tolist())

    def _batch(self, follower: Follower, page: FollowPage, gone: Set[int] | None = None) -> FollowBatch:
        tuples = matches = queries = b""
        if len(page.tuple_ids):
            pairs = pairs_batch(page.tuple_ids, page.queries, page.changes)
            tuples, matches, queries = one_batch(page.tuples), one_batch(pairs), one_batch(page.tags)
        clauses = clauses_of(self._snapshot, follower, gone)
        rest = page.place, page.end_id, page.left_out, self._snapshot.sequence
        return FollowBatch(tuples, matches, queries, *rest, clauses, follower.late)


def _name(task: FollowTask) -> Hashable:
    """The facts on which a page depends."""
    form = task.client.form
    return task.client.stream_id, task.client.wanted, task.place, task.before, form.most_rows, form.most_bytes


def clauses_of(snapshot: Snapshot, follower: Follower, gone: Set[int] | None = None) -> Clauses:
    """The clauses of a follower's queries. O(clauses).

    `gone`: all of these clauses whose queries have left, if the caller knows them. Then the result of an earlier call
    is returned while it holds.
    """
    if not follower.few:
        return None
    if gone is not None and isinstance(note := follower.catalog.note, dict) and gone.isdisjoint(note):
        return note
    clauses = map(snapshot.clauses.get, follower.catalog.clauses.tolist())
    standing = (clause for clause in clauses if clause is not None)
    watched = {clause.sqc_id: WatchedClause(clause.sqc_id, clause.slot, not clause.factors) for clause in standing}
    follower.catalog.note = watched
    return watched
