"""Chunks that retention passes before they are stored: no file, no tuple that comes back, no ID given out twice."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import rows
from psoup_testing.engines.recorded import Player
from psoup_testing.engines.restarts import RestartingPSoup, making
from psoup_testing.histories.histories import draw_history
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16, unstored_chunks=3, ahead=86_400 * SECOND)


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path / "data")
    yield made
    made.store.close()


def asked(soup: RestartingPSoup, sql: str) -> list[tuple[Any, ...]]:
    return list(soup.store._database.query(sql))


def files(soup: RestartingPSoup) -> list[str]:
    return sorted(os.listdir(soup.path / "chunks"))


def answer(soup: RestartingPSoup, query: int) -> list[dict[str, Any]]:
    return soup.invoke(query).to_table().to_pylist()


def _refused() -> Any:
    raise ResourceExhausted("no room", reason="DISK_FULL")


def filled(soup: RestartingPSoup, retention: str, pushes: int = 30, size: int = 30) -> int:
    """A stream s of that retention, and a query for what it keeps; maintenance goes on after each push."""
    soup.execute(f"CREATE STREAM s (x BIGINT) RETENTION {retention}")
    query = soup.register("SELECT x, _id, _time FROM s BEGIN (START)")
    for number in range(pushes):
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        soup.push("s", pa.table({"x": range(size * number, size * (number + 1))}))
        soup.maintain()
    return query


@pytest.mark.parametrize("cases", swept([30, 40], fast=1))
def test_histories_with_restarts_say_what_they_say_without(cases: int, tmp_path: Path) -> None:
    budget, numbers, passed = Budget("passed", cases=cases), itertools.count(), 0

    def case(draw: Any) -> int:
        nonlocal passed
        history = draw_history(draw, events=14)
        keep_rows = draw(st.sampled_from([None, 30, 100]))
        declaration = replace(history.declaration, keep_rows=keep_rows, keep_seconds=None if keep_rows else 90)
        history = replace(history, declaration=declaration)
        note(repr(history))
        every, unstored = draw(st.integers(2, 5)), draw(st.integers(0, 3))
        with making(tmp_path / str(next(numbers)), every=every, unstored=unstored) as made:
            played = Player(history, maintain_always=True, make=made)
            assert played.said == Player(history, maintain_always=True).said
            passed += asked(made.soup, "SELECT count(*) FROM chunks WHERE file = ''")[0][0]
        return 1

    run_cases(budget, case)
    assert passed > cases // 40, "too few chunks were passed to say anything"


@pytest.mark.parametrize("retention", ["150 ROWS", "5 SECONDS"])
def test_a_short_retention_stores_nothing(soup: RestartingPSoup, retention: str) -> None:
    query = filled(soup, retention)
    before = answer(soup, query)
    assert files(soup) == [] and before[-1]["x"] == before[-1]["_id"] == 899
    ((number, first, count),) = asked(soup, "SELECT number, first_id, rows FROM chunks")
    assert first + count == 64 * (number + 1) <= 900 - len(before) + 64
    (kept,) = asked(soup, "SELECT count(*), min(sequence) FROM log WHERE tuples IS NOT NULL")
    assert kept[0] <= 12, "the log forgets what is passed"
    for _ in range(2):
        soup.restart()
        assert answer(soup, query) == before
        soup.maintain()
        assert answer(soup, query) == before and files(soup) == []
    soup.push("s", pa.table({"x": [900, 901]}))
    assert [row["_id"] for row in answer(soup, query)[-3:]] == [899, 900, 901], "IDs go on"


def test_a_start_right_after_a_chunk_was_passed_does_not_bring_it_back(soup: RestartingPSoup) -> None:
    """The process ends before the engine hears of it."""
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 64 ROWS")
    query = soup.register("SELECT x, _id FROM s BEGIN (START)")
    for number in range(4):
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        soup.push("s", pa.table({"x": range(64 * number, 64 * (number + 1))}))
    before = answer(soup, query)
    while (task := soup.engine.maintenance()) is not None:
        outcome = task.compute()
        if task.name == "store":
            break
        soup.engine.install(outcome)
    assert asked(soup, "SELECT number, file FROM chunks") == [(0, "")]
    soup.store.close()
    soup.reopen()
    assert answer(soup, query) == before
    assert soup.engine.snapshot().by_id[1].first_id == 64
    soup.maintain()
    assert answer(soup, query) == before and files(soup) == []


def test_what_is_passed_by_the_clock_leaves(soup: RestartingPSoup) -> None:
    """A full memory lets tuples go that are past by the clock, which the stream does not know of."""
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 60 SECONDS")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    soup.push("s", pa.table({"x": range(64)}))
    soup.maintain()
    assert files(soup) == ["1-0.parquet"], "all of it has one time: a minute is long"
    soup.push("s", pa.table({"x": range(64)}))
    soup.engine.expire(500 * SECOND)
    while (task := soup.engine.maintenance()) is not None and task.name != "store":
        soup.engine.install(task.compute())
    assert task is not None
    soup.engine.install(task.compute())
    assert asked(soup, "SELECT number, file FROM chunks") == [(1, "")]
    assert answer(soup, query) == [] and soup.engine.snapshot().by_id[1].first_id == 128
    soup.store.close()
    soup.reopen()
    assert answer(soup, query) == []


def test_a_stream_of_which_nothing_is_left_goes_on(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t RETENTION 100 SECONDS")
    query = soup.register("SELECT x, _id FROM s BEGIN (START)")
    soup.push("s", rows(t=[*range(64)], x=[*range(64)]))
    soup.heartbeat("s", 1_000 * SECOND)
    soup.maintain()
    assert answer(soup, query) == [] and asked(soup, "SELECT number, file FROM chunks") == [(0, "")]
    for later in (2_000, 2_001):
        soup.restart()
        assert answer(soup, query) == [{"x": x, "_id": 62 + x - 1_998} for x in range(2_000, later)]
        soup.push("s", rows(t=[later], x=[later]))
    soup.restart()
    assert [row["_id"] for row in answer(soup, query)] == [64, 65]
    assert soup.engine.snapshot().by_id[1].dropped_time == 63 * SECOND


@pytest.mark.parametrize(
    ("retention", "change"),
    swept(
        [
            ("193 ROWS", {}),
            ("100 ROWS", {"unstored_chunks": 0}),
            ("100 ROWS", {"unstored_bytes": 2_000}),
            ("90 SECONDS", {}),
            ("30 ROWS ARCHIVE 100 ROWS", {}),
        ],
        fast=2,
    ),
)
def test_what_is_long_or_large_is_stored(tmp_path: Path, retention: str, change: dict[str, int]) -> None:
    soup = RestartingPSoup(replace(CONFIG, **change), VirtualClock(0), tmp_path / "data")
    query = filled(soup, retention)
    before = answer(soup, query)
    assert files(soup) != []
    soup.restart()
    assert answer(soup, query) == before
    soup.store.close()


def test_a_full_disk_is_tried_again(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    query = filled(soup, "100 ROWS")
    soup.push("s", pa.table({"x": [7] * 200}))
    before = answer(soup, query)
    with monkeypatch.context() as full:
        full.setattr(soup.store._database, "transaction", _refused)
        soup.maintain()
        assert answer(soup, query) == before
    row = asked(soup, "SELECT number FROM chunks")
    soup.push("s", pa.table({"x": [8]}))
    soup.maintain()
    assert asked(soup, "SELECT number FROM chunks") > row
    soup.restart()
    *others, last = answer(soup, query)
    assert (others, last["x"]) == (before[1:], 8)


def test_doctor_and_backup_know_it(soup: RestartingPSoup, tmp_path: Path) -> None:
    query = filled(soup, "150 ROWS")
    expected = answer(soup, query)
    frozen = soup.store.freeze()
    target = tmp_path / "restored"
    restore(frozen.path, target)
    frozen.close()
    report = examine(target)
    assert report.well and "chunks" not in report.figures
    again = RestartingPSoup(CONFIG, soup.clock, target)  # type: ignore[arg-type]
    assert answer(again, query) == expected
    again.store.close()
