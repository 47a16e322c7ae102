"""The marks of one stream: which of its followers at the newest tuple have new matches.

    publication ── one look at the new results ──> clauses found ──> their followers ─┐
                                                   a new tuple ────> all selections ──┴> marked at the last look's end
    new queries ── by label, by key ─> followers that resolve their queries anew, with the next tuple
    each second ── a new tuple ──────> followers that name queries with amount NONE (late ones)

A follower without a mark costs nothing: it has been told all tuples up to the last look. Only an evaluation shows the
matches of a query with amount NONE. So a late follower waits for the tick, which marks all late followers at once: then
one evaluation serves them. For the event loop.
"""

from __future__ import annotations

from itertools import islice, takewhile

from psoup.answer.copies.watched_clauses import WatchedClause, WatchedClauses
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.plan.sides import FIRST_SIDE
from psoup.published.paged_map import PagedMap
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup_service.following.follower import FollowClient

_LEARNED = 1_000
"""The most new queries that are looked at one by one. After more, all followers resolve their queries anew."""


class StreamMarks:
    """The followers of one stream. `seen`: the next tuple ID at the last look."""

    def __init__(self, snapshot: Snapshot, view: StreamView) -> None:
        self.seen = view.next_id
        self.clients = set[FollowClient]()
        self._clauses = WatchedClauses(view)
        self._by_clause: dict[int, set[FollowClient]] = {}
        self._every = set[FollowClient]()
        self._late = set[FollowClient]()
        self._by_tag: dict[tuple[str, str], set[FollowClient]] = {}
        """The followers by the first of their labels, and by their keys, under the name ""."""
        self._stale = set[FollowClient]()
        """Followers that a new or altered query may concern."""
        self._queries: PagedMap[QueryRecord] = snapshot.queries
        self._alterations = snapshot.alterations
        self._last_query = snapshot.queries.last_before(FIRST_SIDE)

    def enter(self, client: FollowClient) -> None:
        """Add a follower. Its next page resolves its queries; until `follow_from` it is not at the newest tuple."""
        self.clients.add(client)
        for tag in _tags(client):
            self._by_tag.setdefault(tag, set()).add(client)

    def leave(self, client: FollowClient) -> None:
        """Remove a follower. O(clauses of the follower)."""
        self.clients.discard(client)
        self._stale.discard(client)
        self._watch(client, {})
        self._every.discard(client)
        self._late.discard(client)
        for tag in _tags(client):
            self._by_tag[tag].discard(client)
            if not self._by_tag[tag]:
                del self._by_tag[tag]

    def place_of(self, client: FollowClient) -> FollowPlace:
        """The place up to which a follower has been told."""
        if client.newest and client.place.next_id < self.seen:
            return FollowPlace(self.seen)
        return client.place

    def follow_from(
        self,
        client: FollowClient,
        place: FollowPlace,
        clauses: dict[int, WatchedClause] | None,
        *,
        fresh: bool,
        late: bool = False,
    ) -> bool:
        """Note the place after a page, and the clauses of the follower's queries. Returns whether it is at the newest.

        `fresh`: the follower's first page. A query may have come between its snapshot and `enter`. `late`: only `tick`
        marks the follower.
        """
        client.place = place
        (self._late.add if late else self._late.discard)(client)
        if late:
            clauses = {}
        self._watch(client, {} if clauses is None else clauses)
        client.clauses = None if clauses is None else client.clauses
        (self._every.add if clauses is None else self._every.discard)(client)
        if fresh and not client.wanted.every:
            self._concerned({client})
        client.newest = place.after < 0 and place.next_id >= self.seen
        return client.newest

    def _watch(self, client: FollowClient, clauses: dict[int, WatchedClause]) -> None:
        if client.watched is clauses:
            return
        before, client.watched = client.clauses or frozenset(), clauses
        for sqc_id in before - clauses.keys():
            members = self._by_clause[sqc_id]
            members.discard(client)
            if not members:
                del self._by_clause[sqc_id]
                self._clauses.drop(sqc_id)
        for sqc_id in clauses.keys() - before:
            members = self._by_clause.setdefault(sqc_id, set())
            if not members:
                self._clauses.add(clauses[sqc_id])
            members.add(client)
        client.clauses = frozenset(clauses)

    def look(self, snapshot: Snapshot, view: StreamView) -> None:
        """Mark the followers that have new matches since the last look. O(new matches + clauses + marked followers)."""
        if snapshot.alterations != self._alterations:  # a query may have another clause, or none that is told
            self._alterations = snapshot.alterations
            self._concerned(self.clients - self._every)
        if snapshot.queries is not self._queries:
            self._learn(snapshot.queries, view)
        if view.next_id == self.seen:
            return
        looked = self._clauses.look(view)
        marked = self._every | self._stale
        self._stale = set()
        for sqc_id in (*looked.found.tolist(), *looked.unsure.tolist()):
            marked |= self._by_clause[sqc_id]
        for client in marked - self._late:
            self.mark(client)
        for client in self._late:
            self._leave_behind(client)
        self.seen = view.next_id

    def tick(self) -> None:
        """Mark the late followers that have not been told the newest tuple. O(late followers)."""
        for client in self._late:
            if not client.newest:
                client.marked.set()

    def mark(self, client: FollowClient) -> None:
        """Wake a follower, which is behind from now on."""
        self._leave_behind(client)
        client.marked.set()

    def _leave_behind(self, client: FollowClient) -> None:
        """Let a follower be behind from now on, at the place of the last look."""
        if client.newest:
            client.place = self.place_of(client)
            client.newest = False

    def _learn(self, queries: PagedMap[QueryRecord], view: StreamView) -> None:
        """Find the followers that new queries concern."""
        later = takewhile(lambda item: item[0] < FIRST_SIDE, queries.items(self._last_query + 1))
        new = [*islice(later, _LEARNED + 1)]
        self._queries = queries
        if len(new) > _LEARNED:
            self._concerned(self.clients - self._every)
            self._last_query = queries.last_before(FIRST_SIDE)
            return
        for query_id, record in new:
            self._last_query = query_id
            if record.stream_id == view.stream_id and record.tag:
                for tag in (("", record.tag.key), *record.tag.labels):
                    self._concerned(self._by_tag.get(tag, set()))

    def _concerned(self, clients: set[FollowClient]) -> None:
        """Note followers that a new query may concern."""
        self._stale |= clients
        for client in clients:
            client.stale = True


def _tags(client: FollowClient) -> list[tuple[str, str]]:
    return [*client.wanted.labels[:1], *(("", key) for key in client.wanted.keys)]
