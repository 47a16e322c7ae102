"""The topics of watching clients: each query and window once, with its watchers, and the checks for news.

    publication ─ new matches of watched clauses ─> topics found        at once
                  clauses not evaluated there     ─> topics unsure  ┐
                  joins, groups, rankings …       ─> topics slow    ┴─> at most once a second, and 20 times their cost

The cost of an evaluation is its processor time. A longer pause follows only after two costly evaluations in a row,
because one may have loaded kernels.

The cost of a check depends on the new matches, not on the number of watched queries. For the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from psoup.answer.copies.watched_clauses import WatchedClause, WatchedClauses
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup_service.watching.pages import Target
from psoup_service.watching.watcher import Watcher

SLOW_S = 1.0
"""The least seconds between two evaluations of a topic whose changes only an evaluation shows."""
_SHARE = 20
"""The least pause between two evaluations of a topic, in multiples of the cost of one."""
_CHECKED = 1_000
"""The most queries that one look checks for their existence: some tenths of a millisecond."""

Place = tuple[Watcher, int]


@dataclass(slots=True, eq=False)
class Topic:
    """The subject of some wants, and its watchers. `due`: the loop's time before which it is not evaluated again.

    `unsure`: only an evaluation shows whether new tuples have matched. `sequence`: the event up to which it was last
    evaluated. `cost`: the most seconds of an evaluation since the last mark, and `last_cost` before it.
    """

    target: Target
    places: set[Place] = field(default_factory=set)
    due: float = 0.0
    unsure: bool = False
    sequence: int = -1
    cost: float = 0.0
    last_cost: float = 0.0

    def mark(self) -> None:
        """Mark the topic's places at its watchers: its answer may have changed."""
        for watcher, place in self.places:
            watcher.mark(place)


