"""Key indexes of closed chunks: a look-up finds what a search finds, whether indexes are there, made or dropped."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.figures.bill import memory_bill
from psoup.config import EngineConfig, Shape
from psoup.data.chunk import ChunkView
from psoup.data.key_index import USELESS, KeyIndex, key_index
from psoup.data.key_room import KeyRoom
from psoup.data.places import Places
from psoup.errors import Corrupt
from psoup.local import LocalPSoup
from psoup.matching.search import Search
from psoup.model import BIGINT, DATE, DOUBLE, TEXT
from psoup.plan.factors import Factor
from psoup.values.columns import Array, Column
from psoup_testing.histories.stems import random_factors, random_piece
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

ALWAYS, NEVER = Shape(key_probes=1), Shape(key_probes=1 << 60)
RNG = np.random.default_rng(4)


def texts(*values: str) -> Column:
    data = "".join(values).encode()
    ends = np.cumsum([0, *(len(value.encode()) for value in values)])
    return Column(TEXT, ends.astype(np.int64), None, np.frombuffer(data, np.uint8).copy())


COLUMNS = {
    "close": Column(BIGINT, RNG.integers(0, 70, 300)),
    "apart": Column(BIGINT, np.concatenate([RNG.integers(-(2**63), 2**63 - 1, 300), [-(2**63), 2**63 - 1]])),
    "near and far": Column(BIGINT, np.concatenate([np.arange(99), (1 << 40) + np.arange(99)])),
    "a sentinel": Column(BIGINT, np.concatenate([[0], 10**18 + np.arange(500)])),
    "with NULL": Column(BIGINT, RNG.integers(0, 10**6, 300), RNG.random(300) < 0.5),
    "DOUBLE": Column(DOUBLE, np.concatenate([RNG.normal(0, 1, 90), [np.nan, np.inf, -np.inf, 0.0, -0.0]])),
    "DATE": Column(DATE, RNG.integers(-900, 900, 200).astype(np.int32)),
    "TEXT": texts(*(f"né{n % 90}" for n in range(300)), ""),
    "one row": Column(BIGINT, np.array([7])),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_each_row_with_a_value_is_in_its_place(name: str) -> None:
    column = COLUMNS[name]
    index = key_index(column)
    assert index is not None
    index.check(column)
    assert index.exact == (name not in ("apart", "near and far", "a sentinel", "DOUBLE", "TEXT"))
    if len(column) > 1:
        index.rows[:2] = index.rows[:2][::-1].copy()
        with pytest.raises(Corrupt, match=r"not in order|begins elsewhere|tag is another"):
            index.check(column)


def test_a_column_of_few_values_or_none_has_no_index() -> None:
    assert key_index(Column(BIGINT, np.arange(1_000) % 20)) is None
    assert key_index(Column(BIGINT, np.arange(9), np.zeros(9, np.bool_))) is None
    room, chunk = (
        KeyRoom(1 << 30, ALWAYS),
        ChunkView(0, Places(0, 99), np.arange(99), (Column(BIGINT, np.zeros(99, np.int64)),), 0),
    )
    assert room.probed(chunk, 0, 1) and not room.make(chunk, 0)
    assert chunk.caches.keyed == {0: USELESS} and not room.probed(chunk, 0, 1)


@pytest.mark.parametrize("seed", swept(range(4), fast=1))
def test_what_is_looked_up_is_what_a_search_finds(seed: int) -> None:
    """Also where few values differ, and for more rows than are worth it."""
    rng = random.Random(seed)
    looked_up = hits = 0
    for _ in range(150):
        piece = random_piece(rng, rng.choice([1, 63, 200]), 0)
        chunk = ChunkView(0, Places(int(piece.ids[0]), len(piece)), piece.times, piece.columns, 0)
        factors = tuple(f for _ in range(rng.randint(1, 2)) for f in random_factors(rng))
        part = (chunk, *sorted(rng.sample(range(len(chunk) + 1), 2)))
        wanted = Search(factors).find(*part)
        room = KeyRoom(1 << 30, Shape(key_probes=1, keys_at_once=99, key_values=1, key_share=1))
        for column in range(len(piece.columns)):
            room.make(chunk, column)
        found, left = Search(factors, keys=room).look_up([part])
        offsets, errors = wanted.offsets.tolist(), wanted.errors
        if not left:
            assert [(own.offsets.tolist(), own.errors) for _, own in found] == [(offsets, errors)] * (
                bool(offsets) or errors > 0
            ), factors
            looked_up += 1
            hits += bool(offsets)
        again = Search(factors, keys=room)
        assert [(own.offsets.tolist(), own.errors) for own in (again.find(*part), again.find(*part))] == [
            (offsets, errors)
        ] * 2
    assert looked_up > 15 and hits > 2


def test_the_column_that_leaves_the_fewest_rows_is_looked_up() -> None:
    size = 4_096
    columns = (Column(BIGINT, np.arange(size) % 256), Column(BIGINT, np.arange(size)))
    chunk, room = ChunkView(0, Places(0, size), np.arange(size), columns, 0), KeyRoom(1 << 30, ALWAYS)
    room.make(chunk, 0)
    both = Search(factors_of("a = 7 AND b IN (7, 9, 263)"), keys=room)
    (found,), left = both.look_up([(chunk, 0, size)])
    assert (found[1].offsets.tolist(), left) == ([7, 263], [])
    room.make(chunk, 1)
    (found,), left = both.look_up([(chunk, 8, size)])
    assert (found[1].offsets.tolist(), left) == ([263], [])
    many = Search(factors_of("a < 3"), keys=room)
    assert many.look_up([(chunk, 0, size)]) == ([], [0]), "more than a few rows are found sooner by a search"


def factors_of(where: str) -> tuple[Factor, ...]:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT, b BIGINT)")
    query = soup.register(f"SELECT * FROM s WHERE {where}")
    return soup.engine.snapshot().query(query, soup.tenant).query.factors


# In an engine --------------------------------------------------------------------------------------------

CREATE = "CREATE STREAM s (a BIGINT, b BIGINT, t TEXT, d DOUBLE)"


def table(start: int, count: int, rng: Any = None) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table(
        {
            "a": pa.array(numbers * 7 % 1_000, mask=numbers % 11 == 0),
            "b": numbers,
            "t": [f"t{n % 97}" if n % 13 else None for n in numbers.tolist()],
            "d": np.where(numbers % 17 == 0, np.nan, np.where(numbers % 19 == 0, -0.0, numbers / 3)),
        }
    )


def filled(shape: Shape = ALWAYS, rows: int = 1_000, **sizes: int) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=128, shape=shape, **sizes), verify="all")
    soup.execute(CREATE)
    for start in range(0, rows, 100):
        soup.push("s", table(start, 100))
    soup.maintain()
    return soup


def indexes(soup: LocalPSoup) -> list[KeyIndex]:
    (view,) = soup.engine.snapshot().by_id.values()
    chunks = [entry.data for entry in view.chunks if isinstance(entry.data, ChunkView)]
    return [index for chunk in chunks for index in chunk.caches.keyed.values() if isinstance(index, KeyIndex)]


def room_of(soup: LocalPSoup) -> KeyRoom:
    (view,) = soup.engine.snapshot().by_id.values()
    return view.keys


def asked(soup: LocalPSoup, where: str) -> tuple[bytes, int]:
    answer = soup.ask(f"SELECT *, _id FROM s WHERE {where}")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, answer.schema) as writer:
        writer.write_table(answer.to_table().combine_chunks())
    return sink.getvalue().to_pybytes(), answer.completeness.errors


def test_a_column_that_is_searched_some_times_has_an_index_and_the_answer_stays() -> None:
    soup = filled(Shape(key_probes=3, keys_at_once=100))
    answers = [asked(soup, "a = 700 AND b > 3") for _ in range(3)]
    assert len(indexes(soup)) == 8, "one for each chunk"
    soup.check()
    assert answers == [asked(soup, "a = 700 AND b > 3")] * 3
    bill = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}["key indexes"]
    assert bill.bytes == bill.reclaimable == room_of(soup).held == sum(index.nbytes for index in indexes(soup)) > 0
    assert bill.count == 1_000


@pytest.mark.parametrize("condition", ["b <> 7", "b IN (0, 2, 2147483648)", "b NOT BETWEEN 3 AND 9"])
def test_rows_of_near_values_in_a_wide_column_come_once_each_time(condition: str) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=ALWAYS), verify="all")
    soup.execute("CREATE STREAM s (i BIGINT, b BIGINT)")
    soup.push("s", pa.table({"i": [0, 1, 2], "b": [2147483648, 0, 2]}))
    soup.maintain()
    for _ in range(4):
        assert soup.ask(f"SELECT i FROM s WHERE {condition}").to_table().column("i").to_pylist() == [0, 1, 2]
        counted = soup.ask(f"SELECT count(*) AS n, sum(i) AS t FROM s WHERE {condition}").to_table()
        assert [int(column[0].as_py()) for column in counted.columns] == [3, 3]


def test_a_range_that_narrow_codes_find_as_soon_has_no_index() -> None:
    size = 65_536
    columns = (Column(BIGINT, np.arange(size) * 9 % 256), Column(BIGINT, np.arange(size) * 9 % size))
    chunk, room = ChunkView(0, Places(0, size), np.arange(size), columns, 0), KeyRoom(1 << 30, ALWAYS)
    for where in ("a = 7", "b BETWEEN 100 AND 400"):
        Search(factors_of(where), keys=room).find(chunk, 0, size)
    assert not chunk.caches.keyed
    Search(factors_of("a < 99 AND b BETWEEN 100 AND 110"), keys=room).find(chunk, 0, size)
    assert list(chunk.caches.keyed) == [1]
    assert Search(factors_of("b < 400 AND a = 7"), keys=room).look_up([(chunk, 0, size)])[1] == []


def test_one_read_makes_some_indexes_at_most() -> None:
    soup = filled(Shape(key_probes=1, keys_at_once=3))
    made = []
    for _ in range(4):
        asked(soup, "t = 't5'")
        made.append(len(indexes(soup)))
    assert made == [3, 6, 8, 8]


def _condition(rng: random.Random) -> str:
    point = rng.randrange(1_000)
    return rng.choice(
        [
            f"a = {point}",
            f"a IN ({point}, {point + 7}, 3)",
            f"b BETWEEN {point} AND {point + 4}",
            f"t = 't{point % 97}'",
            f"t IN ('t{point % 97}', 't1', 'none')",
            f"d = {point}",
            "d = 'nan'::DOUBLE",
            "d = 0.0",
            f"d > {point / 3}",
            f"10 / (b - {point}) > 0",
            f"CAST(t AS BIGINT) > {point}",
            f"(a = {point} OR b = {point})",
            "a IS NULL",
        ]
    )


@pytest.mark.parametrize(("seed", "steps"), swept([(0, 20), (1, 60), (2, 60)], fast=1))
def test_answers_are_the_same_bytes_with_indexes_without_and_when_they_go_at_any_time(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    soups = [filled(shape, 500) for shape in (NEVER, ALWAYS, ALWAYS)]
    looked_up = 0
    for step in range(steps):
        where = " AND ".join(_condition(rng) for _ in range(rng.randint(1, 3)))
        answers = [again(asked, soup, where) for soup in soups]
        assert answers[0] == answers[1] == answers[2], where
        looked_up = max(looked_up, len(indexes(soups[1])))
        if rng.random() < 0.3:
            room_of(soups[2]).give_up(rng.choice([1, 5_000, 1 << 60]))
        if rng.random() < 0.2:
            for soup in soups:
                soup.push("s", table(500 + 60 * step, 60))
                if step % 2:
                    soup.maintain()
    assert looked_up > 5 and not indexes(soups[0])


def test_an_index_that_was_dropped_is_not_taken_for_an_empty_one() -> None:
    soup = filled()
    wheres = ("a = 700", "t = 't5'", "b IN (3, 300)")
    answers = [asked(soup, where) for where in wheres]
    assert [asked(soup, where) for where in wheres] == answers
    assert indexes(soup)
    room_of(soup).give_up(1 << 60)
    gc.collect()
    assert not indexes(soup) and room_of(soup).held == 0
    assert [asked(soup, where) for where in wheres] == answers
    assert [len(pa.ipc.open_stream(answer).read_all()) for answer, _ in answers] == [1, 10, 2]


def test_a_stale_index_is_not_used_for_tuples_that_came_later() -> None:
    """The open chunk is searched for what is asked, too: its index is that of one length."""
    soup = filled(rows=500)
    for count in range(4):
        assert soup.ask("SELECT b FROM s WHERE t = 'new'").matched == count
        assert soup.ask("SELECT b FROM s WHERE t = 'new'").matched == count
        soup.push("s", pa.table({"a": [1], "b": [5_000 + count], "t": ["new"], "d": [0.0]}))
    soup.execute("ALTER STREAM s ADD COLUMN t2 TEXT")
    soup.push("s", pa.table({"a": [1], "b": [6_000], "t": ["new"], "d": [0.0], "t2": ["new"]}))
    for _ in range(3):
        assert soup.ask("SELECT b FROM s WHERE t = 'new'").matched == 5
        assert soup.ask("SELECT b FROM s WHERE t2 = 'new'").matched == 1
        assert soup.ask("SELECT b FROM s WHERE t2 IS NULL AND t = 'new'").matched == 4
    soup.check()


def test_indexes_leave_with_their_chunks() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=128, shape=ALWAYS), verify="all")
    soup.execute(f"{CREATE} RETENTION 300 ROWS")
    for start in range(0, 1_000, 100):
        soup.push("s", table(start, 100))
        soup.maintain()
        asked(soup, "a = 700")
    gc.collect()
    assert room_of(soup).held == sum(index.nbytes for index in indexes(soup))
    assert 0 < len(indexes(soup)) <= 4


def test_indexes_leave_before_results() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024, memory_bytes=1_000_000, results_bytes=200_000, shape=ALWAYS))
    soup.execute("CREATE STREAM s (a BIGINT, b BIGINT)")
    soup.push("s", pa.table({"a": np.arange(4_096) * 7 % 1_000, "b": np.arange(4_096)}))
    soup.maintain()
    for _ in range(2):
        assert soup.ask("SELECT b FROM s WHERE a = 700").matched == 4
    held, limit, queries = room_of(soup).held, room_of(soup).limit, 0
    assert 0 < held < limit < 75_000
    while room_of(soup).held == held:
        more = 2 if queries else 70  # near the limit at once, and then up to it in small steps
        soup.register_many("SELECT b FROM s WHERE b > ?", [(3_000 + n,) for n in range(queries, queries + more)])
        queries += more
        soup.maintain()
        gc.collect()
    (view,) = soup.engine.snapshot().by_id.values()
    assert not any(entry.results.evicted for entry in view.chunks)
    assert soup.engine.bill()["sealed_results_bytes"] + held > 150_000 > 0 == room_of(soup).limit
    for _ in range(2):
        assert soup.ask("SELECT b FROM s WHERE a = 700").matched == 4


def chunk(number: int) -> ChunkView:
    values: Array = np.random.default_rng(number).integers(0, 10**6, 256)
    return ChunkView(number, Places(0, 256), np.arange(256), (Column(BIGINT, values),), 0)


def test_an_index_gives_way_to_another_only_if_it_was_not_used_of_late() -> None:
    chunks = [chunk(number) for number in range(6)]
    size = max(index.nbytes for own in chunks if (index := key_index(own.columns[0])) is not None)
    room = KeyRoom(3 * size, ALWAYS)
    for own in chunks[:3]:
        room.make(own, 0)
    room.make(chunks[3], 0)
    assert [0 in own.caches.keyed for own in chunks] == [True] * 3 + [False] * 3, "all were just made"
    used = chunks[1].caches.keyed[0]
    assert isinstance(used, KeyIndex)
    used.used = True
    room.make(chunks[3], 0)
    assert [0 in own.caches.keyed for own in chunks] == [False, True, True, True, False, False]
    assert room.held <= room.limit
    room.bound(0)
    room.make(chunks[4], 0)
    assert 0 not in chunks[4].caches.keyed
    del used, own
    chunks.clear()
    gc.collect()
    assert room.held == 0
