"""The state of a pump never exceeds the bound that the plan has for it: answers with EVERY, and pairs that stay.

`test_pumps_oracle.py` compares the states of random plans with their bounds.
"""

from __future__ import annotations

import pytest

from psoup.config import EngineConfig
from psoup.errors import SqlError
from psoup.local import LocalPSoup
from psoup.pumps.form import form_of
from psoup.work.clock import VirtualClock
from psoup_testing.engines.derived_bounds import rows_allowed
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows
from psoup_testing.suite.sweeps import swept


@pytest.fixture
def soup() -> LocalPSoup:
    made = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=16), VirtualClock(1_000 * SECOND), verify="all")
    for name in ("e", "f"):
        made.execute(f"CREATE STREAM {name} {TIMED}")
    return made


@pytest.mark.parametrize(
    ("select", "limits", "reached"),
    swept(
        [
            ("SELECT k FROM e ORDER BY k LIMIT 3", (3, 27), 3),
            ("SELECT k, at FROM e [ROWS 5]", (5, 90), 5),
            ("SELECT count(*) AS n FROM e [ROWS 5]", (1, 9), 1),
            ("SELECT a.k FROM e [ROWS 2] a, e [ROWS 3] b", (6, 54), 6),
        ],
        fast=(1, 3),
    ),
)
def test_an_answer_at_a_tick_has_at_most_the_rows_and_bytes_of_its_bound(
    soup: LocalPSoup, select: str, limits: tuple[int, int], reached: int
) -> None:
    soup.execute(f"CREATE STREAM x AS RSTREAM ({select}) EVERY 1 SECOND STATE AT MOST 1 MB")
    snapshot = soup.engine.snapshot()
    view = snapshot.stream("x", soup.tenant)
    assert view.spec.derived is not None
    bound = form_of(view.spec.derived, snapshot.by_id).state.bound
    assert (bound.rows, bound.nbytes) == limits
    seen = []
    for at in range(10):
        soup.push("e", rows((at, at), (-at, at)))
        pump = soup._pumps.by_id[view.stream_id]
        assert pump.state_rows <= limits[0] and pump.state_bytes <= limits[1]
        seen.append(pump.state_rows)
    assert max(seen) == reached
    assert pump.progress.state_bound == bound.text


@pytest.mark.parametrize(
    ("statement", "rows_of_state"),
    swept(
        [
            ("DSTREAM (SELECT a.k FROM e [RANGE 5 SECONDS] a, f [RANGE 5 SECONDS] b)", 36),
            ("(SELECT a.k, b.k AS l FROM e [RANGE 5 SECONDS] a LEFT JOIN f [RANGE 5 SECONDS] b ON a.k < b.k + 9)", 48),
            ("(SELECT a.k FROM e [RANGE 5 SECONDS] a WHERE a.k NOT IN (SELECT k FROM f [RANGE 5 SECONDS]))", 13),
        ],
        fast=(2,),
    ),
)
def test_pairs_and_keys_count_in_the_bound(soup: LocalPSoup, statement: str, rows_of_state: int) -> None:
    """Six tuples of each source are in their windows at once."""
    soup.execute(f"CREATE STREAM x AS {statement}")
    for at in range(12):
        for name in ("e", "f"):
            soup.push(name, rows((at, at)))
        for name in ("e", "f"):
            soup.heartbeat(name, at * SECOND + 1)
        snapshot = soup.engine.snapshot()
        pump = soup._pumps.by_id[snapshot.stream("x", soup.tenant).stream_id]
        state = pump._kept._state
        if state is not None and state.at is not None:
            assert state.operator.rows <= rows_allowed(state.form, state.form.views(snapshot), state.at)
    assert pump.state_rows == rows_of_state


@pytest.mark.parametrize("select", ["{0}", "{0} UNION ALL SELECT k FROM e"])
def test_pairs_with_a_source_that_keeps_all_tuples_have_no_bound(soup: LocalPSoup, select: str) -> None:
    """Each of its tuples makes more pairs that will leave."""
    pairs = "SELECT a.k FROM e [RANGE 5 SECONDS] a, f b WHERE a.k = b.k"
    statement = f"CREATE STREAM x AS DSTREAM ({select.format(pairs)})"
    with pytest.raises(SqlError, match="has no bound: tuples of 'f' never leave it") as refused:
        soup.execute(statement)
    assert refused.value.reason == "UNBOUNDED_STATE"
    soup.execute(f"{statement} STATE AT MOST 1 MB")