class Topics:
    """All topics. `found`: number of marks by new matches. `asked`: number of marks because a topic was due."""

    def __init__(self) -> None:
        self._topics: dict[tuple[int, bytes], Topic] = {}
        self._of_place: dict[Place, Topic] = {}
        self._by_clause: dict[tuple[int, int], set[Topic]] = {}
        self._streams: dict[int, WatchedClauses] = {}
        self._views: dict[int, StreamView] = {}
        """The watched streams as the last look saw them."""
        self._slow = set[Topic]()
        self._queries: object = None
        self._alterations = 0
        """The alterations of queries as of the last look."""
        self._unchecked: Array = np.zeros(0, np.int64)
        self._numbers: Array | None = None
        """The IDs of all watched queries, ascending; None after a topic has come or gone."""
        self.found = self.asked = 0

    def __len__(self) -> int:
        return len(self._topics)

    def add(self, watcher: Watcher, place: int, target: Target, snapshot: Snapshot) -> None:
        """Register a want.

        If `snapshot` is the present one, the want's watcher hears of all later changes.
        """
        if (watcher, place) in self._of_place:
            return
        self._numbers = None
        topic = self._topics.setdefault((target.query_id, target.window), Topic(target))
        topic.places.add((watcher, place))
        self._of_place[watcher, place] = topic
        if target.clause is None:
            self._slow.add(topic)
            watcher.slow.add(place)
            return
        if snapshot.alterations != self._alterations:  # the target may be of an earlier snapshot than the last look
            self._alterations = -1
        self._watch(topic, target.clause, snapshot)

    def _watch(self, topic: Topic, clause: WatchedClause, snapshot: Snapshot) -> None:
        """Look for new matches of a topic's clause."""
        (stream_id,) = topic.target.streams
        members = self._by_clause.setdefault((stream_id, clause.sqc_id), set())
        if not members:
            if stream_id not in self._streams:
                self._streams[stream_id] = WatchedClauses(snapshot.by_id[stream_id])
            self._streams[stream_id].add(clause)
        members.add(topic)

    def of(self, watcher: Watcher, place: int) -> Target | None:
        """The target of a want that was registered."""
        topic = self._of_place.get((watcher, place))
        return None if topic is None else topic.target

    def drop(self, watcher: Watcher, place: int) -> None:
        """Forget a want."""
        topic = self._of_place.pop((watcher, place), None)
        if topic is None:
            return
        topic.places.remove((watcher, place))
        if topic.places:
            return
        target, self._numbers = topic.target, None
        del self._topics[target.query_id, target.window]
        self._slow.discard(topic)
        if target.clause is None:
            return
        self._unwatch(topic, target.clause)

    def _unwatch(self, topic: Topic, clause: WatchedClause) -> None:
        """Look for new matches of a topic's clause no more."""
        name = topic.target.streams[0], clause.sqc_id
        self._by_clause[name].discard(topic)
        if not self._by_clause[name]:
            del self._by_clause[name]
            self._streams[name[0]].drop(name[1])
            if not len(self._streams[name[0]]):
                del self._streams[name[0]]

    def _follow_alterations(self, snapshot: Snapshot) -> None:
        """Watch the new clauses of queries that were altered, and mark their topics. O(topics) after an alteration."""
        if snapshot.alterations == self._alterations:
            return
        self._alterations = snapshot.alterations
        for topic in self._topics.values():
            before, record = topic.target.clause, snapshot.queries.get(topic.target.query_id)
            if before is None or record is None or record.sqc_id == before.sqc_id:
                continue
            clause = snapshot.clause(record.sqc_id)
            watched = WatchedClause(clause.sqc_id, clause.slot, not clause.factors)
            self._unwatch(topic, before)
            topic.target = replace(topic.target, clause=watched)
            self._watch(topic, watched, snapshot)
            topic.mark()

    def look(self, snapshot: Snapshot) -> bool:
        """Mark the topics that new tuples have matched, and the topics whose queries are gone.

        Returns whether a watched stream has changed since the last look.
        """
        self._follow_alterations(snapshot)
        before, self._views = self._views, {}
        for stream_id, clauses in self._streams.items():
            view = snapshot.by_id.get(stream_id)
            if view is None:  # its queries are gone
                continue
            self._views[stream_id] = view
            if before.get(stream_id) is view:
                continue
            looked = clauses.look(view)
            for sqc_id in looked.found.tolist():
                for topic in self._by_clause[stream_id, sqc_id]:
                    topic.mark()
                    self.found += 1
            for sqc_id in looked.unsure.tolist():
                for topic in self._by_clause[stream_id, sqc_id]:
                    topic.unsure = True
                    self._slow.add(topic)
        self._check(snapshot)
        return any(before.get(stream_id) is not view for stream_id, view in self._views.items())

    def _check(self, snapshot: Snapshot) -> None:
        """Mark topics whose queries are gone. After queries have come or gone, each look checks some topics."""
        if snapshot.queries is not self._queries:
            self._queries = snapshot.queries
            if self._numbers is None:
                names = np.fromiter((query_id for query_id, _ in self._topics), np.int64, len(self._topics))
                self._numbers = np.unique(names)
            self._unchecked = self._numbers
        if not len(self._unchecked):
            return
        some, self._unchecked = self._unchecked[:_CHECKED], self._unchecked[_CHECKED:]
        gone = set(snapshot.queries.find(some).missing.tolist())
        if gone:
            for (query_id, _), topic in self._topics.items():
                if query_id in gone:
                    topic.mark()

    @property
    def unchecked(self) -> bool:
        """Whether queries are left to check, so that another look is needed without a publication."""
        return len(self._unchecked) > 0

    def ask(self, now: float, snapshot: Snapshot) -> None:
        """Mark the slow topics that are due. `now`: the time of the loop."""
        for topic in [topic for topic in self._slow if topic.due <= now]:
            if topic.target.clause is not None:
                self._slow.discard(topic)
            elif snapshot.sequence == topic.sequence and not topic.target.slides:
                continue
            topic.unsure, topic.sequence, topic.due = False, snapshot.sequence, now + SLOW_S
            topic.last_cost, topic.cost = topic.cost, 0.0
            topic.mark()
            self.asked += 1

    def asked_for(self, watcher: Watcher, place: int, cost: float, now: float) -> None:
        """Note the processor seconds of an evaluation. A topic is evaluated less often if two in a row are costly."""
        topic = self._of_place.get((watcher, place))
        if topic is not None and place in watcher.slow:
            topic.cost = max(topic.cost, cost)
            topic.due = max(topic.due, now + _SHARE * min(topic.cost, topic.last_cost))
