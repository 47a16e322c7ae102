"""ORDER BY and DISTINCT: what they hold while they are made and read, what they may hold, and how they end."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.execution.rows import sort, sort_keys
from psoup.execution.rows.sort import Sorting
from psoup.execution.rows.sort_keys import distinct_rows, sorted_rows
from psoup.expressions.tree import AttributeRef
from psoup.local import LocalPSoup
from psoup.model import BIGINT, DOUBLE, TEXT, DataType
from psoup.plan.nodes import OrderKey
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup.work.read_budget import UNBOUNDED, ReadBudget, ReadEnded
from psoup_service.host.shared_bytes import SharedBytes

SMALL = EngineConfig(chunk_rows=64)


def _soup(rows: int, text: int, config: EngineConfig = EngineConfig()) -> LocalPSoup:
    soup = LocalPSoup(config)
    soup.execute("CREATE STREAM s (a BIGINT, t TEXT)")
    for start in range(0, rows, 50_000):
        numbers = np.arange(start, min(start + 50_000, rows))
        soup.push("s", pa.table({"a": numbers * 7919 % rows, "t": [f"{n:0{text}d}" for n in numbers.tolist()]}))
    soup.maintain()
    return soup


def _answer(soup: LocalPSoup, sql: str, budget: ReadBudget | None = None, **config: int) -> Answer:
    query = soup.register(sql)
    snapshot = replace(soup.engine.snapshot(), config=replace(soup.engine.config, **config))
    return invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now(), budget=budget).lean()


@pytest.mark.seeded("F6: sorted answers that nobody reads")
def test_a_sorted_answer_that_waits_for_its_reader_holds_row_numbers_and_no_rows() -> None:
    soup = _soup(200_000, 90)
    assert _answer(soup, "SELECT a, t FROM s ORDER BY t DESC LIMIT 3").to_table().num_rows == 3  # compiled
    gc.collect()
    tracemalloc.start()
    try:
        budget = ReadBudget()
        batches = _answer(soup, "SELECT a, t FROM s ORDER BY a", budget).batches(2_000)
        assert next(batches).column("a").to_pylist() == list(range(2_000))
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert budget.held == 8 * 200_000, "the IDs, in their order"
    assert held < 3_000_000, f"{held:,} bytes; the rows have 20 MB"
    batches.close()
    assert budget.held == 0


def test_texts_are_taken_in_the_memory_of_the_texts() -> None:
    column = column_from_arrow("t", TEXT, pa.array(["x" * 1_000] * 4_000))
    rows = np.arange(0, 4_000, 2)
    assert len(column.take(rows).to_arrow()) == 2_000
    tracemalloc.start()
    try:
        taken = column.take(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken.to_list() == ["x" * 1_000] * 2_000
    assert peak < 2.2e6, f"{peak:,} bytes for 2,000,000 of text"


def test_what_a_sort_may_hold_is_bounded_in_bytes_for_one_and_for_all() -> None:
    soup, shared = _soup(10_000, 100), SharedBytes(2_000_000)
    sql = "SELECT a FROM s ORDER BY t"
    with pytest.raises(ResourceExhausted, match=r"one read may hold 500,000 \(sort_mib\)") as caught:
        _answer(soup, sql, ReadBudget(sort_bytes=500_000, shared=shared)).to_table()
    assert (caught.value.reason, caught.value.facts["limit"]) == ("SORT_BUDGET", "500000")
    assert shared.used == 0, "a refused sort holds nothing"
    stalled = [_answer(soup, "SELECT a FROM s ORDER BY a", ReadBudget(shared=shared)).batches(10) for _ in range(20)]
    for batches in stalled:
        next(batches)
    assert shared.used == 20 * 80_000
    with pytest.raises(ResourceExhausted, match=r"together may hold 2,000,000 \(sorts_mib\)") as caught:
        _answer(soup, sql, ReadBudget(shared=shared)).to_table()
    assert caught.value.reason == "SORTS_BUDGET"
    for batches in stalled:
        batches.close()
    assert shared.used == 0
    assert _answer(soup, sql, ReadBudget(shared=shared)).to_table().num_rows == 10_000


def test_distinct_and_limit_hold_what_can_still_be_in_the_answer() -> None:
    soup = _soup(5_000, 3, SMALL)
    for sql in (
        "SELECT DISTINCT a % 50 AS b, t LIKE '%7%' AS c FROM s",
        "SELECT DISTINCT a % 50 AS b FROM s ORDER BY b DESC LIMIT 7",
        "SELECT a, t FROM s ORDER BY a % 100, a DESC LIMIT 40",
        "SELECT a % 3 AS b FROM s ORDER BY b LIMIT 90",
        "SELECT DISTINCT a FROM s LIMIT 5",
        "SELECT a FROM s ORDER BY t LIMIT 0",
    ):
        expected = _answer(soup, sql).to_table()
        assert _answer(soup, sql, sort_rows=200).to_table().equals(expected), sql
        limit = _answer(soup, sql, ReadBudget(sort_bytes=60_000))
        assert limit.to_table().equals(expected), sql
    for sql in ("SELECT a FROM s ORDER BY a", "SELECT DISTINCT a FROM s"):
        with pytest.raises(ResourceExhausted, match=r"200 that one invocation may hold \(sort_rows\)"):
            _answer(soup, sql, sort_rows=200).to_table()


@pytest.mark.parametrize(
    "sql", ["SELECT a FROM s ORDER BY a LIMIT 0", "SELECT DISTINCT t FROM s ORDER BY t DESC LIMIT 0"]
)
def test_no_rows_of_many_are_no_rows(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "_REDUCED_FROM", 16)
    budget = ReadBudget()
    assert _answer(_soup(130, 9, SMALL), sql, budget).to_table().num_rows == 0
    assert budget.held == 0


def test_a_sort_ends_between_two_pieces_when_its_caller_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_keys, "PIECE", 1_000)
    soup, asked = _soup(3_000, 10, SMALL), 0

    def ask() -> None:
        nonlocal asked
        asked += 1

    assert _answer(soup, "SELECT a FROM s ORDER BY t, a", ReadBudget(ask)).to_table().num_rows == 3_000
    for ends_at in range(1, asked + 1):
        left = ends_at

        def leave() -> None:
            nonlocal left
            left -= 1
            if not left:
                raise ReadEnded

        budget = ReadBudget(leave)
        with pytest.raises(ReadEnded):
            _answer(soup, "SELECT a FROM s ORDER BY t, a", budget).to_table()
        assert budget.held == 0
    assert asked > 30


def _column(rng: np.random.Generator, kind: DataType, rows: int) -> Column:
    valid = rng.random(rows) < 0.9 if rng.random() < 0.5 else None
    if kind is TEXT:
        texts = [None if valid is not None and not v else "ab\0é"[: rng.integers(0, 5)] for v in rng.random(rows) < 0.9]
        return column_from_arrow("t", TEXT, pa.array(texts, pa.string()))
    if kind is DOUBLE:
        values = rng.choice([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan], rows)
    else:
        values = rng.integers(-(2**63), 2**63 - 1, rows) if rng.random() < 0.3 else rng.integers(-3, 3, rows)
    return Column(kind, values if valid is None else np.where(valid, values, 0).astype(values.dtype), valid)


def _key(value: object) -> tuple[bool, object]:
    """As Python compares: NaN is the greatest, text by its bytes."""
    if isinstance(value, float):
        return value != value, 0.0 if value != value else value
    return False, value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("piece", [40, sort_keys.PIECE])
def test_rows_are_sorted_and_told_apart_as_their_values_are(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(sort_keys, "PIECE", piece)
    rng = np.random.default_rng(3)
    for _ in range(60):
        rows = int(rng.choice([1, 2, 40, 300]))
        columns = [_column(rng, [BIGINT, DOUBLE, TEXT][rng.integers(0, 3)], rows) for _ in range(rng.integers(1, 4))]
        order = [OrderKey(AttributeRef(c.type, 0, "c"), *(rng.random(2) < 0.5).tolist()) for c in columns]
        values = [column.to_list() for column in columns]
        expected = list(range(rows))
        for one, key in zip(reversed(values), reversed(order), strict=True):
            known = [k for k in expected if one[k] is not None]
            known.sort(key=lambda k, one=one: _key(one[k]), reverse=key.descending)
            nulls = [k for k in expected if one[k] is None]
            expected = [*nulls, *known] if key.nulls_first else [*known, *nulls]
        assert sorted_rows(columns, order, UNBOUNDED).tolist() == expected
        seen: dict[tuple[object, ...], int] = {}
        for k in range(rows):
            seen.setdefault(tuple(None if one[k] is None else _key(one[k]) for one in values), k)
        assert distinct_rows(columns, UNBOUNDED).tolist() == list(seen.values())


TOPS = (
    "SELECT a FROM s ORDER BY repeat(t, 200) LIMIT 3",
    "SELECT t FROM s GROUP BY t ORDER BY repeat(t, 200) DESC LIMIT 3",
    "SELECT DISTINCT repeat(left(t, 8), 250) AS x FROM s",
    "SELECT DISTINCT left(repeat(t, 200), 1900) AS x FROM s LIMIT 2",
    "SELECT x.a FROM s x JOIN s y ON x.a = y.a ORDER BY repeat(y.t, 200) LIMIT 3 OFFSET 2",
)


@pytest.mark.long
@pytest.mark.parametrize("sql", TOPS)
def test_a_top_of_computed_texts_holds_rows_that_it_shows_and_a_piece(sql: str) -> None:
    """20,000 keys of 2,000 bytes, 40 MB, in a room of 4: rows that cannot be in the answer are dropped in between."""
    soup = _soup(20_000, 10)
    wanted = _answer(soup, sql).to_table()
    budget = ReadBudget(sort_bytes=4 << 20)
    gc.collect()
    tracemalloc.start()
    try:
        answer = _answer(soup, sql, budget).to_table()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.equals(wanted)
    assert budget.held == budget.grouped == 0
    assert peak < 8 << 20, f"{peak:,} bytes"


def test_a_top_charges_what_it_holds_and_drops_what_is_of_no_use() -> None:
    key = AttributeRef(TEXT, 0, "t")
    texts = column_from_arrow("t", TEXT, pa.array([f"{n:0400d}" for n in range(500)]))
    budget = ReadBudget(sort_bytes=1_000_000)
    sorting = Sorting((), (OrderKey(key, False, False),), 5, budget, 10_000)
    most = 0
    for start in range(0, 40 * 500, 500):
        sorting.add_all(np.arange(start, start + 500), iter([[texts.slice(0, 250)], [texts.slice(250, 500)]]))
        most = max(most, budget.held)
    assert sorting.reduced > 10
    assert most < 400_000
    assert sorting.order().tolist() == [0, 500, 1_000, 1_500, 2_000]
    sorting.close()
    assert budget.held == 0
    with pytest.raises(ResourceExhausted, match=r"sort_mib"):  # a key that does not fit is refused before it is held
        Sorting((), (OrderKey(key, False, False),), 5, ReadBudget(sort_bytes=50_000), 10_000).add(
            np.arange(500), [texts]
        )


def test_keys_come_in_pieces_that_the_room_has_place_for() -> None:
    key = AttributeRef(BIGINT, 0, "a")
    order = (OrderKey(key, False, False),)
    assert Sorting((), order, 5, ReadBudget(), 100).rows_at_once(65_536) == 65_536
    assert Sorting((), order, 5, ReadBudget(sort_bytes=64 << 20), 100).rows_at_once(65_536) == 65_536
    assert Sorting((), order, 5, ReadBudget(sort_bytes=160_000), 100).rows_at_once(65_536) == 10_000 // 17
    texts = Sorting((), order, 5, ReadBudget(sort_bytes=160_000), 100).texts(EngineConfig().texts)
    assert (texts.of(2), texts.of(1)) == (10_000, EngineConfig().texts.together)


GROUPED = (
    "SELECT t, max(repeat(t, 200)) AS m FROM s GROUP BY t",
    "SELECT count(*) AS n FROM s GROUP BY repeat(t, 200)",
    "SELECT quantile_disc(repeat(t, 200), 0.5) AS m FROM s",
)


@pytest.mark.long
@pytest.mark.parametrize("sql", GROUPED)
def test_groups_of_computed_texts_are_refused_when_their_room_is_full(sql: str) -> None:
    """40 MB of texts in a room of 4: they come in pieces that are small beside the room."""
    soup = _soup(20_000, 10)
    assert _answer(soup, sql).to_table().num_rows in (1, 20_000)
    budget = ReadBudget(sort_bytes=4 << 20)
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(ResourceExhausted) as refused:
            _answer(soup, sql, budget).to_table()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.reason == "GROUP_BUDGET"
    assert budget.grouped == 0
    assert peak < 16 << 20, f"{peak:,} bytes"
