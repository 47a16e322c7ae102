"""Joins of larger sides, found by halves on two threads, equal what pieces give; and when they are left to these."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.data.key_room import KeyRoom
from psoup.data.narrow import Short
from psoup.data.places import Places
from psoup.execution.join import parallel_join
from psoup.execution.rows.record_batch import Message, read
from psoup.execution.ways import ANSWER
from psoup.local import LocalPSoup
from psoup.model import BIGINT
from psoup.values.columns import Column
from psoup.work.clock import VirtualClock
from psoup_service.host.runner import TaskPool
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.ways import without
from psoup_testing.suite.sweeps import swept

ROWS = 400


@pytest.fixture(scope="module")
def soup() -> Iterator[LocalPSoup]:
    """Two streams in chunks of 64, on two threads: keys close together, far apart, NULL, and one that many have."""
    pool, rng = TaskPool(2), np.random.default_rng(3)
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(100), run=pool)
    for stream in "rs":
        soup.execute(
            f"CREATE STREAM {stream} (k BIGINT, d DATE, m DECIMAL(9,2), far BIGINT, n BIGINT, hot BIGINT, f BOOLEAN, "
            "w BIGINT, v BIGINT, five BIGINT)"
        )
        keys = rng.integers(-90, 200, ROWS)
        columns = {
            "k": pa.array(keys),
            "d": pa.array(keys.astype(np.int32) + 9_000, pa.date32()),
            "m": pa.array(keys).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
            "far": pa.array(keys * 10**12),
            "n": pa.array(keys, mask=rng.random(ROWS) < 0.2),
            "hot": pa.array(np.where(rng.random(ROWS) < 0.5, 7, keys)),
            "f": pa.array(rng.random(ROWS) < 0.5, mask=rng.random(ROWS) < 0.2),
            "w": pa.array(keys * 600),
            "five": pa.array(keys * 5),
            "v": pa.array(np.where(keys > 150, None, keys * 600)),
        }
        for start in range(0, ROWS, 50):
            soup.push(stream, pa.table(columns).slice(start, 50))
            soup.maintain()
    yield soup
    pool.close()


def _take_halves(patch: pytest.MonkeyPatch) -> None:
    """Join by halves whatever the sides have."""
    without(patch, ANSWER, "small_join")
    patch.setattr(parallel_join, "SMALL", 0)


def _messages(answer: Answer, most: int) -> list[Message]:
    return [part for part in answer.messages(65_536, most) if isinstance(part, Message)]


@pytest.mark.parametrize("key", swept(["k", "five", "d", "m", "far", "n", "hot"], fast=(0, 3)))
def test_halves_equal_pieces(key: str, soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows and some; in one message a half, in batches of seven, and in parts of few bytes."""
    made = list[parallel_join.HalvedMessage]()
    monkeypatch.setattr(parallel_join, "_SPARE", 8)
    monkeypatch.setattr(parallel_join, "_PLACES", 0)
    _take_halves(monkeypatch)
    monkeypatch.setattr(parallel_join, "_given", lambda messages, room: made.extend(messages) or iter(messages))
    select = f"SELECT r.k, s.k AS l, s.d, r.m, r.f, s.n, s.{key} AS t, r._id, s._id AS j"
    for where in ("", "AND s.k > 20", "AND r.k > 300"):
        query = soup.register(f"{select} FROM r [ROWS 390], s [ROWS 333] WHERE r.{key} = s.{key} {where}")
        soup.maintain()
        with monkeypatch.context() as patch:
            without(patch, ANSWER, "small_join", "parallel_join")
            wanted = again(soup.invoke, query).to_table()
        made.clear()
        answer = again(soup.invoke, query)
        table = answer.to_table()
        table.validate(full=True)
        assert table.equals(wanted), where
        assert bool(made) == (key not in ("m", "far", "n", "hot") and wanted.num_rows > 0), where
        assert pa.Table.from_batches(answer.batches(7), answer.schema).equals(wanted)
        parts = [read(part.gathered(), answer.schema) for part in _messages(answer, 900)]
        assert pa.Table.from_batches(parts, answer.schema).equals(wanted)


@pytest.mark.parametrize(("key", "kind"), [("w", Short), ("v", int), ("k", int)])
def test_keys_of_dense_sides_are_read_from_32_bits(
    key: str, kind: type, soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the third time on, of closed chunks: keys that 16 bits do not say; neither NULLs nor those of less bits."""
    _take_halves(monkeypatch)
    monkeypatch.setattr(parallel_join, "_PLACES", 1 << 18)
    query = soup.register(f"SELECT r.{key} AS x, s._id AS j FROM r, s WHERE r.{key} = s.{key} AND r.k < 190")
    soup.maintain()
    tables = [again(soup.invoke, query).to_table() for _ in range(4)]
    without(monkeypatch, ANSWER, "parallel_join")
    assert tables == [again(soup.invoke, query).to_table()] * 4
    stream = soup.engine.snapshot().stream("r", "default")
    *closed, newest = [entry.data for entry in stream.chunks if isinstance(entry.data, ChunkView)]
    place = [attribute.name for attribute in stream.spec.schema.attributes].index(key)
    assert {type(chunk.caches.short.get(place)) for chunk in closed} == {kind}
    assert not newest.caches.short


def test_a_column_is_made_shorter_only_if_there_is_room_and_goes_with_its_chunk() -> None:
    values = np.arange(9) * 90_000
    chunks = [ChunkView(0, Places(0, 9), np.arange(9), (Column(BIGINT, values - n),), 0) for n in range(2)]
    room = KeyRoom(4 * 9)
    assert [[room.shorten(chunk, 0) for chunk in chunks] for _ in range(3)] == [[False] * 2, [True] * 2, [True] * 2]
    assert [isinstance(chunk.caches.short[0], Short) for chunk in chunks] == [True, False]
    assert room.held == 36
    assert room.give_up(100) == 0
    chunks.clear()
    gc.collect()
    assert room.held == 0


def test_crowded_joins_are_left_to_pieces_for_a_while(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[int]()
    _take_halves(monkeypatch)
    monkeypatch.setattr(parallel_join, "_CROWDED", 3)
    monkeypatch.setattr(parallel_join, "_SPARE", 8)
    found = parallel_join._found
    monkeypatch.setattr(parallel_join, "_found", lambda *ask: tried.append(1) or found(*ask))
    query = soup.register("SELECT r.k FROM r, s WHERE r.hot = s.hot AND r.k > -80")
    soup.maintain()
    rows = {soup.invoke(query).to_table().num_rows for _ in range(9)}
    assert len(rows) == 1
    assert len(tried) == 3
