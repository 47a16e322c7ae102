"""An engine with queries of each kind, for tests of how queries are kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from psoup.config import EngineConfig
from psoup.invariants import Verify
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Amount, Keeping
from psoup_testing.histories.histories import TINY
from psoup_testing.oracles.questions import again

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64, columnar_queries=8, delta_queries=16, shape=TINY)
NONE, INACTIVE, COMPLETE = Keeping(Amount.NONE), Keeping(active=False), Keeping(Amount.COMPLETE)
ONE = "SELECT x FROM s WHERE x > 3"
ALIKE = "SELECT x FROM s WHERE x > 3 AND x < 100"
"""The same answer, by another clause."""
MANY = "SELECT x FROM s WHERE x > ? AND n < ?"
JOIN = "SELECT s.x FROM s, t WHERE s.x = t.x AND s.x > ?"


def make(verify: Verify = "all", config: EngineConfig = CONFIG) -> LocalPSoup:
    """A stream and a second one, with a tuple each."""
    soup = LocalPSoup(config, verify=verify)
    soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    soup.execute("CREATE STREAM t (x BIGINT)")
    push(soup, 1)
    return soup


def push(soup: LocalPSoup, count: int, first: int = 0) -> None:
    """The numbers from `first` on, for both streams."""
    numbers = [(first + n) % 10 for n in range(count)]
    soup.push("s", pa.table({"x": numbers, "n": [f"w{n % 3}" for n in numbers]}))
    soup.push("t", pa.table({"x": numbers[:3]}))


def clause(soup: LocalPSoup, query_id: int) -> Any:
    """The clause of a query over one stream."""
    snapshot = soup.engine.snapshot()
    return snapshot.clause(snapshot.query(query_id, "default").sqc_id)


def answers(soup: LocalPSoup, query_ids: Any) -> list[Any]:
    return [sorted(again(soup.invoke, i).to_table().column("x").to_pylist()) for i in query_ids]


def results(soup: LocalPSoup, stream: str = "s") -> list[Any]:
    """The results of all chunks."""
    return [entry.results for entry in soup.engine.snapshot().stream(stream, "default").chunks]


def block(soup: LocalPSoup, count: int, keeping: Keeping = AS_USUAL, text: str = MANY) -> list[int]:
    return [*soup.register_many(text, [[n % 7, f"x{n}"] for n in range(count)], keeping=keeping)]


def register(soup: LocalPSoup, keeping: Keeping) -> list[int]:
    """A query by text, a block, a join, and a block of joins."""
    ids = [soup.register(ONE, keeping=keeping), *block(soup, 12, keeping)]
    ids += [soup.register(JOIN.replace("?", "1"), keeping=keeping)]
    return [*ids, *soup.register_many(JOIN, [[n % 3] for n in range(12)], keeping=keeping)]
