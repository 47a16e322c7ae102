"""The room of a table of answers: what a piece holds is charged before it is made; what does not fit is halved."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer import piece_room, table_rows
from psoup.answer import table as table_module
from psoup.answer.invoke import invoke
from psoup.answer.piece_room import PieceRoom
from psoup.answer.table import invoke_table
from psoup.answer.table_batches import PLACE, BatchLimit, batches_of, by_place, slices_of
from psoup.errors import ResourceExhausted
from psoup.execution.select import many_matches
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT
from psoup.published.snapshot import Snapshot
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_service.host.shared_bytes import SharedBytes
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.tables import PLAIN, SMALL, Form, check_as_single, given_up, lived
from psoup_testing.suite.sweeps import swept

TEXTS = (
    PLAIN,
    Form("max(t) AS m, sum(v) AS s, count(*) AS n", ends=("", " HAVING count(*) > 2"), alone=("",)),
    Form("first(t) || 'abc' AS f, arg_max(t, v) AS w, avg(v) AS a", ends=("",), alone=("",)),
    Form("t, max(t || k) AS m, sum(v) AS s", " GROUP BY t", ("", " ORDER BY m DESC LIMIT 2"), (" HAVING sum(v) > 1",)),
    Form("quantile_disc(t, 0.3) AS q, count(DISTINCT t) AS d, approx_count_distinct(k) AS a", alone=("",)),
    Form("v, repeat(t, 9) AS t", "", (" ORDER BY repeat(t, 5), k, v LIMIT 2", ""), (" LIMIT 3 OFFSET 1",)),
    Form("DISTINCT t, k % 2 AS m", "", ("", " ORDER BY t DESC NULLS FIRST"), ("",)),
    Form("stddev(v) AS s, last(t) AS l", ends=("",), alone=("",)),
)
PLACES = frozenset(
    {
        "lines",  # pairs of clauses and tuples
        "__init__",  # states of groups without a row
        "_begin",  # texts that a state takes up
        "add",  # arguments of the matches of a chunk
        "columns",  # keys and arguments of all matches
        "_groups",  # numbers of groups
        "_measures",  # states of groups by key
        "keys_of",  # keys of groups
        "arranged",  # ranks of rows that are sorted
        "shown",  # measures of a table of groups
        "computed",  # the SELECT list over that table
        "_of_each",  # rows of a clause that several queries have
        "compute",  # columns of all rows of a set
        "_lines",  # places of rows of several sets
    }
)
"""The functions that charge the room, and find it full."""


def _caller() -> str:
    """The name of the function that charges the room."""
    frame = sys._getframe(2)
    while frame.f_code.co_name in ("hold", "_hold", "<lambda>") and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name


class Full:
    """A room that each function finds full the first time that it charges it, whatever the size."""

    def __init__(self) -> None:
        self.calls = Counter[str]()
        self._hold = PieceRoom.hold

    def hold(self, room: PieceRoom, size: int) -> None:
        """Take the place of `PieceRoom.hold`."""
        name = _caller()
        self.calls[name] += 1
        if self.calls[name] == 1:
            raise TooManyPairs
        self._hold(room, size)


def _checked(snapshot: Snapshot, ids: Array) -> int:
    """Check a table against the single answers, and that nothing stays charged; how often it was halved."""
    budget = ReadBudget()
    table = invoke_table(snapshot, ids, tenant=DEFAULT_TENANT, now=0, budget=budget)
    batches = list(table.batches(max_bytes=700))
    assert all(batch.num_rows == 1 or batch.nbytes <= 700 for batch in batches)
    check_as_single(snapshot, table, pa.Table.from_batches(batches, table.schema), ids.tolist(), None)
    assert budget.joined == budget.grouped == budget.held == 0
    return table.halved


def _tiny(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(piece_room, "_MOST", most)
    monkeypatch.setattr(piece_room, "_LEAST", 1)
    monkeypatch.setattr(table_module, "_FEW", 1)


def _halved(monkeypatch: pytest.MonkeyPatch, seed: int) -> Counter[str]:
    """Check a table of a form in tiny rooms. Returns how often each place charged a room that it found full once."""
    rng, form = np.random.default_rng(seed), TEXTS[seed]
    soup, queries = lived(70 + seed, form)
    ids = np.repeat(rng.choice(queries, 40), rng.integers(1, 4, 40))
    snapshot = soup.engine.snapshot()
    snapshot = given_up(snapshot, rng) if seed % 2 else snapshot
    halved = 0
    for most in (900, 7_000):
        _tiny(monkeypatch, most)
        halved += _checked(snapshot, ids)
    assert halved, form
    with monkeypatch.context() as patch:
        _tiny(patch, 1 << 20)
        full = Full()
        patch.setattr(PieceRoom, "hold", lambda room, size: full.hold(room, size))
        assert _checked(snapshot, ids), form
    return full.calls


def test_a_table_of_groups_in_a_tiny_room_is_the_single_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(_halved(monkeypatch, 3)) >= {"lines", "_groups", "_measures", "keys_of"}


@pytest.mark.long
def test_a_table_in_a_tiny_room_is_the_single_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place that charges the room finds it full, and the piece is halved."""
    places = Counter[str]()
    for seed in range(len(TEXTS)):
        places += _halved(monkeypatch, seed)
    assert set(places) >= PLACES, PLACES - set(places)


