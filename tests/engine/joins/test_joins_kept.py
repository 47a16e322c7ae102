"""Kept pairs: answers never depend on them, whatever is kept of them, and nothing of a chunk outlives it.

r, s   chunks of 64 tuples; now and then the pairs go, chunks leave, queries come and go, or all starts anew
each join is asked as it is, and with its pairs hidden: the answers are equal, row for row
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import Corrupt, InvalidInput
from psoup.execution.join import bloom_filter, kept_pairs
from psoup.joins.pairs_store import PairTable
from psoup.local import LocalPSoup
from psoup.plan.amounts import Amount, Keeping
from psoup.plan.way import TryNext
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.altered_queries import choose
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.ways import wrapped
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, list_limit=4)
TYPES = "k BIGINT, n BIGINT, d DOUBLE, t TEXT, m DECIMAL(9, 2)"
FACTORS = (
    "r.k = s.k",
    "s.k = r.k AND r.n = s.n",
    "r.k = s.d",
    "r.t = s.t AND r.n < s.n",
    "s.k BETWEEN r.k - 1 AND r.k",
    "r.k + 1 = s.k - 2",
    "r.m = s.k",
)
FORMS = (
    "SELECT r.k, s.k AS l, r._id AS i, s._id AS j FROM r, s WHERE {} AND r.n > 2 AND s.n < 9",
    "SELECT r.t, s.n FROM r, s WHERE {}",
    "SELECT r.k, s.n FROM r [ROWS 280], s [ROWS 400] WHERE {} AND s.n > 6 ORDER BY s.n DESC, r.k LIMIT 9",
    "SELECT r.k, s.n FROM r, s WHERE {} AND r.n <> 3 LIMIT 5",
    "SELECT r.n, count(*) AS c, sum(s.k) AS b FROM r, s WHERE {} GROUP BY r.n",
    "SELECT r.t, s.n, r._id AS i FROM r, s WHERE {} AND 100 / (r.n - s.n) > 9",
    "SELECT r.n + s.n AS c FROM r, s WHERE {} AND (r.n = 3 OR s.n = 4) LIMIT 5",
)
JOIN = "SELECT r.k, r.n, s.n AS o FROM r, s WHERE r.k = s.k"


def tuples(rng: np.random.Generator, count: int, keys: int = 200) -> pa.Table:
    texts = [f"t{number}" for number in rng.integers(0, keys, count)]
    columns = {
        "k": pa.array(rng.integers(0, keys, count), mask=rng.random(count) < 0.1),
        "n": pa.array(rng.integers(0, 12, count), mask=rng.random(count) < 0.1),
        "d": pa.array(rng.integers(0, keys, count) / 2, mask=rng.random(count) < 0.1),
        "t": pa.array(texts),
        "m": pa.array(list(map(Decimal, rng.integers(0, keys, count).tolist())), pa.decimal128(9, 2)),
    }
    return pa.table(columns)


def streams(soup: LocalPSoup, more: str = "") -> None:
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} ({TYPES}) {more}")


def tables(soup: LocalPSoup) -> list[PairTable]:
    return list(soup.engine.snapshot().pairs.tables.values())


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether kept pairs were used, for each reading that could; the last element says that they are hidden."""
    told: list[bool] = []

    def telling(run: Callable[[object], object]) -> Callable[[object], object]:
        def told_run(case: object) -> object:
            if told and told[-1] is None:  # type: ignore[comparison-overlap]
                raise TryNext
            told.append(False)
            rows = run(case)
            told[-1] = True
            return rows

        return told_run

    wrapped(monkeypatch, "kept_pairs", telling)
    return told


def compare(soup: LocalPSoup, ids: list[int], used: list[bool]) -> int:
    """The rows of all answers, which are the same without kept pairs."""
    own = [again(soup.invoke, query) for query in ids]
    with_pairs = [(answer.to_table(), answer.errors) for answer in own]
    used.append(None)  # type: ignore[arg-type]
    without = [(answer.to_table(), answer.errors) for answer in own]
    used.pop()
    assert with_pairs == without
    return sum(table.num_rows for table, _ in with_pairs)


