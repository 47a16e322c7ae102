"""Streams derived with EVERY: which ticks are closed, which are skipped, and where a stream begins."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.local import LocalPSoup
from psoup.pumps import Pumps, pump, ticks
from psoup.pumps.instants import Promise
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget

SECOND = 1_000_000
TIMED = "(k BIGINT, at TIMESTAMP) TIMESTAMP BY at"
COUNTS = "SELECT k, count(*) AS n FROM e [RANGE 10 SECONDS] GROUP BY k"
NOW = 10**14


def rows(*values: tuple[int, float]) -> pa.Table:
    """Rows of k and at, in seconds."""
    times = pa.array([int(at * SECOND) for _, at in values], pa.timestamp("us"))
    return pa.table({"k": [k for k, _ in values], "at": times})


def shown(soup: LocalPSoup, name: str) -> list[tuple[object, ...]]:
    """The rows of a stream, each with its time in seconds."""
    answer = soup.ask(f"SELECT *, epoch_us(_time) AS tick FROM {name}").to_table().to_pylist()
    return [(*list(row.values())[:-1], row["tick"] / SECOND) for row in answer]


def watermark(soup: LocalPSoup, name: str) -> int | None:
    return soup.engine.snapshot().stream(name, soup.tenant).watermark


class Counted:
    """Counts the answers that pumps evaluate."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, evaluate = 0, ticks.answer_at

        def counted(*facts: object) -> object:
            self.count += 1
            return evaluate(*facts)  # type: ignore[arg-type]

        monkeypatch.setattr(ticks, "answer_at", counted)


@pytest.fixture
def soup() -> LocalPSoup:
    return LocalPSoup(clock=VirtualClock(NOW), verify="all")


