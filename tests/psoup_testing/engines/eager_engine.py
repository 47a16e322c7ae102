"""An embedded engine with eager queries: its streams, its queries, and answers that are compared with PARTIAL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.plan.amounts import Amount, Keeping
from psoup.published.answer_room import AnswerRoom
from psoup.published.eager_queries import EagerFacts
from psoup.work.clock import VirtualClock
from psoup_testing.oracles.complete_answers import told

EAGER = Keeping(Amount.COMPLETE, eager=True)
CONFIG = EngineConfig(chunk_rows=64)
ROWS = "SELECT _id, v FROM s WHERE v < 50 BEGIN (NOW - 200 ROWS)"
SORTED = "SELECT DISTINCT t FROM s WHERE v < 50 ORDER BY t BEGIN (NOW - 100 ROWS)"
JOIN = "SELECT a.v, b.t FROM s [ROWS 90] AS a, r [ROWS 50] AS b WHERE a.v = b.v AND a.v < 50"


def made(tenant: str = "default") -> LocalPSoup:
    """Streams `s` and `r` without tuples."""
    soup = LocalPSoup(CONFIG, VirtualClock(SECOND))
    soup.tenant = tenant
    for name in "sr":
        soup.execute(f"CREATE STREAM {name} (v BIGINT NOT NULL, t TEXT)")
    return soup


def push(soup: LocalPSoup, count: int, first: int = 0, stream: str = "s") -> None:
    """Push tuples. Half of them match `ROWS`."""
    numbers = np.arange(first, first + count)
    soup.push(stream, pa.table({"v": numbers * 37 % 100, "t": (numbers % 7).astype(str)}))


def asked(soup: LocalPSoup, query: int) -> Answer:
    """An answer that was read to its end. It is the one under PARTIAL."""
    snapshot = soup.engine.snapshot()
    partial = told(invoke(replace(snapshot, answers=AnswerRoom(0)), query, tenant=soup.tenant, now=soup.clock.now()))
    answer = soup.invoke(query)
    assert told(answer) == partial
    return answer


def facts(soup: LocalPSoup, query: int) -> EagerFacts:
    """The facts about the updates of a query."""
    return soup.engine.snapshot().eager.facts[query]


def advance(soup: LocalPSoup, seconds: float) -> None:
    """Let the time of an engine go on."""
    assert isinstance(soup.clock, VirtualClock)
    soup.clock.advance(seconds=seconds)
