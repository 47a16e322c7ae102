"""Changes with the values of the rows that left: a receiver that keeps nothing else has the answer after each change.

Histories are random. A receiver adds the rows that came, and takes away the rows that
left. Each row that left must be one that the receiver has.
"""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from psoup.answer.copies.changed_rows import Holding, Rows, changed_rows
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT, SECOND
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.histories.upserts import PREDICATES, STATEMENT, Upserts
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SEED, replayable, scaled

STATEMENTS = [
    "SELECT b, a FROM s WHERE b < 70 {w}",
    "SELECT a, x, b + 1 FROM s WHERE a > 2 ORDER BY b DESC {w}",
    "SELECT a FROM s WHERE b >= 10 LIMIT 9 {w}",
    "SELECT b, a FROM s WHERE b < 90 ORDER BY b DESC, a LIMIT 7 {w}",
    "SELECT a, count(*), sum(b) FROM s GROUP BY a {w}",
    "SELECT r.a, t.b FROM s AS r, s AS t WHERE r.a = t.a AND r.b + 60 < t.b {w}",
    "SELECT a, b, now() AS n FROM s WHERE b < 20 {w}",
]
WINDOWS = [
    "BEGIN (NOW - 20 SECONDS)",
    "BEGIN (NOW - 30 SECONDS) END (NOW - 10 SECONDS)",
    "BEGIN (START)",
    "BEGIN (NOW - 50 ROWS)",
]


class Receiver:
    """A receiver of the changes of one query: its rows, and the description of them."""

    def __init__(self, soup: LocalPSoup, query_id: int) -> None:
        self.soup, self.query_id = soup, query_id
        self.held: Holding | None = None
        self.rows = Counter[str]()
        self.seen = Counter[str]()

    def take(self) -> None:
        """Take the change since the last one, and compare."""
        snapshot = self.soup.engine.snapshot()
        record = snapshot.query(self.query_id, DEFAULT_TENANT)
        question = Question(self.soup.clock.now(), accept_truncation=True, budget=ReadBudget())
        change = changed_rows(snapshot, record, self.held, question)
        came, left = told(change.came), told(change.left)
        if change.whole:
            self.rows = came
            assert not left
        else:
            assert left <= self.rows
            self.rows = self.rows - left + came
        self.seen["whole" if change.whole else "left" if left else "came"] += 1
        self.held = change.holding
        answer = again(self.soup.invoke, self.query_id, accept_truncation=True)
        assert self.rows == Counter(map(repr, rows_in(answer.batches()))), record.query.text


def rows_in(batches: object) -> list[tuple[object, ...]]:
    """The values of some batches, row by row."""
    tables = [batch.to_pydict().values() for batch in batches]  # type: ignore[attr-defined]
    return [row for columns in tables for row in zip(*columns, strict=True)]


def told(rows: Rows) -> Counter[str]:
    listed = rows_in(rows.read)
    assert rows.count in (None, len(listed))
    return Counter(map(repr, listed))


def random_rows(draw: random.Random) -> pa.Table:
    count = draw.randint(1, 20)
    return pa.table(
        {
            "a": [draw.choice([None, *range(8)]) for _ in range(count)],
            "b": [draw.randint(0, 99) for _ in range(count)],
            "x": [draw.choice([None, 0.0, float("nan"), 1.5]) for _ in range(count)],
        }
    )


@pytest.mark.parametrize("number", range(scaled(4)))
def test_receivers_of_streams_have_the_answers(number: int) -> None:
    with replayable(SEED + number):
        draw = random.Random(SEED + number)
        clock = VirtualClock(1_700_000_000 * SECOND)
        soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=64), clock)
        soup.execute(f"CREATE STREAM s (a BIGINT, b BIGINT, x DOUBLE){draw.choice(['', ' RETENTION 60 SECONDS'])}")
        texts = [statement.format(w=draw.choice(WINDOWS)) for statement in STATEMENTS]
        receivers = [Receiver(soup, soup.register(text)) for text in texts]
        for _ in range(40):
            kind = draw.random()
            if kind < 0.5:
                soup.push("s", random_rows(draw))
            elif kind < 0.6:
                soup.maintain()
                soup.engine.expire(soup.clock.now())
            else:
                draw.choice(receivers).take()
            clock.advance(seconds=draw.choice([0, 1, 9]))
        for receiver in receivers:
            receiver.take()
        assert receivers[0].seen["left"] + receivers[0].seen["came"]


@pytest.mark.parametrize("number", range(scaled(4)))
def test_receivers_of_tables_have_the_answers(number: int) -> None:
    with replayable(SEED + number):
        draw = random.Random(SEED + number)
        clock, upserts = VirtualClock(10**15), Upserts(draw)
        soup = LocalPSoup(EngineConfig(chunk_rows=64), clock)
        soup.execute(STATEMENT)
        texts = [f"SELECT k, price FROM ads WHERE {each}" for each in PREDICATES]
        texts.append("SELECT place, count(*) FROM ads GROUP BY place")
        receivers = [Receiver(soup, soup.register(text)) for text in texts]
        for _ in range(30):
            if draw.random() < 0.5:
                upserts.push(soup)
            elif draw.random() < 0.2:
                soup.maintain()
            else:
                draw.choice(receivers).take()
            clock.advance(seconds=draw.choice([0, 1, 3]))
        for receiver in receivers:
            receiver.take()
