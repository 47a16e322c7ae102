"""Matches of new tuples, counted for a tenant that has a quota of them: as many as a loop over all pairs finds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.figures.bill import memory_bill
from psoup.config import EngineConfig
from psoup.events.acknowledgements import Effects
from psoup.events.events import Event
from psoup.events.tenants import AlterTenant
from psoup.local import LocalPSoup

QUOTA = "matches_per_second"


class Counted(LocalPSoup):
    """An engine that notes the matches it tells."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.matches = 0
        apply = self.engine.apply

        def noting(events: Sequence[Event]) -> Effects:
            effects = apply(events)
            self.matches += effects.matches.get(self.tenant, 0)
            assert effects.matches.keys() <= {self.tenant}
            return effects

        self.engine.apply = noting  # type: ignore[method-assign]


@pytest.mark.parametrize("seed", range(4))
def test_matches_are_as_many_as_pairs_of_a_tuple_and_a_clause_that_it_satisfies(seed: int) -> None:
    chance = random.Random(seed)
    soup = Counted(EngineConfig(chunk_rows=1_024, piece_rows=256, block_rows=512, dense_share=16))
    soup.execute("CREATE STREAM s (x BIGINT, t TEXT)")
    widths = [1, 3, 40, 600] * 12
    ranges = sorted({(low, low + width) for width in widths for low in [chance.randrange(1_000)]})
    soup.register_many("SELECT x FROM s WHERE x >= ? AND x < ?", ranges)
    soup.register_many([f"SELECT x FROM s WHERE t LIKE '%{end}'" for end in ("1", "77")])
    soup.submit(AlterTenant(soup.tenant, {QUOTA: 1e9}))
    expected = 0
    for size in (1, 700, 63, 900, 64, 1, 2_000, 5):
        x = np.array([chance.randrange(1_000) for _ in range(size)])
        soup.push("s", pa.table({"x": x, "t": [str(value) for value in x]}))
        expected += sum(int(np.count_nonzero((x >= low) & (x < high))) for low, high in ranges)
        expected += sum(str(value).endswith(end) for value in x.tolist() for end in ("1", "77"))
        assert soup.matches == expected, size
        if size == 900:
            soup.maintain()
    assert expected > 10_000


@pytest.mark.parametrize("seed", range(2))
def test_deletions_of_a_table_are_not_counted(seed: int) -> None:
    """A deletion has no columns, so it satisfies IS NULL. The tenant does not pay for it."""
    chance = random.Random(seed)
    soup = Counted(EngineConfig(chunk_rows=1_024, piece_rows=256, block_rows=512, dense_share=16))
    soup.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, x BIGINT)")
    soup.register("SELECT k FROM t WHERE x IS NULL")
    limits = chance.sample(range(1_000), 40)
    soup.register_many("SELECT k FROM t WHERE k < ?", [(limit,) for limit in limits])
    soup.submit(AlterTenant(soup.tenant, {QUOTA: 1e9}))
    expected = matched = 0
    for size in (1, 63, 700, 64, 1_500, 5):
        k = np.array([chance.randrange(1_000) for _ in range(size)])
        deleted = np.array([chance.random() < 0.3 for _ in range(size)])
        absent = np.array([chance.random() < 0.1 for _ in range(size)])
        soup.push("t", pa.table({"k": k, "x": pa.array(k, mask=absent), "_deleted": deleted}))
        expected += int(np.count_nonzero(absent & ~deleted))
        expected += sum(int(np.count_nonzero((k < limit) & ~deleted)) for limit in limits)
        matched += sum(int(np.count_nonzero(k < limit)) for limit in limits)
        assert soup.matches == expected, size
    assert 10_000 < expected < matched
    assert _pairs(soup) == expected
    soup.maintain()
    assert _pairs(soup) == expected, "also in sealed results"


def _pairs(soup: LocalPSoup) -> int:
    """The matches in the memory bill."""
    return sum(item.count for item in memory_bill(soup.engine.snapshot()).items if item.per == "match")


def test_nothing_is_counted_for_a_tenant_without_the_quota() -> None:
    soup = Counted(EngineConfig())
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.register("SELECT x FROM s WHERE x > 0")
    table = pa.table({"x": [1, 2, 3]})
    soup.push("s", table)
    assert soup.matches == 0
    soup.submit(AlterTenant(soup.tenant, {QUOTA: 5}))
    soup.push("s", table)
    assert soup.matches == 3
    soup.submit(AlterTenant(soup.tenant, {QUOTA: 0}))
    soup.push("s", table)
    assert soup.matches == 3