@pytest.mark.long
def test_joins_in_a_tiny_room_are_the_single_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    soup, rng, places = LocalPSoup(SMALL), np.random.default_rng(5), Counter[str]()
    for name in ("r", "s"):
        soup.execute(f"CREATE STREAM {name} (k BIGINT, u BIGINT, t TEXT)")
        texts = [f"{name}{i % 17:07d}" for i in range(300)]
        soup.push(name, pa.table({"k": rng.integers(0, 90, 300), "u": rng.integers(0, 20, 300), "t": texts}))
    for show in ("a.t, b.t || a.t AS w", "max(a.t || b.t) AS m, count(*) AS n"):
        sql = f"SELECT {show} FROM r a JOIN s b ON a.k = b.k WHERE a.u = ?"
        ids = np.array(soup.register_many(sql, pa.table({"p": np.arange(30) % 23})))
        _tiny(monkeypatch, 20_000)
        assert _checked(soup.engine.snapshot(), ids)
        with monkeypatch.context() as patch:
            _tiny(patch, 1 << 22)
            full = Full()
            patch.setattr(PieceRoom, "hold", lambda room, size, full=full: full.hold(room, size))
            assert _checked(soup.engine.snapshot(), ids)
            places += full.calls
    assert {"found", "columns", "_measures"} <= set(places), places


LONG = {
    "max": "SELECT max(t) AS m FROM s WHERE k >= ?",
    "plain": "SELECT t FROM s WHERE k >= ?",
    "grouped": "SELECT k, max(t) AS m FROM s WHERE k >= ? GROUP BY k",
    "median": "SELECT quantile_disc(t, 0.5) AS m FROM s WHERE k >= ?",
    "order": "SELECT t FROM s WHERE k >= ? ORDER BY t LIMIT 1",
    "distinct": "SELECT DISTINCT t FROM s WHERE k >= ?",
    "key": "SELECT t, count(*) AS n FROM s WHERE k >= ? GROUP BY t",
    "made": "SELECT repeat('abcdefghij', 5000) || k AS m FROM s WHERE k >= ?",
    "join": "SELECT a.t FROM s a JOIN s b ON a.k = b.k WHERE a.k >= ?",
    "joined": "SELECT max(a.t) AS m FROM s a JOIN s b ON a.k = b.k WHERE a.k >= ?",
}


def _peak(batches: Iterator[pa.RecordBatch]) -> tuple[int, int, int]:
    """The rows of some batches, the bytes of the largest, and the most bytes that Python and Arrow have meanwhile."""
    rows = largest = arrow = 0
    gc.collect()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        for batch in batches:
            rows, largest = rows + batch.num_rows, max(largest, batch.serialize().size)
            arrow = max(arrow, pa.total_allocated_bytes() - before)
        return rows, largest, tracemalloc.get_traced_memory()[1] + arrow
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("form", "same"), swept([*((form, False) for form in LONG), ("max", True), ("plain", True)], fast=(8,))
)
def test_a_long_text_that_many_queries_show_takes_the_memory_of_a_piece(form: str, same: bool) -> None:
    """8 MB of answers in a room of 1 MiB; `same`: all of the queries have one clause."""
    soup, count = LocalPSoup(SMALL), 160
    soup.execute("CREATE STREAM s (k BIGINT, t TEXT)")
    ids = soup.register_many(LONG[form], pa.table({"p": np.arange(count) * (not same)}))
    soup.push("s", pa.table({"k": [10**6], "t": ["x" * 50_000]}))
    snapshot = soup.engine.snapshot()

    def batches() -> Iterator[pa.RecordBatch]:
        budget = ReadBudget(sort_bytes=1 << 20)
        table = invoke_table(snapshot, np.array(ids), tenant=DEFAULT_TENANT, now=0, budget=budget)
        yield from table.batches(max_bytes=200_000)
        assert not table.failures()
        assert budget.joined == 0

    assert sum(batch.num_rows for batch in batches()) == count, "compiled"
    rows, largest, peak = _peak(batches())
    assert rows == count
    assert largest < 210_000
    assert peak < 4 << 20, f"{peak:,} bytes"