def test_each_operator_pushes_its_part_of_the_answers_at_the_multiples(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    for operator in ("ISTREAM", "DSTREAM", "RSTREAM"):
        soup.execute(f"CREATE STREAM {operator[0]} AS {operator} ({COUNTS}) EVERY 5 SECONDS")
    soup.push("e", rows((1, 1), (1, 2), (2, 3), (1, 7), (2, 12)))
    assert shown(soup, "i") == [(1, 2, 5), (2, 1, 5), (1, 3, 10)]
    soup.push("e", rows((3, 100)))
    assert shown(soup, "i") == [(1, 2, 5), (2, 1, 5), (1, 3, 10), (1, 1, 15)]
    assert shown(soup, "d") == [(1, 2, 10), (1, 3, 15), (1, 1, 20), (2, 1, 25)]
    assert shown(soup, "r") == [(1, 2, 5), (2, 1, 5), (1, 3, 10), (2, 1, 10), (1, 1, 15), (2, 1, 15), (2, 1, 20)]


def test_a_tick_at_the_watermark_is_open(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute(f"CREATE STREAM x AS ({COUNTS}) EVERY 5 SECONDS")
    soup.push("e", rows((1, 3), (1, 5)))
    assert shown(soup, "x") == []
    soup.push("e", rows((1, 5)))
    soup.heartbeat("e", 5 * SECOND + 1)
    assert shown(soup, "x") == [(1, 3, 5)]


def test_ticks_without_a_change_are_not_evaluated(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap of ten million seconds takes as many evaluations as a gap of an hour."""
    counted = Counted(monkeypatch)
    soup.execute(f"CREATE STREAM e {TIMED}")
    for operator in ("ISTREAM", "DSTREAM", "RSTREAM"):
        soup.execute(f"CREATE STREAM {operator[0]} AS {operator} ({COUNTS}) EVERY 1 SECOND")
    for at in (3_600, 10_003_600, 10_007_200):
        before = counted.count
        soup.push("e", rows((1, at - 0.5)))
        soup.heartbeat("e", at * SECOND)
        assert counted.count - before <= 12
    assert [len(shown(soup, name)) for name in "idr"] == [2, 2, 20]
    assert shown(soup, "i") == [(1, 1, 3_600), (1, 1, 10_003_600)]
    assert shown(soup, "d") == [(1, 1, 3_610), (1, 1, 10_003_610)]


def test_the_clock_alone_closes_ticks_in_system_time(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS RSTREAM (SELECT k FROM t [RANGE 2 SECONDS]) EVERY 1 SECOND")
    soup.push("t", pa.table({"k": [1]}))
    soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
    soup.push("t", pa.table({"k": [2]}))
    soup.push("t", pa.table({"k": [3]}))
    first = NOW / SECOND
    for seconds in (1, 1, 7):
        soup.clock.advance(seconds=seconds)  # type: ignore[attr-defined]
        soup.maintain()
    ticks_of = {k: [at - first for n, at in shown(soup, "x") if n == k] for k in (1, 2, 3)}
    assert ticks_of == {1: [0, 1, 2], 2: [1, 2, 3], 3: [2, 3]}, "the third tuple came after the second tick was closed"


def test_a_stream_from_start_begins_with_its_first_tuple_and_from_now_with_the_create(soup: LocalPSoup) -> None:
    """The first tick is compared with the answer over no tuples, or at the last multiple before the CREATE."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.push("e", rows((1, 12), (2, 17), (3, 23)))
    select = "(SELECT count(*) AS n FROM e [RANGE 1 HOUR])"
    for operator in ("ISTREAM", "RSTREAM", "DSTREAM"):
        soup.execute(f"CREATE STREAM s{operator[0]} AS {operator} {select} EVERY 5 SECONDS")
        soup.execute(f"CREATE STREAM n{operator[0]} AS {operator} {select} EVERY 5 SECONDS FROM NOW")
    assert watermark(soup, "ni") == 23 * SECOND - 1
    soup.push("e", rows((4, 31)))
    assert shown(soup, "sr") == [(1, 15), (2, 20), (3, 25), (3, 30)]
    assert shown(soup, "si") == [(1, 15), (2, 20), (3, 25)]
    assert shown(soup, "sd") == [(0, 15), (1, 20), (2, 25)]
    assert shown(soup, "nr") == [(3, 25), (3, 30)]
    assert shown(soup, "ni") == [(3, 25)]
    assert shown(soup, "nd") == [(2, 25)]


def test_before_the_first_tick_no_position_is_logged(soup: LocalPSoup) -> None:
    """RSTREAM would push the count of an empty window at each tick from there."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT count(*) AS n FROM e [RANGE 1 HOUR]) EVERY 1 MINUTE")
    soup.push("e", rows((1, 61), (2, 70)))
    made = soup._pumps.by_id[2]
    due = made.due(soup.engine.snapshot(), NOW, instant=True)
    assert due is not None
    assert made.step(soup.engine.snapshot(), Promise(NOW, 0), ReadBudget(), instant=True) is None
    assert watermark(soup, "x") is None
    soup._pumps = Pumps()
    soup.heartbeat("e", 200 * SECOND)
    assert shown(soup, "x") == [(2, 120)]


def test_rows_of_a_tick_are_in_the_order_of_the_select_or_else_of_their_values(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM plain AS (SELECT k, k % 2 AS odd FROM e [RANGE 1 HOUR]) EVERY 10 SECONDS")
    ordered = "SELECT k % 2 AS odd, k FROM e [RANGE 1 HOUR] ORDER BY k % 2 DESC, k LIMIT 4"
    soup.execute(f"CREATE STREAM ordered AS ({ordered}) EVERY 10 SECONDS")
    soup.push("e", rows((5, 1), (2, 2), (5, 3), (1, 4), (4, 5), (3, 30)))
    assert shown(soup, "plain") == [(1, 1, 10), (2, 0, 10), (4, 0, 10), (5, 1, 10), (5, 1, 10)]
    assert shown(soup, "ordered") == [(1, 1, 10), (1, 5, 10), (1, 5, 10), (0, 2, 10)]


def test_a_table_alone_is_followed_by_the_times_of_its_versions(soup: LocalPSoup) -> None:
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n TEXT)")
    soup.execute("CREATE STREAM came AS (SELECT k, n FROM c) EVERY 10 SECONDS")
    soup.execute("CREATE STREAM gone AS DSTREAM (SELECT k, n FROM c) EVERY 10 SECONDS")
    changes: list[dict[str, list[object]]] = [
        {"k": [1, 2], "n": ["a", "b"]},
        {"k": [1], "n": ["z"]},
        {"k": [2], "n": [None], "_deleted": [True]},
        {"k": [3], "n": ["c"]},
    ]
    for change in changes:
        soup.clock.advance(seconds=6)  # type: ignore[attr-defined]
        soup.push("c", pa.table(change))
    soup.clock.advance(seconds=6)  # type: ignore[attr-defined]
    soup.maintain()
    first = NOW / SECOND
    assert [(k, n, at - first) for k, n, at in shown(soup, "came")] == [  # type: ignore[operator]
        (1, "a", 10),
        (2, "b", 10),
        (1, "z", 20),
        (3, "c", 30),
    ]
    assert [(k, n, at - first) for k, n, at in shown(soup, "gone")] == [(1, "a", 20), (2, "b", 20)]  # type: ignore[operator]


def test_a_table_of_the_clock_beside_event_time_has_the_versions_that_are_known(soup: LocalPSoup) -> None:
    """A first version that comes between two ticks changes both answers, so they do not differ by it."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n TEXT)")
    select = "SELECT e.k, c.n FROM e [RANGE 1 HOUR] JOIN c ON e.k = c.k"
    soup.execute(f"CREATE STREAM x AS ({select}) EVERY 10 SECONDS")
    soup.push("c", pa.table({"k": [1], "n": ["A"]}))
    soup.push("e", rows((1, 5), (2, 6), (1, 12)))
    assert shown(soup, "x") == [(1, "A", 10)]
    soup.push("c", pa.table({"k": [2], "n": ["B"]}))
    soup.push("e", rows((2, 13), (1, 21)))
    assert shown(soup, "x") == [(1, "A", 10), (1, "A", 20), (2, "B", 20)]


@pytest.mark.parametrize("timed", [True, False])
def test_streams_with_every_derive_from_one_another(soup: LocalPSoup, timed: bool) -> None:
    """A quiet source logs its instant where the tick of another stream waits for it, and only then."""
    soup.execute(f"CREATE STREAM e {TIMED if timed else '(k BIGINT)'}")
    soup.execute("CREATE STREAM odd AS (SELECT k FROM e WHERE k % 2 = 1)")
    counts = "SELECT k, count(*) AS n FROM odd [RANGE 20 SECONDS] GROUP BY k"
    soup.execute(f"CREATE STREAM counts AS RSTREAM ({counts}) EVERY 10 SECONDS")
    soup.execute("CREATE STREAM most AS (SELECT max(n) AS n FROM counts [RANGE 1 MINUTE]) EVERY 20 SECONDS")
    for k, at in ((1, 2), (1, 4), (2, 11), (3, 13), (2, 21), (2, 33), (2, 35), (2, 61), (2, 200)):
        soup.clock = VirtualClock(NOW + at * SECOND)
        soup.push("e", rows((k, at)) if timed else pa.table({"k": [k]}))
    first = 0 if timed else NOW / SECOND
    derived = [(k, n, at - first) for k, n, at in shown(soup, "counts")]  # type: ignore[operator]
    assert derived == [(1, 2, 10), (1, 2, 20), (3, 1, 20), (3, 1, 30)]
    assert [(n, at - first) for n, at in shown(soup, "most")] == [(2, 20), (None, 100)]  # type: ignore[operator]
    last = soup.engine.snapshot().sequence
    soup.clock = VirtualClock(NOW + 401 * SECOND)
    soup.push("e", rows((2, 401)) if timed else pa.table({"k": [2]}))
    assert soup.engine.snapshot().sequence == last + 1, "no tick waits"


def test_the_window_at_the_last_tick_stays_however_late_the_pump_is(soup: LocalPSoup) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=16), VirtualClock(NOW), verify="all")
    soup.execute(f"CREATE STREAM e {TIMED} RETENTION 20 SECONDS")
    soup.execute("CREATE STREAM x AS DSTREAM (SELECT k FROM e [RANGE 5 SECONDS]) EVERY 10 SECONDS")
    for step in range(12):
        if step == 4:
            soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
        soup.push("e", rows(*[(100 * step + at, 10 * step + at / 10) for at in range(64)]))
        soup.maintain()
    assert len(soup.engine.snapshot().stream("e", soup.tenant).chunks) > 8
    soup._pumps = Pumps()
    soup.heartbeat("e", 200 * SECOND)
    inside = [(100 * step + at, 10 * step + (20 if at else 10)) for step in range(12) for at in (0, *range(50, 64))]
    assert shown(soup, "x") == inside
    soup.push("e", rows((1, 201)))
    assert len(soup.engine.snapshot().stream("e", soup.tenant).chunks) <= 2


