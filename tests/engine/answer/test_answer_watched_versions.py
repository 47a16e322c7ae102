"""Looks for news of a table: each clause is named whose answer a new version, or the end of one, has changed."""

from __future__ import annotations

import random

import pytest

from psoup.answer.copies.watched_clauses import WatchedClauses, clause_of
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.upserts import PREDICATES, STATEMENT, Upserts
from psoup_testing.suite.budget import SEED, replayable, scaled


@pytest.mark.parametrize("number", range(scaled(4)))
def test_each_clause_whose_answer_has_changed_is_named(number: int) -> None:
    with replayable(SEED + number):
        draw = random.Random(SEED + number)
        soup, upserts = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**15)), Upserts(draw)
        soup.execute(STATEMENT)
        upserts.push(soup)
        watched = WatchedClauses(soup.engine.snapshot().stream("ads", soup.tenant))
        predicates, seen, quiet = dict[int, str](), set(upserts.open_ids), 0
        for _ in range(60):
            if len(predicates) < len(PREDICATES) and draw.random() < 0.3:
                query = soup.register(f"SELECT k FROM ads WHERE {PREDICATES[len(predicates)]}")
                snapshot = soup.engine.snapshot()
                clause = clause_of(snapshot, snapshot.query(query, soup.tenant), None)
                assert clause is not None
                watched.add(clause)
                predicates[clause.sqc_id] = PREDICATES[len(predicates)]
            for _ in range(draw.choice([0, 1, 1, 8])):
                upserts.push(soup, most_keys=draw.choice([1, 4]))
            if draw.random() < 0.2:
                soup.maintain()
            if draw.random() < 0.3:
                continue
            looked, now = watched.look(soup.engine.snapshot().stream("ads", soup.tenant)), set(upserts.open_ids)
            named = {*looked.found.tolist(), *looked.unsure.tolist()}
            for sqc_id, predicate in predicates.items():
                if any(upserts.entries[at].satisfies(predicate) for at in seen ^ now):
                    assert sqc_id in named, predicate
                quiet += sqc_id not in named
            seen = now
        assert quiet


def test_a_watched_query_with_limit_is_computed_again() -> None:
    soup = LocalPSoup()
    soup.execute(STATEMENT)
    query = soup.register("SELECT k FROM ads WHERE price > 5 LIMIT 3")
    snapshot = soup.engine.snapshot()
    assert clause_of(snapshot, snapshot.query(query, soup.tenant), None) is None
