"""Followers of a table: each page equals the comparison of each entry with the entry before, query by query."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from psoup.answer.follow import page as pages
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted
from psoup.answer.follow.version_pairs import CAME, LEFT, STAYS
from psoup.config import EngineConfig
from psoup.plan.amounts import Amount
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.upserts import PREDICATES, STATEMENT, Upserts
from psoup_testing.suite.budget import SEED, replayable, scaled

pytestmark = pytest.mark.seeded("the queries of a version that was deleted are not told to have left")

WANTED = (
    FollowWanted(),
    FollowWanted(old=True),
    FollowWanted(labels=(("user", "u1"),)),
    FollowWanted(labels=(("user", "u2"),), old=True),
    FollowWanted(labels=(("user", "u1"),), query_ids=(1, 3, 4, 7, 8)),
)


class Play:
    """A table, queries that come and go, and followers that read pages."""

    def __init__(self, draw: random.Random, path: Path) -> None:
        self.draw, self.upserts = draw, Upserts(draw)
        self.soup = RestartingPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**15), path)
        self.soup.execute(STATEMENT)
        self.queries: dict[int, tuple[str, str, int]] = {}
        """The predicate of each query, its label `user`, and the next tuple ID at its registration."""
        self.places, self.followers = [FollowPlace(0) for _ in WANTED], [Follower(wanted) for wanted in WANTED]
        self.unkept = set[int]()
        """The queries with amount NONE."""
        self.met = set[int]()

    def step(self) -> None:
        steps = [self.push] * 5 + [self.register] * 2 + [self.unregister, self.soup.maintain, self.restart]
        self.draw.choice([*steps, *[self.alter] * 2, *[self.read] * 8])()

    def push(self) -> None:
        self.upserts.push(self.soup)
        self.soup.clock.advance(seconds=self.draw.choice([0, 1]))

    def register(self) -> None:
        predicate, user = self.draw.choice(PREDICATES), self.draw.choice(["u1", "u2", ""])
        query = self.soup.register(f"SELECT k FROM ads WHERE {predicate}", labels={"user": user} if user else None)
        self.queries[query] = predicate, user, len(self.upserts.entries)

    def unregister(self) -> None:
        if self.queries and self.draw.random() < 0.5:
            query = self.draw.choice([*self.queries])
            self.soup.unregister(query)
            del self.queries[query]
            self.unkept.discard(query)

    def alter(self) -> None:
        if self.queries:
            query, amount = self.draw.choice([*self.queries]), self.draw.choice([Amount.NONE, Amount.PARTIAL])
            self.soup.alter_queries([query], amount=amount)
            (self.unkept.add if amount is Amount.NONE else self.unkept.discard)(query)

    def restart(self) -> None:
        self.soup.restart()
        self.followers = [Follower(wanted) for wanted in WANTED]

    def read(self) -> None:
        number = self.draw.randrange(len(WANTED))
        snapshot, before = self.soup.engine.snapshot(), self.places[number]
        view, rows = snapshot.stream("ads", self.soup.tenant), self.draw.choice([1, 3, 1_000])
        page = follow_page(snapshot, view, self.followers[number], before, most_rows=rows, most_bytes=10**6)
        assert page.changes is not None
        pairs = zip(page.tuple_ids.tolist(), page.queries.tolist(), page.changes.tolist(), strict=True)
        assert [*pairs] == self.truth(WANTED[number], before, page.place)
        assert page.tuples.column("_id").to_pylist() == sorted(set(page.tuple_ids.tolist()))
        for row in page.tuples.select(["_id", "k", "_deleted"]).to_pylist():
            entry = self.upserts.entries[row["_id"]]
            assert (row["k"], row["_deleted"]) == (entry.key, entry.row is None)
        assert "_first" not in page.tuples.schema.names
        self.places[number] = page.place
        self.met.update(page.changes.tolist())

    def truth(self, wanted: FollowWanted, before: FollowPlace, after: FollowPlace) -> list[tuple[int, int, int]]:
        """The pairs between two places."""
        changes = list[tuple[int, int, int]]()
        for at in range(before.next_id, min(after.next_id + 1, len(self.upserts.entries))):
            entry = self.upserts.entries[at]
            former = None if entry.before < 0 else self.upserts.entries[entry.before]
            for query, (predicate, user, first) in sorted(self.queries.items()):
                if not before <= (at, query - 1) or (at, query) > after:
                    continue
                named = query in wanted.query_ids
                if (wanted.labels and wanted.labels[0][1] != user and not named) or (at < first and not wanted.old):
                    continue
                if query in self.unkept and not named:
                    continue
                now, was = entry.satisfies(predicate), former is not None and former.satisfies(predicate)
                if now or was:
                    changes.append((at, query, (STAYS if was else CAME) if now else LEFT))
        return changes


@pytest.mark.parametrize("number", range(scaled(5)))
def test_each_page_tells_what_came_stays_and_left(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_FEW", number % 2)
    with replayable(SEED + number):
        play = Play(random.Random(SEED + number), tmp_path)
        for _ in range(150):
            play.step()
        assert play.met == {CAME, STAYS, LEFT}