@pytest.mark.seeded("a block outlives a chunk on the left, or on the right")
@pytest.mark.seeded("a row that is cut keeps the pairs of the chunk that is gone")
@pytest.mark.seeded("tuples of the open chunk are left out")
@pytest.mark.parametrize("factor", swept(FACTORS, fast=1))
def test_answers_do_not_depend_on_kept_pairs(factor: str, used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_pairs, "_FEW", 60)
    monkeypatch.setattr(bloom_filter, "_LARGE", 60)
    monkeypatch.setattr(bloom_filter, "_RATIO", 2)
    cut: list[int] = []
    kernel = bloom_filter.marked_rows
    monkeypatch.setattr(bloom_filter, "marked_rows", lambda *given: cut.append(kernel(*given)) or cut[-1])
    rng = np.random.default_rng(len(factor))
    soup = LocalPSoup(SMALL, VirtualClock(0), verify="all")
    streams(soup, "RETENTION 500 ROWS")
    statements = [form.format(factor) for form in FORMS]
    ids = [soup.register(sql, keep_pairs=number != 1) for number, sql in enumerate(statements[:3])]
    rows = times_chosen = 0
    for step in range(14):
        for stream in rng.permutation(["r", "s"]):
            soup.push(stream, tuples(rng, int(rng.integers(0, 130))))
        if rng.random() < 0.6:
            soup.maintain()
        if step == 5:
            ids += [soup.register(sql) for sql in statements[3:]]
        if step == 8:
            soup.execute("ALTER STREAM s ADD COLUMN z BIGINT")
            soup.unregister(ids.pop(0))
        if rng.random() < 0.2:
            soup.engine._rooms.kept.give_up(1)
        if rng.random() < 0.3:
            some, amount = rng.choice(ids, 2), [Amount.NONE, Amount.PARTIAL][int(rng.integers(2))]
            soup.alter_queries(some.tolist(), amount=amount)
        if step % 3 == 0:  # AUTO chooses for queries that did not ask for pairs
            soup.alter_queries(ids[-3:], auto=True)
            choose(soup, ids, Amount.PARTIAL, pairs=rng.random() < 0.7)
            times_chosen += len(soup.engine.snapshot().pairs.chosen)
        rows += compare(soup, ids, used)
        soup.engine.check()
    assert rows > 100 and times_chosen
    assert used.count(True) > 10
    assert bool(cut) == (factor in FACTORS[:2]), "a key of whole numbers, and no others"
    soup.unregister_many(ids)
    assert not tables(soup)
    soup.engine.check()


def filled(soup: LocalPSoup, chunks: int = 4, keys: int = 200) -> None:
    """Some closed chunks of both streams, and half of one."""
    rng = np.random.default_rng(3)
    for stream in "rs":
        soup.push(stream, tuples(rng, chunks * 64 + 32, keys))
    soup.maintain()


@pytest.mark.seeded("a block has the tuples that one query selects")
def test_queries_with_other_sides_share_a_block(used: list[bool]) -> None:
    """A block of the tuples that one query selects would lack those of another."""
    soup = LocalPSoup(SMALL, VirtualClock(0))
    streams(soup)
    narrow = soup.register(f"{JOIN} AND r.n = 3 AND s.n = 4", keep_pairs=True)
    filled(soup)
    wide = soup.register("SELECT r.n, s.n AS o FROM r, s WHERE s.k = r.k")
    assert len(tables(soup)) == 1
    assert compare(soup, [narrow, wide], used) > 200
    assert used[-1]
    assert soup.engine.snapshot().pairs.keeps(narrow)
    assert not soup.engine.snapshot().pairs.keeps(wide)


@pytest.mark.seeded("a block outlives a chunk on the left, or on the right")
def test_a_block_goes_with_either_chunk(tmp_path: Path, used: list[bool]) -> None:
    for leaving in "rs":
        soup = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / leaving, hot_bytes=2**30)
        soup.execute(f"CREATE STREAM r ({TYPES}) {'RETENTION 360 ROWS ARCHIVE 160 ROWS' if leaving == 'r' else ''}")
        soup.execute(f"CREATE STREAM s ({TYPES}) {'RETENTION 360 ROWS' if leaving == 's' else ''}")
        query = soup.register(JOIN, keep_pairs=True)
        filled(soup)
        (before,) = tables(soup)
        assert before.first == before.least == 0
        assert before.pairs > 0
        soup.push(leaving, tuples(np.random.default_rng(5), 240))
        (between,) = tables(soup)
        assert (between.first if leaving == "r" else between.least) > 0
        compare(soup, [query], used)
        soup.maintain()
        (after,) = tables(soup)
        assert [row.first for row in after.rows if row is not None] == [after.least] * len(after.rows)
        soup.engine.check()
        compare(soup, [query], used)
        soup.store.close()


