"""The sizes of steps: the tuples that a step of a pump takes, and the rows that it may have."""

from __future__ import annotations

from typing import Any

import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.pumps import Pumps, kept_state, pump
from psoup.pumps.rows import rows_of_step
from psoup.pumps.spans import spans_of
from psoup.work.clock import VirtualClock
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown
from psoup_testing.suite.sweeps import swept


@pytest.fixture
def soup() -> LocalPSoup:
    return LocalPSoup(clock=VirtualClock(1_000 * SECOND), verify="all")


def with_large_joins(*later: tuple[int, float]) -> LocalPSoup:
    """Streams e and f, whose join has more bytes than an answer may have. `later`: further keys and times of f."""
    soup = LocalPSoup(EngineConfig(answer_bytes=200_000), VirtualClock(1_000 * SECOND))
    for name in ("e", "f"):
        soup.execute(f"CREATE STREAM {name} {TIMED}")
    soup.push("e", rows(*[(at, at / 1_000) for at in range(1, 1_001)]))
    soup.push("f", rows(*[(at, at) for at in range(2, 40)], (0, 50), *later))
    soup.heartbeat("e", 59 * SECOND)
    return soup


def test_a_step_with_too_many_bytes_is_several(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows and their order are the same as in one step."""
    monkeypatch.setattr(pump, "MOST_BYTES", 20_000)
    for name in ("e", "f"):
        soup.execute(f"CREATE STREAM {name} {TIMED}")
        soup.push(name, rows(*[(at, at) for at in range(1, 61)]))
    before = soup.engine.snapshot().sequence
    soup.execute("CREATE STREAM x AS (SELECT e.k, f.k AS other FROM e, f)")
    last = soup.engine.snapshot()
    assert len(shown(soup, "x")) == 59 * 59
    assert shown(soup, "x") == sorted(shown(soup, "x"), key=lambda row: (row[2], row[0], row[1]))
    view = last.stream("x", soup.tenant)
    pushes = last.sequence - before - 1
    assert 59 * 59 * 24 / 20_000 <= pushes < 40
    assert view.watermark == 60 * SECOND - 1


def test_a_pump_that_is_behind_takes_larger_steps(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of pushes is smaller, and the rows are the same. A table has no part in the tuples of a step."""
    monkeypatch.setattr(pump, "MOST_TUPLES", 10)
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE TABLE n (k BIGINT PRIMARY KEY, at TIMESTAMP) TIMESTAMP BY at")
    soup.push("n", rows(*[(k, 0) for k in range(1, 402)]))
    soup.heartbeat("n", 500 * SECOND)
    soup.push("e", rows(*[(at, at) for at in range(1, 402)]))
    before = soup.engine.snapshot().sequence
    soup.execute("CREATE STREAM x AS (SELECT e.k FROM e JOIN n AS OF e ON n.k = e.k)")
    assert soup.engine.snapshot().sequence == before + 1 + 8  # steps of 10, 20, 40, and 80 tuples
    assert [k for k, _ in shown(soup, "x")] == [*range(1, 401)]


def test_a_step_whose_rows_are_too_many_ends_before_it_has_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one has fewer tuples. One instant whose rows are too many stops the stream, with a reason."""
    made = list[tuple[int, int]]()

    def noted(*given: Any) -> Any:
        made.append((given[4].new, 0))
        derived = rows_of_step(*given)
        made[-1] = given[4].new, derived.batch.nbytes
        return derived

    monkeypatch.setattr(pump, "rows_of_step", noted)
    soup = with_large_joins(*[(at, 60) for at in range(100)], (0, 61))
    soup.execute("CREATE STREAM x AS (SELECT e.k, f.k AS other FROM e, f)")
    assert not soup.not_derived
    assert len(shown(soup, "x")) == 39 * 1_000
    assert made[0][0] > 1_000 and not made[0][1], "the first step has ended without rows"
    assert max(nbytes for _, nbytes in made) <= 200_000
    soup.heartbeat("e", 61 * SECOND)
    assert "from 100 new tuples up to 1970-01-01 00:01:00" in str(soup.not_derived["x"])
    assert "more than 200,000 bytes" in str(soup.not_derived["x"])
    assert len(shown(soup, "x")) == 39 * 1_000


@pytest.mark.parametrize("every", swept(["", " EVERY 1 SECOND"], fast=1))
def test_a_join_below_a_state_has_no_more_bytes_than_a_join_alone(every: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the state is made again: that is divided, and does not fail."""
    made = list[tuple[int, int]]()

    def noted(*given: Any) -> Any:
        rows = spans_of(*given)
        made.append((len(rows.spans.start), sum(column.nbytes for column in rows.spans.columns)))
        return rows

    monkeypatch.setattr(kept_state, "spans_of", noted)
    soup = with_large_joins()
    sources = "e [RANGE 1 HOUR], f [RANGE 1 HOUR]"
    soup.execute(f"CREATE STREAM x AS (SELECT f.k, count(*) AS n FROM {sources} GROUP BY f.k){every}")
    assert not soup.not_derived
    assert len(made) > 2 and max(nbytes for _, nbytes in made) <= 200_000
    assert sum(count for count, _ in made) <= 41 * 1_000, "the state is not made again for each such step"
    soup._pumps = Pumps()
    made.clear()
    soup.push("f", rows((0, 51), (0, 52)))
    assert not soup.not_derived
    assert len(made) > 2 and max(nbytes for _, nbytes in made) <= 200_000
    counts = soup.ask("SELECT k, n FROM x WHERE k = 0").to_table().to_pylist()
    assert counts == [{"k": 0, "n": 1_000}, {"k": 0, "n": 2_000}]