def test_an_absence_with_a_band_waits_for_the_end_of_the_band(soup: LocalPSoup) -> None:
    """With brackets it counts at each tick, and a later partner takes it back."""
    for name in ("calls", "replies"):
        soup.execute(f"CREATE STREAM {name} {TIMED} RETENTION 1 HOUR")
    band = "r._time BETWEEN c._time AND c._time + INTERVAL 20 SECONDS"
    absence = f"NOT EXISTS (SELECT 1 FROM replies r WHERE r.k = c.k AND {band})"
    soup.execute(f"CREATE STREAM sure AS (SELECT c.k FROM calls c WHERE {absence}) EVERY 10 SECONDS")
    soup.execute(f"CREATE STREAM open AS (SELECT k FROM calls [RANGE 1 HOUR] c WHERE {absence}) EVERY 10 SECONDS")
    soup.push("calls", rows((1, 1), (2, 2), (3, 35), (4, 90)))
    soup.push("replies", rows((1, 15), (2, 25), (9, 90)))
    assert shown(soup, "sure") == [(2, 30), (3, 60)]
    assert shown(soup, "open") == [(1, 10), (2, 10), (3, 40)]


def test_a_tick_that_is_too_large_for_the_limits_says_so(soup: LocalPSoup) -> None:
    soup = LocalPSoup(EngineConfig(sort_rows=10), VirtualClock(NOW))
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT DISTINCT k FROM e [RANGE 15 SECONDS]) EVERY 10 SECONDS")
    soup.push("e", rows(*[(at, at) for at in range(30)]))
    assert isinstance(soup.not_derived["x"], ResourceExhausted)


