"""Turns of tenants in folding ahead: slow folds of one tenant delay the folds of another one by a turn at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from psoup.config import EngineConfig, Shape
from psoup.execution.ahead import attempts
from psoup.execution.ahead.attempts import Lent, Work
from psoup.execution.ahead.folds_ahead import FoldingAhead
from psoup.model import DEFAULT_TENANT
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup

CREATE = "CREATE STREAM s (x BIGINT) RETENTION 1 HOUR ARCHIVE 9 DAYS"
CHUNKS = 3


class Slow(Lent):
    """Means of a test: each fold of a tenant takes so many seconds of the processor, by `takes`."""

    def __init__(self, **takes: float) -> None:
        super().__init__(1 << 30)
        self.takes, self.begun, self.used = takes, list[tuple[str, int, int]](), 0.0

    def begin(self, work: Work) -> bool:
        self.begun.append((work.view.tenant, work.query_id, work.number))
        self.used += self.takes.get(work.view.tenant, 0.0)
        return True

    def spent(self) -> float:
        return self.used

    def tenants(self) -> list[str]:
        return [tenant for tenant, *_ in self.begun]


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(EngineConfig(chunk_rows=64, shape=Shape(fold_fan=2)), VirtualClock(0), tmp_path / "data")
    made.ahead = SimpleNamespace(step=lambda snapshot: 0)  # type: ignore[assignment]
    yield made
    made.store.close()


def fill(soup: RestartingPSoup, tenant: str, queries: int) -> None:
    """Make a stream of a tenant with three closed chunks, and some aggregates that stand; every other one has a fold
    that does not pay."""
    soup.tenant = tenant
    soup.execute(CREATE)
    for k in range(queries):
        keys = "" if k % 2 == 0 else " GROUP BY x"
        soup.register(f"SELECT count(*) AS n FROM s WHERE x >= {k}{keys} BEGIN (START)")
    for start in range(0, 64 * CHUNKS, 64):
        soup.push("s", pa.table({"x": pa.array(range(start, start + 64), pa.int64())}))
        soup.maintain()


def test_slow_folds_of_a_tenant_delay_another_one_by_one_turn(soup: RestartingPSoup) -> None:
    fill(soup, "acme", 8)
    fill(soup, "birch", 1)
    fill(soup, "cedar", 1)
    means = Slow(acme=2.0)
    folding, snapshot = FoldingAhead(means), soup.engine.snapshot()
    assert folding.step(snapshot) == 1
    assert means.tenants() == ["acme"], "a turn ends with the fold that takes too long"
    assert folding.step(snapshot) and folding.step(snapshot)
    assert means.tenants() == ["acme", *["birch"] * CHUNKS, *["cedar"] * CHUNKS]
    while folding.step(snapshot):
        pass
    assert Counter(means.tenants()) == {"acme": 8 * CHUNKS, "birch": CHUNKS, "cedar": CHUNKS}
    assert set(Counter(means.begun).values()) == {1}, "a turn goes on where the last one ended"


@pytest.mark.parametrize("turn", [3, 8])
def test_a_turn_has_a_number_of_folds_and_goes_on_within_a_chunk(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    monkeypatch.setattr(attempts, "_TURN", turn)
    fill(soup, "acme", 8)
    fill(soup, "birch", 8)
    means = Slow()
    folding, snapshot = FoldingAhead(means), soup.engine.snapshot()
    assert folding.step(snapshot)
    assert means.tenants() == ["acme"] * turn
    assert folding.step(snapshot)
    assert means.tenants() == ["acme"] * turn + ["birch"] * turn
    while folding.step(snapshot):
        pass
    assert Counter(means.tenants()) == {"acme": 8 * CHUNKS, "birch": 8 * CHUNKS}
    assert set(Counter(means.begun).values()) == {1}


def test_a_refusal_that_takes_long_ends_a_turn_too(soup: RestartingPSoup) -> None:
    fill(soup, DEFAULT_TENANT, 2)
    means = Slow(**{DEFAULT_TENANT: 2.0})
    means.limit = 0
    folding, snapshot = FoldingAhead(means), soup.engine.snapshot()
    steps = 0
    while folding.step(snapshot):
        steps += 1
    assert steps >= 2 and len(means.begun) == len(set(means.begun)), "the next aggregate is tried, none twice"
