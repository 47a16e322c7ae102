"""Large sides of joins, reduced by look-ups: answers equal those of whole sides, whatever is indexed or dropped."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig, Shape
from psoup.data.chunk import ChunkView
from psoup.data.key_index import KeyIndex
from psoup.data.key_room import KeyRoom
from psoup.execution.join import lookup_filter
from psoup.execution.select.clause_matches import matches_in, sides_of_join
from psoup.execution.select.match_forms import KeptBits
from psoup.local import LocalPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

CREATE = "(k BIGINT, a BIGINT, t TEXT, d DOUBLE, p DECIMAL(9, 2), on_day DATE)"


def table(rng: random.Random, rows: int, keys: int) -> pa.Table:
    numbers = [rng.randrange(keys) for _ in range(rows)]
    nan = [float("nan"), -0.0, 0.0]
    return pa.table(
        {
            "k": pa.array([None if rng.random() < 0.1 else n for n in numbers], pa.int64()),
            "a": [rng.randrange(10) for _ in numbers],
            "t": pa.array([None if n % 7 == 3 else f"t{n}" for n in numbers], pa.string()),
            "d": [rng.choice(nan) if rng.random() < 0.2 else n / 2 for n in numbers],
            "p": pa.array([n / 4 for n in numbers]).cast(pa.decimal128(9, 2), safe=False),
            "on_day": pa.array(numbers, pa.int32()).cast(pa.date32()),
        }
    )


@contextmanager
def always(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sides are cut whatever their sizes."""
    with monkeypatch.context() as patch:
        patch.setattr(lookup_filter, "_DENSE", 1 << 40)
        rooms = [view.keys for view in soup.engine.snapshot().by_id.values()]
        for room in rooms:
            patch.setattr(room, "shape", replace(room.shape, cut_rows=1, cut_ratio=1, cut_worth=1))
        yield