def test_an_answer_that_is_larger_than_state_at_most_stops_the_stream(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS RSTREAM (SELECT k FROM e) EVERY 10 SECONDS STATE AT MOST 1 MB")
    soup.push("e", rows(*[(at, at) for at in range(12)]))
    assert len(shown(soup, "x")) == 12
    table = pa.table({"k": range(200_000), "at": pa.array([15 * SECOND] * 200_000, pa.timestamp("us"))})
    soup.push("e", pa.concat_tables([table, rows((1, 25))]))
    derived = soup.engine.snapshot().stream("x", soup.tenant).spec.derived
    assert derived is not None and derived.halt is not None
    assert "bytes, and STATE AT MOST allows 1,000,000" in derived.halt.why
    soup.push("e", rows((1, 45)))
    assert len(shown(soup, "x")) == 12


def test_steps_have_few_bytes_or_one_tick(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.push("e", rows(*[(at, at) for at in range(40)]))
    before = soup.engine.snapshot().sequence
    with patch.object(pump, "MOST_BYTES", 500):
        soup.execute("CREATE STREAM x AS RSTREAM (SELECT k FROM e [RANGE 1 HOUR]) EVERY 1 SECOND")
    assert len(shown(soup, "x")) == sum(range(1, 40))
    pushes = soup.engine.snapshot().sequence - before - 1
    assert 20 < pushes < 35
