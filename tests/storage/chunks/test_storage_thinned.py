"""Thinned chunks on disk: the file has the rows that are left, the manifest their places. A crash leaves a whole file.

└── chunk 1 of 64 places ──thin──> rows 3 9 27 …      a start finds them with the IDs and the times that they had
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.data.archived_chunk import ArchivedChunk, Chunk
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.data.sidecars import ChunkSpan
from psoup.errors import Corrupt, Internal, ResourceExhausted
from psoup.events.events import StreamCreated
from psoup.model import SECOND
from psoup.sql import create_stream
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable.chunks import folder as chunks
from psoup_storage.durable.chunks import thinning
from psoup_storage.durable.chunks.place_list import WrongPlaces, decode_places, encode_places
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.durable.tools.findings import Severity
from psoup_testing.crash.faults import power
from psoup_testing.crash.faults import restore as put_back
from psoup_testing.crash.lives import chunk_disk
from psoup_testing.engines.admission_gate import rows
from psoup_testing.engines.attachments import attach, take, write, write_job
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.budget import SEED
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=16, ahead=86_400 * SECOND)
CREATE = "CREATE STREAM s (t TIMESTAMP, x BIGINT, name TEXT) TIMESTAMP BY t"
ARCHIVE = f"{CREATE} RETENTION 400 SECONDS ARCHIVE 300 SECONDS"
FORMS = {"in memory": CREATE, "archived": ARCHIVE}
KEPT = [0, 3, 9, 27, 40, 62]
"""Rows of a chunk that stay. The last row leaves, and its time with it."""


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    opened = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / "data")
    yield opened
    opened.store.close()


def fill(soup: RestartingPSoup, create: str = CREATE, count: int = 200) -> None:
    """Push `count` rows, whose times come in pairs, and store the closed chunks."""
    soup.execute(create)
    for n in range(0, count, 50):
        numbers = range(n, min(n + 50, count))
        names = [f"n{n}" if n % 3 else None for n in numbers]
        soup.push("s", rows(t=[n // 2 for n in numbers], x=list(numbers), name=names))
        soup.maintain()


def chunk_of(soup: RestartingPSoup, number: int) -> Chunk:
    """A chunk of the stream, as readers have it."""
    return next(e.data for e in soup.engine.snapshot().by_id[1].chunks if e.data.number == number)


def thinned(chunk: Chunk, rows_left: Sequence[int]) -> ChunkView:
    """The chunk with these rows."""
    at = np.array(rows_left, np.int64)
    columns = tuple(column.take(at) for column in chunk.columns)
    span = chunk.first_time, chunk.last_time
    return ChunkView(chunk.number, chunk.places.keep(at), chunk.times[at], columns, 100, span=span)


def thin(soup: RestartingPSoup, number: int, rows_left: Sequence[int] = KEPT) -> ArchivedChunk | None:
    """Thin a stored chunk on the disk; the engine knows nothing of it until the next start."""
    spec = soup.engine.snapshot().by_id[1].spec
    return soup.store.thin(1, spec, thinned(chunk_of(soup, number), rows_left))


def found(path: Path) -> list[tuple[int, Places, list[Any], list[int]]]:
    """The stored chunks that a start finds: number, places, values of x, times."""
    with closing(DurableStore(path)) as store:
        stored, *_ = [event.stored for event in store.read() if isinstance(event, StreamCreated)]
        assert stored is not None
        cold = [(c.number, c.places, c.columns[1].to_list(), c.times.tolist()) for c in stored.archive]
        hot = [(c.number, c.places, c.batch.columns[1].to_list(), c.batch.times.tolist()) for c in stored.chunks]
        spans = [((64 * c.number) // 2 * SECOND, (64 * c.number + 63) // 2 * SECOND) for c in stored.chunks]
        assert [c.span for c in stored.chunks if c.places.left is not None] == [
            span for c, span in zip(stored.chunks, spans, strict=True) if c.places.left is not None
        ]
        loaded = {number for number, *_ in hot}
        return [each for each in cold if each[0] not in loaded] + hot


def expected(number: int, rows_left: Sequence[int] = range(64)) -> tuple[int, Places, list[int], list[int]]:
    """A chunk of `fill`, with these rows."""
    first, left = 64 * number, None if len(rows_left) == 64 else np.array(rows_left, np.uint16)
    values = [first + row for row in rows_left]
    return number, Places(first, 64, left), values, [n // 2 * SECOND for n in values]


@pytest.mark.parametrize("create", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("rows_left", [KEPT, [63], []], ids=["some", "the last", "none"])
def test_a_start_finds_the_rows_that_are_left(soup: RestartingPSoup, create: str, rows_left: list[int]) -> None:
    fill(soup, create)
    entry = thin(soup, 1, rows_left)
    assert (entry is not None) == (create is ARCHIVE)
    files = {file.name: file.stat().st_size for file in (soup.path / "chunks").iterdir()}
    assert soup.store._chunk_bytes == sum(size for name, size in files.items() if name != "1-1.parquet")
    soup.store.close()
    assert found(soup.path) == [expected(0), expected(1, rows_left), expected(2)]
    assert examine(soup.path).findings == []
    assert len(os.listdir(soup.path / "chunks")) == 3


def test_a_chunk_is_thinned_again_and_the_last_one_too(soup: RestartingPSoup) -> None:
    """The log goes on behind the chunk that was stored last, also if its last tuple has left."""
    fill(soup)
    thin(soup, 2, KEPT)
    soup.store.close()
    soup.reopen()
    assert chunk_of(soup, 2).last_time == 191 // 2 * SECOND
    thin(soup, 2, [1, 2])
    soup.store.close()
    assert found(soup.path) == [expected(0), expected(1), expected(2, [3, 9])]
    soup.reopen()
    view = soup.engine.snapshot().by_id[1]
    assert view.next_id + view.pending == 200
    soup.push("s", rows(t=[300] * 64, x=[0] * 64, name=[None] * 64))
    soup.maintain()
    soup.store.close()
    assert [number for number, *_ in found(soup.path)] == [0, 1, 2, 3]
    assert examine(soup.path).findings == []


def test_an_archived_chunk_is_read_in_parts(soup: RestartingPSoup) -> None:
    """Also one row, a range of a column, and the chunk that readers had before."""
    fill(soup, ARCHIVE)
    soup.heartbeat("s", 520 * SECOND)
    soup.maintain()
    old = chunk_of(soup, 0)
    file = soup.store.path / "chunks" / "1-0.parquet"
    entry = thin(soup, 0)
    assert entry is not None
    assert [entry.take(1, np.array([2, 5])).to_list(), entry.take(-2, np.array([4])).values.tolist()] == [
        [9, 62],
        [20 * SECOND],
    ]
    low = entry.source.within(entry.attribute(1), 9, 40)
    assert low is None or low.tolist() == [2, 3, 4]
    assert entry.ids_of(1, 4).tolist() == [3, 9, 27]
    assert (entry.first_time, entry.last_time, entry.end_id) == (old.first_time, old.last_time, 64)
    assert isinstance(old, ArchivedChunk) and file.exists(), "a reader has it"
    assert old.columns[1].to_list() == list(range(64))
    soup.store.close()
    assert not file.exists()


def test_matches_and_folds_of_the_old_rows_go(soup: RestartingPSoup, tmp_path: Path) -> None:
    fill(soup, ARCHIVE)
    soup.heartbeat("s", 520 * SECOND)
    soup.maintain()
    query = soup.register("SELECT x FROM s WHERE x % 7 = 0 BEGIN (START)")
    assert write_job(soup, tmp_path / "job", [query]) == 3
    take(soup, tmp_path / "job", "s")
    store = soup.store
    covered, folded = chunk_of(soup, 0), store._chunks.sidecars
    assert isinstance(covered, ArchivedChunk) and len(covered.source.evaluated()) == 1
    folded.put(ChunkSpan(1, 0, 1, 7, 10**6), {bytes(16): b"x"})
    folded.put(ChunkSpan(1, 1, 2, 7, 10**6), {bytes(16): b"x"})
    entry = thin(soup, 0)
    assert entry is not None and len(entry.source.evaluated()) == 0
    assert (folded.has(1, 0, 1), folded.has(1, 1, 2)) == (False, True)
    other = chunk_of(soup, 1)
    assert isinstance(other, ArchivedChunk) and len(other.source.evaluated()) == 1
    soup.store.close()
    soup.reopen()
    assert write_job(soup, tmp_path / "again", [query]) == 1
    take(soup, tmp_path / "again", "s")
    again = chunk_of(soup, 0)
    assert isinstance(again, ArchivedChunk) and again.source.matches(query) is not None
    assert again.source.matches(query)[0].tolist() == [0]  # type: ignore[index]


def test_attached_history_is_thinned(soup: RestartingPSoup, tmp_path: Path) -> None:
    """History has no place in the log, and stays on disk."""
    fill(soup)
    times = [(n - 500) * SECOND for n in range(100)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "x": range(100), "name": ["a"] * 100})
    write(tmp_path / "job", create_stream(CREATE), table, times, [50])
    attach(soup, "s", "job", tmp_path / "job")
    entry = thin(soup, -2, [0, 7])
    assert entry is not None and entry.columns[1].to_list() == [0, 7]
    soup.store.close()
    number, places, values, _ = found(soup.path)[0]
    assert (number, places, values) == (-2, Places(-100, 50, np.array([0, 7], np.uint16)), [0, 7])
    assert examine(soup.path).findings == []


def test_a_chunk_that_is_gone_is_not_thinned(soup: RestartingPSoup) -> None:
    """The chunk expired, or its stream was dropped, while the maintenance computed."""
    fill(soup)
    view, spec = thinned(chunk_of(soup, 0), KEPT), soup.engine.snapshot().by_id[1].spec
    soup.drop_stream("s")
    assert soup.store.thin(1, spec, view) is None
    assert os.listdir(soup.path / "chunks") == []


def test_a_chunk_is_stored_before_it_is_thinned(soup: RestartingPSoup) -> None:
    """Else the log would forget tuples after the last row that is left, and a start would take them again."""
    fill(soup, count=60)
    view, spec = thinned(chunk_of(soup, 0), KEPT[:-1]), soup.engine.snapshot().by_id[1].spec
    with pytest.raises(Corrupt, match="a chunk was thinned before it was stored"):
        soup.store.keep(1, spec, view, 0)


def test_a_backup_has_the_thinned_chunk(soup: RestartingPSoup, tmp_path: Path) -> None:
    fill(soup)
    thin(soup, 0)
    with closing(soup.store.freeze()) as frozen:
        restore(frozen.path, tmp_path / "copy")
    assert found(tmp_path / "copy") == [expected(0, KEPT), expected(1), expected(2)]


# Damage


def refused(path: Path) -> str:
    """The error of a start, or of the reading after it."""
    with pytest.raises(Internal) as caught:
        found(path)
    assert caught.value.reason == "DATA_DAMAGED"
    return caught.value.message


def change(path: Path, statement: str, *values: object) -> None:
    """Change the manifest behind the service's back; its checksums are right."""
    database = apsw.Connection(str(path / "psoup.db"))
    register(database)
    database.execute(statement, values)
    assert database.changes() == 1
    database.close()


