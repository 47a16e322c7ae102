"""Matches of new tuples, counted for a tenant that has a quota of them: as many as a loop over all pairs finds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

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