@pytest.mark.seeded("blocks outlive the last chunk of a stream")
def test_pairs_go_when_all_chunks_of_a_stream_are_gone(used: list[bool]) -> None:
    for leaving in ("r", "s", "rs"):
        soup = LocalPSoup(SMALL, clock := VirtualClock(0), verify="all")
        for stream in "rs":
            soup.execute(f"CREATE STREAM {stream} ({TYPES}) {'RETENTION 10 SECONDS' if stream in leaving else ''}")
        query = soup.register(JOIN, keep_pairs=True)
        filled(soup)
        assert tables(soup)[0].pairs > 0
        clock.advance(seconds=3_600)
        soup.engine.expire(clock.now())
        assert (tables(soup)[0].pairs, soup.engine.bill()["kept_pairs_bytes"]) == (0, 0)
        soup.engine.check()
        assert compare(soup, [query], used) == 0
        filled(soup)
        assert tables(soup)[0].pairs > 0
        assert compare(soup, [query], used) > 0
        soup.engine.check()


def test_pairs_that_outlive_a_chunk_are_found_by_the_check() -> None:
    soup = LocalPSoup(SMALL, VirtualClock(0))
    streams(soup, "RETENTION 320 ROWS")
    soup.register(JOIN, keep_pairs=True)
    filled(soup)
    (kept,) = soup.engine._rooms.kept._joins.values()
    whole = kept.table
    soup.push("r", tuples(np.random.default_rng(5), 400))
    kept.table = replace(whole, least=kept.table.least)
    with pytest.raises(Corrupt, match="outlive"):
        kept.check()


@pytest.mark.seeded("pairs of a chunk that came back are those of before")
def test_a_restart_makes_the_pairs_again(tmp_path: Path, used: list[bool]) -> None:
    """Chunks come back with other columns, and are others: nothing of before is known of them."""
    soup = RestartingPSoup(SMALL, VirtualClock(0), tmp_path, hot_bytes=2**30)
    streams(soup)
    first = soup.register(JOIN, key="a", keep_pairs=True)
    block = soup.register_many(f"{JOIN} AND r.n = ?", [[3], [4]], keep_pairs=True)
    listed = soup.register_many([f"{JOIN} AND s.n > 3", f"{JOIN} LIMIT 3"], keep_pairs=True)
    other = soup.register(f"{JOIN} AND s.n > 5")
    filled(soup)
    (before,) = tables(soup)
    ids = [first, *block, *listed, other]
    for _ in range(2):
        soup.restart()
        soup.maintain()
        (after,) = tables(soup)
        assert after.pairs == before.pairs
        assert [soup.engine.snapshot().pairs.keeps(query) for query in ids] == [True] * 5 + [False]
        assert compare(soup, ids, used) > 0
    soup.unregister_many([first, *block, *listed])
    soup.restart()
    assert not tables(soup)


@pytest.mark.seeded("an idle join keeps its pairs")
@pytest.mark.parametrize(
    ("keeping", "leave", "enter"),
    swept(
        [
            (Keeping(Amount.NONE), {"amount": Amount.NONE}, {"amount": Amount.PARTIAL}),
            (Keeping(active=False), {"active": False}, {"active": True}),
        ],
        fast=(1,),
    ),
)
def test_a_join_keeps_no_pairs_while_its_queries_are_idle(
    tmp_path: Path, used: list[bool], keeping: Keeping, leave: Any, enter: Any
) -> None:
    soup = RestartingPSoup(SMALL, VirtualClock(0), tmp_path, hot_bytes=2**30)
    streams(soup)
    first = soup.register(JOIN, keep_pairs=True, keeping=keeping)
    block = soup.register_many(f"{JOIN} AND r.n = ?", [[3], [4]], keep_pairs=True, keeping=keeping)
    ids = [first, *block]

    def pairs() -> int:
        soup.maintain()
        soup.engine.check()
        assert all(soup.engine.snapshot().pairs.keeps(query) for query in ids)
        assert soup.engine.bill()["kept_pairs_bytes"] == soup.engine.snapshot().pairs.nbytes
        return sum(table.pairs for table in tables(soup))

    filled(soup)
    assert pairs() == 0 == len(tables(soup))
    soup.alter_queries(block[:1], **enter)
    whole = pairs()
    assert whole > 0
    soup.restart()
    assert pairs() == whole and compare(soup, ids, used) > 0 and used[-1]
    soup.alter_queries(ids[1:], **leave)
    assert soup.engine.bill()["kept_pairs_bytes"] == 0 == len(tables(soup)) == pairs()
    soup.restart()
    assert pairs() == 0 and compare(soup, ids, used) > 0
    another = soup.register(f"{JOIN} AND s.n > 3", keep_pairs=True)
    assert pairs() == whole
    soup.unregister(another)
    assert pairs() == 0
    soup.alter_queries([first], **enter)
    filled(soup)
    assert pairs() > whole


