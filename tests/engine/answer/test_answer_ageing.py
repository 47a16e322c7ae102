"""Rows that are held, filtered as `ageing` says, are the answer of the same tuples at any later NOW.

Streams, windows and times are random; an invocation of the same snapshot with a later clock says what must be shown.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa

from psoup.answer.copies.expiry import Ageing, ageing
from psoup.answer.copies.range_plans import ranged
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup.model import SECOND, time_text
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import Budget

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64, shape=EAGER)
ROUNDS = Budget("rows age: streams", 26)
START = 1_700_000_000 * SECOND
Rows = list[tuple[Any, ...]]


class Case:
    """A stream with some tuples, and the clock after them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.clock = draw, VirtualClock(START)
        self.soup, self.event = LocalPSoup(CONFIG, self.clock), draw.random() < 0.4
        self.kept = draw.choice(["", "", f" RETENTION {draw.randint(5, 60)} SECONDS", " RETENTION 60 ROWS"])
        timed = ", at TIMESTAMP NOT NULL) TIMESTAMP BY at" if self.event else ")"
        self.soup.execute(f"CREATE STREAM s (a BIGINT{timed}{self.kept}")
        for _ in range(draw.randint(1, 30)):
            rows = draw.randint(1, 6)
            self.clock.advance(seconds=draw.randint(0, 3))
            columns: dict[str, Any] = {"a": [draw.randint(0, 9) for _ in range(rows)]}
            if self.event:
                columns["at"] = pa.array([self.clock.now()] * rows, pa.timestamp("us", "UTC"))
            self.soup.push("s", pa.table(columns))

    def window(self) -> str:
        """A window, of any form."""
        draw, seconds = self.draw, self.draw.randint(1, 50)
        instant = f"TIMESTAMP '{time_text(START + draw.randint(-5, 60) * SECOND)}'"
        begin = draw.choice(["(START)", f"(NOW - {seconds} SECONDS)", instant, f"(NOW - {seconds} ROWS)"])
        end = draw.choice(["", "", f" END {instant}", " END (NOW - 3 SECONDS)", " END (NOW - 2 ROWS)"])
        return f"BEGIN {begin}{end}"

    def answer(self, snapshot: Snapshot, query: int) -> Rows:
        """The answer of a snapshot by the clock of now."""
        told = again(invoke, snapshot, query, tenant=self.soup.tenant, now=self.clock.now(), accept_truncation=True)
        ids, times, values = told.to_table().columns
        return list(zip(*(column.to_pylist() for column in (ids, times.cast(pa.int64()), values)), strict=True))


def shown(rows: Rows, how: Ageing, now: int) -> Rows:
    """The rows that a client shows at `now`."""
    return [row for row in rows if how.width is None or row[1] >= now - how.width]


def ages(snapshot: Snapshot, record: QueryRecord) -> Ageing | None:
    """How the rows of a query age."""
    how = ranged(record.query.plan)
    assert how is not None
    return ageing(snapshot.by_id[record.stream_id].spec, record.query.window, how)


def test_rows_that_age_are_the_answer_of_later() -> None:
    met = Counter[str]()
    for seed in ROUNDS.rounds():
        case = Case(random.Random(seed))
        for _ in range(12):
            compare(case, case.window(), met)
        ROUNDS.count()
    wanted = [
        "rows leave",
        "none leaves",
        "retention",
        "by the clock",
        "by the watermark",
        "not told, and others enter",
    ]
    assert not [case for case in [*wanted, "not told, and rows differ"] if not met[case]], met


def compare(case: Case, window: str, met: Counter[str]) -> None:
    """Compare what is shown at later times with the answers of then."""
    try:
        last = case.draw.choice(["", "", "", " LIMIT 5"])
        query = case.soup.register(f"SELECT _id, _time AS t, a FROM s WHERE a <> 4{last} {window}")
    except PSoupError:  # bounds that do not go together
        return
    snapshot, before = case.soup.engine.snapshot(), case.clock.now()
    record = snapshot.query(query, case.soup.tenant)
    held, how = case.answer(snapshot, query), ages(snapshot, record)
    for _ in range(4):
        case.clock.advance(seconds=case.draw.choice([0, 1, 5, 20, 100]))
        if case.event:
            case.soup.heartbeat("s", case.clock.now())
            snapshot = case.soup.engine.snapshot()
        now, later = snapshot.by_id[record.stream_id].now(case.clock.now()), case.answer(snapshot, query)
        assert now is not None
        if how is None:
            met["not told, and others enter"] += bool({*later} - {*held})
            met["not told, and rows differ"] += later != held
            continue
        assert how.by_clock != case.event
        assert shown(held, how, now) == later, (window, case.kept, last)
        met["rows leave"] += len(later) < len(held)
        met["none leaves"] += how.width is None and len(later) > 0
        met["retention"] += "SECONDS" in case.kept and "START" in window
        met["by the watermark" if case.event else "by the clock"] += 1
    if not case.event:
        case.clock.set(before)
