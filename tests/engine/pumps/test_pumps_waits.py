"""Streams that hold a join back: their position is not logged, although they have read their sources."""

from __future__ import annotations

from psoup.local import LocalPSoup
from psoup.pumps import Due, Pumps, advance
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows


def test_a_stream_holds_a_join_back_until_its_position_is_logged() -> None:
    """z has read its source and found no rows. The join cannot know that, so its readers wait for z."""
    soup = LocalPSoup(clock=VirtualClock(1_000 * SECOND))
    for name in ("a", "b"):
        soup.execute(f"CREATE STREAM {name} {TIMED}")
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    soup.execute("CREATE STREAM x AS (SELECT k FROM a)")
    soup.execute("CREATE STREAM z AS (SELECT k FROM b WHERE k > 0)")
    soup.execute("CREATE STREAM y AS (SELECT x.k FROM x [RANGE 1 DAY], z [RANGE 1 DAY] WHERE x.k = z.k)")
    pumps, now = Pumps(), soup.clock.now

    def step(name: str) -> None:
        stream_id = soup.engine.snapshot().stream(name, soup.tenant).stream_id
        advance(pumps.by_id[stream_id], Due(()), soup.engine.snapshot, soup._submit, ReadBudget())

    soup.push("b", rows((0, 11)))
    soup.push("a", rows((1, 5), (2, 9)))
    pumps.follow(soup.engine.snapshot())
    step("x")
    assert pumps.holding_back(soup.engine.snapshot(), now()) == set(), "z has not read its source"
    step("z")
    (waited,) = pumps.holding_back(soup.engine.snapshot(), now())
    assert soup.engine.snapshot().by_id[waited].spec.name == "z"
    first, due = pumps.due(soup.engine.snapshot(), now())[0]
    assert (first.stream_id, due.instant) == (waited, True)