@pytest.mark.seeded("a block with too many pairs is taken for one without")
def test_a_chunk_with_too_many_pairs_is_not_kept(used: list[bool]) -> None:
    soup = LocalPSoup(SMALL, VirtualClock(0))
    streams(soup)
    query = soup.register(JOIN, keep_pairs=True)
    filled(soup, 2)
    hot = pa.table({name: pa.array([7] * 64, pa.int64()) for name in ("k", "n")})
    for stream in "rs":
        soup.push(stream, hot.slice(0, 32))
        soup.push(stream, hot)
    soup.maintain()
    (table,) = tables(soup)
    kept = [row.kept.tolist() for row in table.rows if row is not None]
    assert kept == [[True] * 4] * 2 + [[True, True, False, False]] * 2
    assert compare(soup, [query], used) > 4096


@pytest.mark.seeded("an operand that cannot be computed is not counted")
def test_a_chunk_with_an_error_is_not_kept(used: list[bool]) -> None:
    """A sum out of range is an error of its row, which every answer counts once."""
    soup = LocalPSoup(SMALL, VirtualClock(0))
    streams(soup)
    query = soup.register(JOIN.replace("r.k", "r.k + 1"), keep_pairs=True)
    filled(soup)
    far = pa.table({"k": [2**63 - 1] * 3, "n": [1, 2, 3]})
    for stream in "rs":
        soup.push(stream, far)
    filled(soup)
    compare(soup, [query], used)
    answer = again(soup.invoke, query)
    answer.to_table()
    assert answer.errors == 3
    assert not used[-1]
    (table,) = tables(soup)
    assert any(not row.kept.any() for row in table.rows if row is not None)


def test_pairs_leave_before_results_and_come_back() -> None:
    soup = LocalPSoup(SMALL, VirtualClock(0))
    streams(soup, "RETENTION 800 ROWS")
    soup.register(JOIN, keep_pairs=True)
    filled(soup)
    held = soup.engine.bill()["kept_pairs_bytes"]
    assert held == soup.engine.snapshot().pairs.nbytes > 0
    engine, results = soup.engine, soup.engine.bill()["sealed_results_bytes"]
    engine._rooms.kept.room.limit = 0
    engine._rooms.kept.give_up(1)
    soup.maintain()
    assert engine.bill()["kept_pairs_bytes"] == 0, "they are not made again while nothing has changed"
    assert engine.bill()["sealed_results_bytes"] == results
    engine.check()
    filled(soup, 3)
    assert engine.bill()["kept_pairs_bytes"] > 0
    engine.check()


REFUSED = (
    "SELECT * FROM r WHERE k > 3",
    "SELECT r.k FROM r, s, r AS x WHERE r.k = s.k AND s.k = x.k",
    "SELECT r.k FROM r, s WHERE r.n + s.n > 3 LIMIT 3",
    "SELECT r.k FROM r, s WHERE abs(r.k) = s.k",
    "SELECT r.k FROM r, s LIMIT 3",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_pairs_are_kept_of_joins_of_columns_alone(sql: str) -> None:
    soup = LocalPSoup(SMALL, VirtualClock(0))
    streams(soup)
    calls: list[Callable[[], object]] = [
        lambda: soup.register(sql, keep_pairs=True),
        lambda: soup.register_many([JOIN, sql], keep_pairs=True),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="keep_pairs is for joins of two streams"):
            call()
    assert not soup.queries()