WRONG: dict[str, tuple[str, bytes | int | None]] = {
    "its place list cannot be read": ("places_left", b"junk"),
    "its place list is cut off": ("places_left", zlib.compress(b"abc")),
    "its place list has 7 places, and": ("places_left", encode_places(Places(0, 64).keep(np.arange(60)))),
    "its places do not ascend from 0 to 63": ("places_left", zlib.compress(bytes(2 * len(KEPT)))),
    "its place list is incomplete": ("places_left", None),
    "6 rows in 5 places": ("places", 5),
    "6 rows in 70,000 places, of at most 65,536": ("places", 70_000),
}


@pytest.mark.parametrize("said", swept(WRONG, fast=3))
def test_a_wrong_place_list_is_damage_of_its_chunk_alone(soup: RestartingPSoup, said: str) -> None:
    """The doctor names the chunk and sets it aside, and the other streams go on."""
    fill(soup)
    soup.execute("CREATE STREAM other (x BIGINT)")
    soup.push("other", pa.table({"x": [7]}))
    thin(soup, 1)
    soup.store.close()
    column, value = WRONG[said]
    change(soup.path, f"UPDATE chunks SET {column} = ? WHERE number = 1", value)
    assert said in refused(soup.path)
    damage, *more_damage = (finding for finding in examine(soup.path).findings if finding.severity is Severity.DAMAGE)
    assert damage.place.startswith("chunks/1-t") and said in damage.what
    assert f" of stream s: {len(KEPT)}, with times from " in damage.lost
    if column == "places":  # the next chunk seems not to follow
        assert len(more_damage) == 1
        return
    assert not more_damage
    examine(soup.path, aside=True)
    assert found(soup.path) == [expected(2)]
    soup.reopen()
    assert soup.engine.snapshot().stream("other", "default").next_id == 1