@pytest.mark.long
def test_rows_of_several_sets_take_the_memory_of_a_piece() -> None:
    soup, count = LocalPSoup(SMALL), 80
    soup.execute("CREATE STREAM s (k BIGINT, t TEXT)")
    values = pa.table({"p": np.arange(count)})
    sets = [soup.register_many(f"SELECT t || '{end}' AS t FROM s WHERE k >= ?", values) for end in "ab"]
    ids = np.stack(sets, axis=1).reshape(-1)
    soup.push("s", pa.table({"k": [10**6], "t": ["x" * 50_000]}))
    snapshot, budget = soup.engine.snapshot(), ReadBudget(sort_bytes=1 << 20)
    table = invoke_table(snapshot, ids, tenant=DEFAULT_TENANT, now=0, budget=budget)
    rows, largest, peak = _peak(table.batches(max_bytes=200_000))
    assert (rows, table.failures()) == (2 * count, [])
    assert largest < 210_000
    assert peak < 4 << 20, f"{peak:,} bytes"


@pytest.mark.long
def test_states_of_many_queries_take_the_memory_of_a_piece() -> None:
    """8,000 queries times 60 sums have 12 MB of states; the first piece is charged before they are made."""
    soup, count = LocalPSoup(SMALL), 8_000
    soup.execute("CREATE STREAM s (k BIGINT, a BIGINT)")
    sums = ", ".join(f"sum(a + {i}) AS s{i}" for i in range(60))
    ids = soup.register_many(f"SELECT {sums} FROM s WHERE k = ?", pa.table({"p": range(count)}))
    soup.push("s", pa.table({"k": range(60), "a": range(60)}))
    snapshot, budget = soup.engine.snapshot(), ReadBudget(sort_bytes=1 << 21)
    table = invoke_table(snapshot, np.array(ids), tenant=DEFAULT_TENANT, now=0, budget=budget)
    rows, _, peak = _peak(table.batches(max_bytes=200_000))
    assert rows == count
    assert peak < 6 << 20, f"{peak:,} bytes"


def test_a_row_that_is_too_large_fails_its_query_alone() -> None:
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (k BIGINT, t TEXT)")
    made = ", ".join(f"repeat(t, 20000) || '{i}' AS c{i}" for i in range(80))
    ids = soup.register_many(f"SELECT {made} FROM s WHERE k = ?", pa.table({"p": range(20)}))
    soup.push("s", pa.table({"k": range(20), "t": ["x" * (50 if k == 7 else 1) for k in range(20)]}))
    table = invoke_table(soup.engine.snapshot(), np.array(ids), tenant=DEFAULT_TENANT, now=0)
    places = table.to_table().column(PLACE).to_pylist()
    assert places == [k for k in range(20) if k != 7]
    (failed,) = table.failures()
    assert (failed.error.reason, failed.places.tolist()) == ("ROW_BUDGET", [7])


