"""Packs on disk: a table of very many aggregates over an archive reads no tuple, and no answer depends on them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psoup.aggregates.shelved_packs import Roster, decoded_pack, encoded_pack
from psoup.answer import table
from psoup.config import EngineConfig
from psoup.execution.ahead import packs_ahead
from psoup.execution.many.packs_store import PackShelf, pack_shelf
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import UNBOUNDED
from psoup_storage.durable.chunks.sidecars import FOLDER
from psoup_testing.engines.past import rows
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.kept_structures import KEPT
from psoup_testing.suite.sweeps import in_parts

CREATE = "CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t RETENTION 90 SECONDS ARCHIVE 9 DAYS"
SHOWN = [
    "count(*) AS a",
    "count(*) AS a, sum(x) AS b, max(x) AS c, min(w) AS d",
    "first(w) AS a, last(x) AS b, arg_max(w, x) AS c, avg(x * 0.5) AS d",
]
PLAIN = f"SELECT {SHOWN[1]} FROM s WHERE x % 13 = ? BEGIN (START)"


def made(path: Path, fan: int = 2, every: int = 0, archive_rows: int = 150) -> RestartingPSoup:
    config = EngineConfig(chunk_rows=64, archive_rows=archive_rows, shape=replace(EAGER, fold_fan=fan))
    soup = RestartingPSoup(config, VirtualClock(3_000 * SECOND), path, every)
    soup.execute(CREATE)
    return soup


@pytest.fixture
def soup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestartingPSoup]:
    monkeypatch.setattr(table, "_ON_DISK", 0)
    opened = made(tmp_path / "data")
    yield opened
    opened.check()
    opened.store.close()


def push(soup: RestartingPSoup, first: int, stop: int) -> None:
    for start in range(first, stop, 50):
        soup.push("s", rows(start, start + 50))
        soup.maintain()


def asked(soup: RestartingPSoup, ids: Any) -> tuple[list[Any], dict[str, list[int]]]:
    """The rows of a table, and the places that failed, by reason."""
    answers = again(soup.invoke_table, np.array(ids))
    return answers.to_table().to_pylist(), {f.error.reason: f.places.tolist() for f in answers.failures()}


def expected(places: range, stop: int) -> list[dict[str, Any]]:
    """What PLAIN comes to for the parameters k, of rows with x in [0, stop)."""
    given = rows(0, stop).to_pylist()
    of = [[row for row in given if row["x"] % 13 == k] for k in places]
    return [
        {
            "_query": place,
            "a": len(own),
            "b": sum(row["x"] for row in own),
            "c": max(row["x"] for row in own),
            "d": min(row["w"] for row in own if row["w"] is not None),
        }
        for place, own in enumerate(of)
    ]


def test_a_table_that_was_asked_for_is_there_after_a_start_and_what_came_since(soup: RestartingPSoup) -> None:
    ids = list(soup.register_many(PLAIN, [[k] for k in range(13)]))
    push(soup, 0, 200)
    asked(soup, ids)
    asked(soup, ids)
    for stop in (1_000, 1_400):
        push(soup, stop - 800 if stop == 1_000 else 1_000, stop)
        soup.restart()
        assert soup.engine.snapshot().by_id[1].archived > 10
        soup.engine.snapshot().by_id[1].folds.give_up(1 << 40)
        assert asked(soup, ids) == (expected(range(13), stop), {})
        assert soup.store.archive_reads == 0
    assert any(name.count(".") == 3 for name in os.listdir(soup.path / FOLDER))


@pytest.mark.long
def test_one_who_came_later_is_refused_alone_and_one_who_is_gone_leaves_nothing(soup: RestartingPSoup) -> None:
    ids = list(soup.register_many(PLAIN, [[k] for k in range(13)]))
    push(soup, 0, 200)
    asked(soup, ids), asked(soup, ids)
    push(soup, 200, 1_000)
    late = soup.register(PLAIN.replace("?", "3").replace("13", "11"))
    soup.unregister(ids[2])
    soup.restart()
    soup.unregister(ids[4])
    rows, failed = asked(soup, [*ids[:2], late, ids[3], *ids[5:]])
    wanted = [expected(range(13), 1_000)[k] for k in (0, 1, 3, *range(5, 13))]
    assert rows == [{**row, "_query": place} for row, place in zip(wanted, (0, 1, *range(3, 12)), strict=True)]
    assert failed == {"ARCHIVE_BUDGET": [2]}
    assert soup.store.archive_reads == 0


@pytest.mark.long
def test_an_id_that_was_given_again_does_not_find_the_states_of_the_one_before(soup: RestartingPSoup) -> None:
    ids = list(soup.register_many(PLAIN, [[k] for k in range(13)]))
    push(soup, 0, 200)
    asked(soup, ids), asked(soup, ids)
    push(soup, 200, 600)
    snapshot = soup.engine.snapshot()
    ((_, packs),) = snapshot.by_id[1].packs.kept()
    shelf = pack_shelf(snapshot, snapshot.by_id[1], packs, UNBOUNDED)
    assert shelf is not None and len(packs.spans)
    pack = next(iter(packs.spans.values()))[0]
    known = shelf._roster(pack.ids)
    assert shelf._clauses_of(known).tolist() == pack.ids.tolist()
    again = Roster(known.ids, known.registered + (np.arange(13) == 2))
    assert (shelf._clauses_of(again) >= 0).tolist() == [k != 2 for k in range(13)]
    roster, whole = decoded_pack(packs.measures, encoded_pack(again, pack))
    assert np.array_equal(roster.registered, again.registered)
    left = shelf._mapped(roster, whole)
    assert left is not None and left.ids.tolist() == np.delete(pack.ids, 2).tolist()


@pytest.mark.long
@in_parts(2)
def test_tables_are_those_without_packs_whenever_the_process_ends(
    tmp_path: Path, part: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packs are dropped at any time; clauses have other numbers after each start; some come late, some go."""
    monkeypatch.setattr(table, "_ON_DISK", 0)
    monkeypatch.setattr(packs_ahead, "_STEP", 2)
    rng, fetched, met = random.Random(1), [0], KEPT.counts["pack on disk"]
    fetch = PackShelf.fetch

    def counted(shelf: PackShelf, span: tuple[int, int]) -> bool:
        found = fetch(shelf, span)
        fetched[0] += found
        return found

    monkeypatch.setattr(PackShelf, "fetch", counted)
    sides = [made(tmp_path / "one", 2, rng.choice([3, 5]), 1 << 40), made(tmp_path / "other", 1, 0, 1 << 40)]
    blocks = list[list[int]]()
    for step in range(9):
        if step in (0, 4):
            for shown in SHOWN[part]:
                where = rng.choice(["x % 7 = ?", "x > ?", "x % 5 < ? AND w IS NOT NULL"])
                text = f"SELECT {shown} FROM s WHERE {where} BEGIN (START)"
                values = [[k] for k in rng.sample(range(20), 12)]
                one, other = (list(soup.register_many(text, values)) for soup in sides)
                assert one == other
                blocks.append(one)
        if step == 6:
            gone = [block.pop(rng.randrange(len(block))) for block in blocks]
            for soup in sides:
                soup.unregister_many(gone)
        for soup in sides:
            soup.push("s", rows(100 * step, 100 * step + 100))
            soup.maintain()
        sides[0].engine.snapshot().by_id[1].packs.give_up(rng.choice([0, 0, 1 << 30]))
        for block in blocks:
            some = rng.sample(block, 10)
            assert asked(sides[0], some) == asked(sides[1], some), step
    assert fetched[0] > 5
    assert KEPT.counts["pack on disk"] > met
    for soup in sides:
        soup.check()
        soup.store.close()


def test_a_join_beside_them_is_left_out(soup: RestartingPSoup) -> None:
    soup.register("SELECT p.x FROM s AS p, s AS q WHERE p.x = q.x")
    ids = list(soup.register_many(PLAIN, [[k] for k in range(13)]))
    push(soup, 0, 200)
    asked(soup, ids), asked(soup, ids)
    push(soup, 200, 600)
    soup.restart()
    assert asked(soup, ids) == (expected(range(13), 600), {})
    assert soup.store.archive_reads == 0