def test_a_place_list_that_has_changed_on_disk_is_found(soup: RestartingPSoup) -> None:
    """The checksum of the manifest row contains it."""
    fill(soup)
    thin(soup, 1)
    soup.store.close()
    file = soup.path / "psoup.db"
    left = encode_places(Places(64, 64, np.array(KEPT, np.uint16)))
    assert left is not None and file.read_bytes().count(left) == 1
    file.write_bytes(file.read_bytes().replace(left, left[:-1] + bytes([left[-1] ^ 1])))
    assert "the row of chunks with stream 1, number 1 has changed" in refused(soup.path)
    assert not examine(soup.path).well


def test_place_lists_come_back() -> None:
    chance = np.random.default_rng(SEED)
    for count in (1, 64, 1 << 16):
        for some in (0, 1, count // 4, count):
            left = np.sort(chance.choice(count, min(some, count), replace=False)).astype(np.uint16)
            places = Places(5, count, left)
            assert decode_places(5, len(left), count, encode_places(places)) == places
    assert decode_places(5, 9, None, encode_places(Places(5, 9))) == Places(5, 9)
    with pytest.raises(WrongPlaces, match="has 3 places, and"):
        decode_places(0, 2, 10, zlib.compress(bytes(10**6)))


# A crash, and a disk that fails


@pytest.mark.parametrize("create", swept(FORMS.values(), fast=1), ids=FORMS)
def test_a_crash_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, create: str) -> None:
    """A kill, or a power cut, before each operation of the disk. The doctor is content, and the next start cleans."""
    chance, images = random.Random(SEED), list[Any]()
    soup = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / "data")
    fill(soup, create)
    soup.store.close()
    present = {path.name: path.read_bytes() for path in (soup.path / "chunks").iterdir()}
    with chunk_disk() as disk:
        disk.synced.update(present)
        disk.named.update(present)
        with power(SEED, lambda: disk.survives(soup.path / "chunks", chance)) as database:
            disk.step = lambda operation: database.cut()
            with closing(DurableStore(soup.path, vfs=database.name)) as store:
                list(store.read())
                soup.store, count = store, len(database.images)
                thin(soup, 1)
                database.cut()
                images = database.images[count:]
    seen = set[str]()
    for number, (files, survivors) in enumerate(images):
        path = put_back(files, tmp_path / f"cut-{number}")
        (path / "chunks").mkdir(mode=0o700)
        for name, content in survivors.items():
            (path / "chunks" / name).write_bytes(content)
        assert examine(path).well
        old = found(path)[1] == expected(1)
        assert found(path) == [expected(0), expected(1, range(64) if old else KEPT), expected(2)]
        assert len(os.listdir(path / "chunks")) == 3
        seen.add("old" if old else "new")
    assert seen == {"old", "new"} and len(images) > 5


@pytest.mark.parametrize("step", ["_write_all", "_replace"])
def test_a_disk_that_fails_leaves_the_old(soup: RestartingPSoup, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(soup)

    def full(*arguments: Any) -> Any:
        raise OSError(28, "no space left on device") if step == "_write_all" else ResourceExhausted("full")

    with monkeypatch.context() as patched:
        patched.setattr(chunks if step != "_replace" else thinning, step, full)
        with pytest.raises(ResourceExhausted):
            thin(soup, 1)
    soup.store.close()
    assert found(soup.path) == [expected(0), expected(1), expected(2)]
    assert examine(soup.path).findings == []