def test_pairs_that_are_evaluated_for_the_call_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clauses that were not evaluated over a chunk may match all of it: as many pairs as clauses times tuples."""
    monkeypatch.setattr(many_matches, "_RESULT_BYTES", 1)
    monkeypatch.setattr(table_module, "_PAIRS", 700)
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (k BIGINT, t TEXT)")
    ids = soup.register_many("SELECT k FROM s WHERE k >= ?", pa.table({"p": range(90)}))
    soup.push("s", pa.table({"k": [*range(64)] * 4, "t": ["x"] * 256}))
    soup.maintain()
    whole = soup.engine.snapshot()
    snapshot = given_up(whole, np.random.default_rng(0))
    table = again(invoke_table, snapshot, np.array(ids), tenant=DEFAULT_TENANT, now=0)
    check_as_single(snapshot, table, table.to_table(), list(ids), None)
    assert table.halved


def test_a_full_service_refuses_the_call() -> None:
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT)")
    ids = np.array(soup.register_many("SELECT a FROM s WHERE a > ?", pa.table({"p": range(90)})))
    soup.push("s", pa.table({"a": range(200)}))
    shared = SharedBytes(1_000)
    with pytest.raises(ResourceExhausted) as refused:
        invoke_table(
            soup.engine.snapshot(), ids, tenant=DEFAULT_TENANT, now=0, budget=ReadBudget(shared=shared)
        ).to_table()
    assert (refused.value.reason, shared.used) == ("SORTS_BUDGET", 0)


def _batch(rng: np.random.Generator, places: list[int]) -> pa.RecordBatch:
    texts = ["x" * int(size) for size in rng.choice([0, 3, 40, 900], len(places))]
    some = rng.random(len(places)) < 0.2
    columns = {PLACE: pa.array(places, pa.int64()), "t": pa.array(texts, pa.string(), mask=some), "b": pa.array(some)}
    return pa.record_batch({**columns, "n": pa.array(range(len(places)), pa.int64())})


def test_batches_are_cut_by_rows_and_by_bytes() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        most = BatchLimit(int(rng.integers(1, 40)), int(rng.choice([1, 100, 1_000, 10_000])))
        parts = [_batch(rng, [7] * int(rng.integers(1, 50))).slice(int(rng.integers(0, 3))) for _ in range(5)]
        parts = [part for part in parts if part.num_rows]
        batches = list(batches_of(iter(parts), most))
        assert pa.Table.from_batches(batches).equals(pa.Table.from_batches(parts))
        assert all(batch.num_rows <= most.rows for batch in batches)
        assert all(batch.num_rows == 1 or batch.nbytes <= most.bytes + 64 for batch in batches)
        for part in parts:
            assert [*slices_of(part, BatchLimit(part.num_rows, 1 << 30))] == [part]


def test_rows_of_several_sets_come_by_place_in_few_bytes() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        places, width = np.sort(rng.integers(0, 30, 120)), int(rng.choice([200, 3_000, 10**6]))
        own = rng.integers(0, 3, 30)[places]
        sets = [_batch(rng, places[own == which].tolist()) for which in range(3)]
        asked = 0

        def between(last: int, upto: int, sets: list[pa.RecordBatch] = sets) -> Iterator[pa.RecordBatch]:
            nonlocal asked
            asked += 1
            for one in sets:
                at = one.column(PLACE).to_numpy()
                low, high = np.searchsorted(at, (last, upto), "right").tolist()
                yield one.slice(low, high - low)

        made = pa.Table.from_batches(list(by_place(places, between, BatchLimit(50, width))))
        assert made.column(PLACE).to_pylist() == places.tolist()
        for which, one in enumerate(sets):
            mask = pa.array(own == which)
            assert made.filter(mask).equals(pa.Table.from_batches([one]))
        assert asked <= 120


def test_a_query_alone_is_gathered_in_few_bytes() -> None:
    soup = LocalPSoup(SMALL, VirtualClock(0))
    soup.execute("CREATE STREAM s (k BIGINT, t TEXT)")
    query = soup.register("SELECT k, t FROM s")
    soup.push("s", pa.table({"k": range(60), "t": ["x" * 10_000] * 60}))
    answer = invoke(soup.engine.snapshot(), query, tenant=DEFAULT_TENANT, now=0)
    batches = list(answer.batches(max_bytes=50_000))
    assert sum(batch.num_rows for batch in batches) == 60
    assert max(batch.nbytes for batch in batches) <= 50_000


def test_a_call_that_is_left_gives_back_its_bytes_once() -> None:
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT)")
    ids = np.array(soup.register_many("SELECT a FROM s WHERE a > ?", pa.table({"p": range(90)})))
    soup.push("s", pa.table({"a": range(200)}))
    shared = SharedBytes(10_000_000)
    shared.take(500)
    budget = ReadBudget(shared=shared)
    batches = invoke_table(soup.engine.snapshot(), ids, tenant=DEFAULT_TENANT, now=0, budget=budget).batches(10)
    next(batches)
    assert shared.used > 500
    budget.close()
    batches.close()
    assert shared.used == 500


def test_errors_of_rows_that_are_made_again_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several sets: rows of the first were made when those of the second did not fit beside them."""
    monkeypatch.setattr(table_rows, "_WHOLE_BYTES", 0)
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (k BIGINT, t TEXT)")
    sets = [
        soup.register_many(
            f"SELECT CAST(t AS BIGINT) AS c, t{end} AS t FROM s WHERE k >= ?", pa.table({"p": range(20)})
        )
        for end in ("", " || repeat('y', 90)")
    ]
    soup.push("s", pa.table({"k": [30, 40], "t": ["x" * 10] * 2}))
    ids, snapshot = np.concatenate(sets).reshape(2, 20).T.reshape(-1), soup.engine.snapshot()
    table = invoke_table(snapshot, ids, tenant=DEFAULT_TENANT, now=0)
    whole = pa.Table.from_batches(list(table.batches(max_bytes=300)), table.schema)
    check_as_single(snapshot, table, whole, ids.tolist(), None)
    assert sum(group.select_errors for group in table.groups) == 80