def filled(rng: random.Random, small: int = 20, large: int = 700, keys: int = 300) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=128, list_limit=4, shape=Shape(key_probes=1)))
    for name, rows in (("r", small), ("s", large), ("u", large // 2)):
        soup.execute(f"CREATE STREAM {name} {CREATE}")
        for start in range(0, rows, 60):
            soup.push(name, table(rng, min(60, rows - start), keys))
    soup.maintain()
    return soup


def room_of(soup: LocalPSoup) -> KeyRoom:
    return soup.engine.snapshot().stream("s", soup.tenant).keys


def indexes(soup: LocalPSoup, stream: str = "s") -> int:
    chunks = [entry.data for entry in soup.engine.snapshot().stream(stream, soup.tenant).chunks]
    return sum(isinstance(own, KeyIndex) for c in chunks if isinstance(c, ChunkView) for own in c.caches.keyed.values())


def answered(soup: LocalPSoup, query: int) -> tuple[bytes, int]:
    answer = again(soup.invoke, query)
    found = answer.to_table().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_table(found)
    return sink.getvalue().to_pybytes(), answer.errors


JOINS = (
    "SELECT r.a, s.a AS b, s._id AS i FROM r, s WHERE r.k = s.k",
    "SELECT r.a, s.a AS b, s._id AS i FROM s, r WHERE r.k = s.k AND s.a < 5",
    "SELECT r.a, s.t, s._id AS i FROM r, s WHERE r.t = s.t AND s.a > 2",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.d = s.d AND s.a <> 3",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.p = s.p AND r.on_day = s.on_day",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.k = s.d",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.d = s.k",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.k = s.p AND s.a > 1",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.p = s.k AND s.a > 1",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.p = s.d",
    "SELECT r.a, s._id AS i FROM r, s WHERE 100 // r.a = s.k",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.k = 100 // s.a",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.k = s.k AND 10 // (s.a - r.a) > 1",
    "SELECT r.a, s._id AS i, u._id AS j FROM r, s, u WHERE r.k = s.k AND s.t = u.t AND u.a < 9",
    "SELECT r.a, s._id AS i, u._id AS j FROM u, r, s WHERE r.k = s.k AND u.k = r.k AND u.d <= s.d",
    "SELECT r.a, s._id AS i FROM r [ROWS 7], s [ROWS 500] WHERE r.k = s.k ORDER BY s._id DESC LIMIT 9",
    "SELECT r.a, s._id AS i FROM r, s WHERE r.k = s.k AND r.a > 900",
)


@pytest.mark.parametrize("seed", swept(range(2), fast=1))
def test_answers_are_the_same_bytes_with_look_ups_and_without(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    soup = filled(rng)
    queries = [soup.register(join) for join in JOINS]
    made = 0
    for step in range(2):
        for query, join in zip(queries, JOINS, strict=True):
            whole = answered(soup, query)
            with always(soup, monkeypatch):
                assert answered(soup, query) == answered(soup, query) == whole, join
                made = max(made, indexes(soup))
                room_of(soup).give_up(rng.choice([0, 1, 3_000, 1 << 60]))
                assert answered(soup, query) == whole, join
        for name, rows in (("r", 3), ("s", 90), ("u", 20)):
            soup.push(name, table(rng, rows, 300))
        if step:
            soup.maintain()
    assert made > 12
    soup.check()


def test_identifiers_of_63_bits_meet_once_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds << 22 and a sequence within the millisecond: near ones share a code of the index."""
    identifiers = (400_000_000_000 + np.arange(800) // 8 * 10_000 << 22) | np.arange(800) % 8
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024, shape=Shape(key_probes=1)))
    soup.execute("CREATE STREAM r (k BIGINT)")
    soup.execute("CREATE STREAM s (k BIGINT, a BIGINT)")
    soup.push("s", pa.table({"k": identifiers, "a": np.arange(800)}))
    soup.push("r", pa.table({"k": identifiers[400:450]}))
    soup.maintain()
    pairs = soup.register("SELECT s.a AS a FROM r, s WHERE r.k = s.k")
    counted = soup.register("SELECT count(*) AS n, sum(s.a) AS t FROM r, s WHERE r.k = s.k")
    with always(soup, monkeypatch):
        for _ in range(4):
            assert sorted(again(soup.invoke, pairs).to_table().column("a").to_pylist()) == list(range(400, 450))
            assert again(soup.invoke, counted).to_table().to_pylist() == [{"n": 50, "t": sum(range(400, 450))}]
    assert indexes(soup) > 0


@pytest.mark.seeded("a key index is that of fewer tuples")
def test_a_stale_index_finds_no_partner_among_later_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = filled(random.Random(1))
    query = soup.register("SELECT s._id AS i FROM r, s WHERE r.k = s.k")
    with always(soup, monkeypatch):
        for count in range(1, 5):
            before = again(soup.invoke, query).to_table().num_rows
            assert again(soup.invoke, query).to_table().num_rows == before
            soup.push("s", pa.table({"k": [1_000 + count], "a": [1], "t": ["x"], "d": [0.0], "on_day": [None]}))
            soup.push("r", pa.table({"k": [1_000 + count], "a": [1], "t": ["x"], "d": [0.0], "on_day": [None]}))
            assert again(soup.invoke, query).to_table().num_rows == before + 1


def test_errors_of_the_small_side_count_though_no_row_of_the_large_one_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = filled(random.Random(2))
    soup.push("r", pa.table({"k": [5], "a": [0], "t": ["none"], "d": [0.0]}))
    query = soup.register("SELECT s._id AS i FROM r, s WHERE 1 // r.a = s.a AND 'x' || r.t = s.t")
    errors = [answered(soup, query)]
    with always(soup, monkeypatch):
        errors += [answered(soup, query), answered(soup, query)]
    assert errors[0] == errors[1] == errors[2]
    assert errors[0][1] > 0


def test_matches_that_are_kept_as_bits_are_asked_for_few_rows() -> None:
    soup = filled(random.Random(5))
    query = soup.register("SELECT a FROM s WHERE a < 5")
    soup.maintain()
    snapshot = soup.engine.snapshot()
    view, clause = snapshot.stream("s", soup.tenant), snapshot.clause(snapshot.query(query, soup.tenant).sqc_id)
    (found,) = sides_of_join([(view, clause, 9, view.next_id)])
    whole = matches_in(view, clause, 9, view.next_id)
    assert [isinstance(match, KeptBits) for match in found] == [False, *[True] * 4, False]
    for bits, match in zip(found, whole, strict=True):
        assert (bits.count, bits.offsets.tolist()) == (match.count, match.offsets.tolist())
        if isinstance(bits, KeptBits):
            some = np.arange(3, len(bits.data), 7)
            assert bits.among(some).tolist() == np.intersect1d(some, match.offsets).tolist()


def test_fifty_rows_meet_a_large_side_without_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=8_192))
    soup.execute("CREATE STREAM r (k BIGINT)")
    soup.execute("CREATE STREAM s (k BIGINT, b BIGINT)")
    keys = np.random.default_rng(3).permutation(65_536)
    for start in range(0, len(keys), 8_192):
        soup.push("s", pa.table({"k": keys[start : start + 8_192], "b": np.arange(start, start + 8_192)}))
    soup.push("r", pa.table({"k": keys[:3_000:60]}))
    soup.maintain()
    query = soup.register("SELECT r.k, s.b FROM r, s WHERE r.k = s.k")
    rows = []
    original = lookup_filter.cut_down
    monkeypatch.setattr(
        "psoup.execution.join.join_case.cut_down",
        lambda node, reading: rows.append(original(node, reading)) or rows[-1],
    )
    for _ in range(3):  # the last chunk might be open: it has its index from the second time on
        assert again(soup.invoke, query).to_table()["b"].to_pylist() == list(range(0, 3_000, 60))
    assert indexes(soup) == 8
    assert [sum(match.count for match in side) for side in rows[2]] == [50, 50]
