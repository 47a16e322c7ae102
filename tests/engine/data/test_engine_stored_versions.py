"""A start of a table links the entries of its stored chunks as the writer did. Some chunks are thinned."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.data.chunk import ChunkView
from psoup.data.chunk_versions import ChunkVersions
from psoup.data.newest_versions import TableVersions
from psoup.data.places import Places
from psoup.data.stored_versions import count_keys, load_versions
from psoup.data.versions import versions_of
from psoup.model import BIGINT, BOOLEAN
from psoup.sql import create_stream
from psoup.values.columns import Array, Batch, Column
from psoup_testing.suite.budget import SEED

SPEC = create_stream("CREATE TABLE t (k BIGINT, x BIGINT, PRIMARY KEY (k))")


def chunks_of(keys: Array, deleted: Array, sizes: Array, left: Array) -> list[ChunkView]:
    """Chunks of these sizes; of the entries only those that are `left`. The time of entry n is n // 2."""
    chunks, first = list[ChunkView](), 0
    for number, size in enumerate(sizes.tolist()):
        rows = np.flatnonzero(left[first : first + size])
        places = Places(first, size) if len(rows) == size else Places(first, size).keep(rows)
        at = first + rows
        columns = (
            Column(BOOLEAN, deleted[at]),
            Column(BOOLEAN, np.zeros(len(at), np.bool_)),
            Column(BIGINT, keys[at]),
            Column(BIGINT, at),
        )
        span = (first // 2, (first + size - 1) // 2)
        versions = ChunkVersions(len(at))
        chunks.append(ChunkView(number, places, at // 2, columns, 0, span=span, versions=versions))
        first += size
    return chunks


def naive_links(keys: Array, left: Array) -> dict[int, tuple[int, int, int]]:
    """By the ID of each entry that is left: the entries before and after it, and the time of the one after it."""
    links, newest = dict[int, tuple[int, int, int]](), dict[int, int]()
    for entry in np.flatnonzero(left).tolist():
        before = newest.get(int(keys[entry]), -1)
        links[entry] = (before, 0, 0)
        if before >= 0:
            links[before] = (links[before][0], entry, entry // 2)
        newest[int(keys[entry])] = entry
    return links


def links_of(chunks: list[ChunkView]) -> dict[int, tuple[int, int, int]]:
    """The same from the chunks."""
    links = dict[int, tuple[int, int, int]]()
    for chunk in chunks:
        versions = versions_of(chunk)
        rows = zip(versions.before.tolist(), versions.successors.tolist(), versions.ends.tolist(), strict=True)
        links |= dict(zip(chunk.ids_of(0, len(chunk)).tolist(), rows, strict=True))
    return links


@pytest.mark.parametrize("thinned", [False, True])
def test_a_start_links_entries_as_a_list_of_versions_does(thinned: bool) -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(20):
        sizes = rng.integers(1, 30, int(rng.integers(1, 8)))
        count = int(sizes.sum())
        keys = rng.integers(0, int(rng.integers(1, 40)), count)
        left = rng.random(count) < 0.3 if thinned else np.ones(count, np.bool_)
        chunks = chunks_of(keys, rng.random(count) < 0.2, sizes, left)
        table = TableVersions(SPEC, list)
        load_versions(table, chunks)
        assert links_of(chunks) == naive_links(keys, left)
        here = np.flatnonzero(left)
        newest = {int(keys[entry]): entry for entry in here.tolist()}
        wanted = [newest.get(key, -1) for key in range(40)]
        key_columns = [Column(BIGINT, np.arange(40, dtype=np.int64))] * 3
        assert table.newest.find(key_columns).tolist() == wanted
        assert table.newest.keys == len(newest)


def test_entries_that_come_after_a_start_end_versions_of_thinned_chunks() -> None:
    keys, left = np.array([1, 2, 1, 3]), np.array([False, True, True, True])
    chunks = chunks_of(keys, np.zeros(4, np.bool_), np.array([2, 2]), left)
    table = TableVersions(SPEC, lambda: chunks)
    load_versions(table, chunks)
    (view,) = chunks_of(np.array([2, 1, 9]), np.zeros(3, np.bool_), np.array([3]), np.ones(3, np.bool_))
    batch, entries = table.release(Batch(view.columns, view.times + 50), 4)
    chunks.append(ChunkView(2, Places(4, 3), batch.times, batch.columns, 0, versions=ChunkVersions(3)))
    table.enter(entries)
    assert links_of(chunks) == {
        1: (-1, 4, 50),
        2: (-1, 5, 50),
        3: (-1, 0, 0),
        4: (1, 0, 0),
        5: (2, 0, 0),
        6: (-1, 0, 0),
    }


def test_the_count_of_keys_is_near() -> None:
    keys = np.random.default_rng(SEED).integers(0, 50_000, 200_000)
    chunks = chunks_of(
        keys, np.zeros(len(keys), np.bool_), np.array([65_536] * 3 + [3_392]), np.ones(len(keys), np.bool_)
    )
    table = TableVersions(SPEC, lambda: chunks)
    wanted = len(np.unique(keys))
    assert abs(count_keys(table.newest, chunks) - wanted) < wanted / 50
