"""AUTO and the pairs of joins: which queries get them, when they are given back, and that no answer depends on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.automatic.cost_model import COMPLETE, NOT_KEPT, PARTIAL
from psoup.answer.automatic.rounds import EVERY_S, AutoRounds
from psoup.config import EngineConfig, Shape
from psoup.joins.pairs_store import PairTable
from psoup.local import LocalPSoup
from psoup.plan.amounts import AUTOMATIC, Amount
from psoup.published.automatic import AmountChoice
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.call_counts import calls_of

CONFIG = EngineConfig(chunk_rows=1_024)
JOIN = "SELECT r.k, r.n, s.n AS o FROM r, s WHERE r.k = s.k"
OTHER = "SELECT s.k FROM r, s WHERE s.k = r.k AND r.n < 900"
"""Another join with the same pairs."""
ROWS = 12_000
KEYS, FEW_KEYS = 40 * ROWS, 100
"""Numbers of keys. With FEW_KEYS, there are more pairs than matches."""


def filled(keys: int = KEYS, config: EngineConfig = CONFIG, rows: int = ROWS) -> LocalPSoup:
    soup = LocalPSoup(config, VirtualClock(0), verify="cheap")
    fill(soup, rows, keys)
    return soup


def fill(soup: LocalPSoup, rows: int = ROWS, keys: int = KEYS, more: str = "") -> None:
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, n BIGINT) {more}")
    push(soup, rows, keys)
    soup.maintain()


def push(soup: LocalPSoup, rows: int, keys: int = KEYS) -> None:
    rng = np.random.default_rng(rows)
    for stream in "rs":
        soup.push(stream, pa.table({"k": rng.integers(0, keys, rows), "n": rng.integers(0, 1_000, rows)}))


def rounds(soup: LocalPSoup, count: int, often: Sequence[int] = (), invocations: int = 3) -> None:
    """So many rounds. The queries `often` are invoked before each. A tuple comes before each invocation, so that no
    complete answer can be sent again."""
    for _ in range(count):
        for _ in range(invocations if often else 0):
            push(soup, 1)
            for query in often:
                soup.invoke(query).to_table()
        soup.clock.advance(seconds=EVERY_S)  # type: ignore[attr-defined]
        soup.maintain()


def choose(soup: LocalPSoup, ids: Sequence[int], amount: Amount = Amount.PARTIAL, *, pairs: bool = True) -> None:
    soup.engine.install(AmountChoice(amount, np.array(sorted(ids), np.int64), pairs=pairs))
    soup.maintain()


def chosen(soup: LocalPSoup) -> list[int]:
    """The queries for which AUTO keeps pairs."""
    return [query for ids in soup.engine.snapshot().pairs.chosen.values() for query in ids.tolist()]


def choose_one(soup: LocalPSoup, query: int, choice: Amount) -> None:
    """Choose an amount without pairs for a query."""
    choose(soup, [query], choice, pairs=False)


def tables(soup: LocalPSoup) -> list[PairTable]:
    return list(soup.engine.snapshot().pairs.tables.values())


def rows_of(soup: LocalPSoup, query: int) -> Any:
    return again(soup.invoke, query).to_table()


def test_a_join_that_is_asked_often_gets_its_pairs() -> None:
    soup = filled()
    auto, usual = soup.register(JOIN, keeping=AUTOMATIC), soup.register(JOIN)
    rounds(soup, 3, [auto])
    assert not tables(soup)
    rounds(soup, 3, [auto])
    assert chosen(soup) == [auto] and tables(soup)[0].pairs > 0
    assert soup.engine.snapshot().query(auto, "default").keeping.amount is Amount.PARTIAL
    assert rows_of(soup, auto).equals(rows_of(soup, usual))
    rounds(soup, 6, [auto])
    assert chosen(soup) == [auto], "the choice holds as long as the work does"
    soup.check()


def test_a_join_that_is_asked_seldom_gets_no_pairs() -> None:
    soup = filled()
    auto = soup.register(JOIN, keeping=AUTOMATIC)
    rounds(soup, 1, [auto])
    for _ in range(8):
        push(soup, 2_000)
        rounds(soup, 1)
    assert not chosen(soup) and not tables(soup)


def test_a_join_with_more_pairs_than_matches_gets_none() -> None:
    soup = filled(FEW_KEYS, rows=5_000)
    auto = soup.register(JOIN, keeping=AUTOMATIC)
    rounds(soup, 5, [auto], 3)
    rows = soup.engine.snapshot().automatic.rows
    assert rows.pairs[0] > rows["matches"][0] > 0
    assert not chosen(soup)


def test_a_join_gets_no_pairs_that_have_no_room() -> None:
    soup = filled(config=replace(CONFIG, results_bytes=1))
    auto = soup.register(JOIN, keeping=AUTOMATIC)
    rounds(soup, 6, [auto])
    rows = soup.engine.snapshot().automatic.rows
    assert 0 < rows.pairs[0] < rows["matches"][0]
    assert not chosen(soup)


def test_pairs_of_windows_beyond_the_memory_are_not_kept(tmp_path: Path) -> None:
    """Most of their matches are in chunks on disk, so that no invocation would use kept pairs."""
    soup = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path)
    fill(soup, more="RETENTION 5000 ROWS ARCHIVE 99999 ROWS")
    auto = soup.register(JOIN, keeping=AUTOMATIC)
    rounds(soup, 6, [auto])
    rows = soup.engine.snapshot().automatic.rows
    assert rows["window"][0] > 2 * ROWS and 0 < rows.pairs[0] < rows["matches"][0]
    assert not chosen(soup)
    soup.store.close()


def test_queries_with_the_same_pairs_share_the_work_for_them() -> None:
    """The one that is asked often gets them first. They cost the other one nothing more, so both keep them."""
    soup = filled()
    often, seldom = (soup.register(sql, keeping=AUTOMATIC) for sql in (JOIN, OTHER))
    rounds(soup, 6, [often])
    assert chosen(soup) == [often] and len(tables(soup)) == 1
    rounds(soup, 5, [often, seldom])
    assert chosen(soup) == [often, seldom] and len(tables(soup)) == 1
    soup.check()


def altered(soup: LocalPSoup, query: int) -> None:
    soup.alter_queries([query], amount=Amount.PARTIAL)


def dropped(soup: LocalPSoup, query: int) -> None:
    soup.drop_stream("r", cascade=True)


def expired(soup: LocalPSoup, query: int) -> None:
    soup.clock.advance(seconds=10**6)  # type: ignore[attr-defined]
    soup.maintain()


def unregistered(soup: LocalPSoup, query: int) -> None:
    soup.unregister(query)


def replaced(soup: LocalPSoup, query: int) -> None:
    soup.register(f"{JOIN} AND r.n > 3", key="k", replace=True)


ENDS = [altered, dropped, expired, unregistered, replaced]


@pytest.mark.parametrize("end", [*ENDS, *[partial(choose_one, choice=choice) for choice in Amount]])
def test_pairs_are_given_back_as_their_last_query_wants_them_no_more(end: Callable[[LocalPSoup, int], None]) -> None:
    soup = filled(rows=5_000)
    query = soup.register(JOIN, keeping=AUTOMATIC, key="k", expires_after="1 DAY")
    choose(soup, [query])
    assert chosen(soup) == [query] and soup.engine._rooms.kept.room.held > 0
    end(soup, query)
    assert not chosen(soup) and not tables(soup) and soup.engine._rooms.kept.room.held == 0
    soup.check()


def test_an_inactive_or_parked_query_has_no_pairs_until_it_is_active_again(tmp_path: Path) -> None:
    soup = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path)
    fill(soup, 5_000)
    query = soup.register(JOIN, keeping=AUTOMATIC)
    block = [*soup.register_many(f"{JOIN} AND r.n > ?", [[1], [2]], keeping=AUTOMATIC)]
    for ids in ([query], block):
        choose(soup, ids)
        for ended in ({"active": False}, {"parked": True}):
            soup.alter_queries(ids, **ended)
            assert not tables(soup)
            soup.check()
            choose(soup, ids)
            assert not tables(soup)
            soup.alter_queries(ids, active=True)
            soup.maintain()
            assert tables(soup)[0].pairs > 0 and chosen(soup) == ids
            soup.check()
        choose(soup, ids, pairs=False)
    choose(soup, block)
    soup.restart()
    assert not tables(soup), "a start begins without pairs"
    soup.store.close()


def test_a_query_that_asked_for_pairs_keeps_them_whatever_auto_chooses() -> None:
    soup = filled(rows=5_000)
    other = soup.register(OTHER, keep_pairs=True)
    both = soup.register(JOIN, keep_pairs=True, keeping=AUTOMATIC)
    auto = soup.register(JOIN, keeping=AUTOMATIC)
    soup.maintain()
    for amount, pairs in [(Amount.PARTIAL, True), (Amount.COMPLETE, False), (Amount.NONE, False)]:
        choose(soup, [both, auto, other], amount, pairs=pairs)
        snapshot = soup.engine.snapshot()
        assert chosen(soup) == ([auto] if pairs else []) and tables(soup)[0].pairs > 0
        assert [snapshot.pairs.keeps(query) for query in (other, both, auto)] == [True, True, False]
    soup.unregister(other)
    assert not tables(soup), "the amount of both other queries is NONE"
    choose(soup, [both])
    assert tables(soup)[0].pairs > 0 and not chosen(soup)
    soup.check()


def test_auto_does_not_choose_pairs_that_are_kept_anyway() -> None:
    soup = filled()
    soup.register(OTHER, keep_pairs=True)
    auto = soup.register(JOIN, keeping=AUTOMATIC)
    rounds(soup, 6, [auto])
    assert not chosen(soup) and tables(soup)[0].pairs > 0
    row = soup.engine.snapshot().automatic.rows.columns[0]
    assert row["counted"] and row["costs"][COMPLETE] > row["costs"][PARTIAL]


def test_a_choice_of_pairs_is_counted_as_a_change_to_partial() -> None:
    soup = filled(rows=5_000)
    ids = [soup.register(sql, keeping=AUTOMATIC) for sql in (JOIN, OTHER)]
    switches = soup.engine.snapshot().automatic.switches
    choose(soup, ids)
    assert switches == {Amount.PARTIAL: 2}
    choose(soup, ids)
    choose(soup, ids[:1], pairs=False)
    assert switches == {Amount.PARTIAL: 3}
    choose(soup, ids, Amount.NONE, pairs=False)
    choose(soup, ids)
    assert switches == {Amount.PARTIAL: 5, Amount.NONE: 2}


def test_explain_shows_the_choice_of_pairs() -> None:
    soup = filled()
    auto = soup.register(JOIN, keeping=AUTOMATIC)
    rounds(soup, 5, [auto])
    explained = soup.explain(auto)
    text = "\n".join(explained.lines())
    assert "chosen   PARTIAL with pairs since 1970-01-01 00:00:40Z, by AUTO" in text
    assert " partial with pairs\n" in text and "pairs of tuples in the windows satisfy the join" in text
    assert explained.choice is not None and explained.choice.pairs_kept and explained.choice.amount == "PARTIAL"
    assert {*explained.choice.core_us} == {"NONE", "PARTIAL", "COMPLETE", "PARTIAL with pairs"}
    assert explained.choice.pairs == pytest.approx(tables(soup)[0].pairs, rel=0.2)
    plain = soup.explain(soup.register("SELECT k FROM r", keeping=AUTOMATIC))
    assert "pairs" not in "\n".join(plain.lines())


@pytest.mark.long
def test_a_round_with_joins_is_work_as_a_set() -> None:
    """1,000 and 10,000 joins of one statement cause as many Python calls, with the choice of their pairs."""
    counted = list[list[int]]()
    for count in (1_000, 10_000):
        soup = LocalPSoup(
            EngineConfig(chunk_rows=1_024, shape=Shape(owner_page=1 << 20)), VirtualClock(0), verify="off"
        )
        fill(soup, 8_000)
        ids = soup.register_many(f"{JOIN} AND r.n < ?", pa.table({"x": range(2_000, 2_000 + count)}), keeping=AUTOMATIC)
        every, automatic, calls = AutoRounds(), soup.engine.snapshot().automatic, list[int]()
        for now in range(5):
            choices = list[AmountChoice]()
            look = partial(every.look, soup.engine.snapshot(), now * 3_600_000_000)
            calls.append(calls_of(lambda look=look, choices=choices: choices.extend(look())))  # type: ignore[misc]
            calls += [calls_of(partial(soup.engine.install, choice)) for choice in choices]
            push(soup, 1)
            for name, value in (
                ("asked", 720_000 // count),
                ("window", 16_000),
                ("matches", 16_000),
                ("form", NOT_KEPT),
            ):
                automatic.rows[name][:] = value
            automatic.rows["density"][:] = 1e-7
        assert len(chosen(soup)) == count == len(ids)
        counted.append(calls)
        soup.check()
    assert counted[0] == counted[1]
