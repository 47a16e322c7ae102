"""Folds that a job writes beside its chunks: the bytes that the service would make, and never another answer."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from psoup.admission.rows.pushes import read_columns
from psoup.aggregates.sound_folds import is_sound
from psoup.aggregates.stored_folds import decoded
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.errors import InvalidInput
from psoup.execution.ahead.folds_outside import FoldsOutside
from psoup.matching.outside import Beforehand
from psoup.model import SECOND, StreamSpec
from psoup.values.columns import Batch
from psoup_storage.durable.chunks.sidecars import FOLDER, place_of
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.formats import sidecar_file
from psoup_storage.formats.history import SERVICE_IDS, FoldsToWrite, write_chunk
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.fold_stream import MEASURES, WHERE, made
from psoup_testing.engines.fold_stream import rows as values
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.kept_structures import KEPT
from psoup_testing.suite.sweeps import swept

EVENTS = "CREATE STREAM t (at TIMESTAMP, n BIGINT, x DOUBLE, s TEXT) TIMESTAMP BY at"
CREATE = f"{EVENTS} RETENTION 90 SECONDS ARCHIVE 9 DAYS"
TEXTS = [f"SELECT {m} FROM t {where} BEGIN (START)" for m in MEASURES[:4] for where in WHERE[:3]]
GROUPED = [f"SELECT s, {m} FROM t {where} GROUP BY s BEGIN (START)" for m in MEASURES[:4] for where in WHERE[1:2]]
QUERY = "SELECT count(*) AS c, sum(n) AS s, max(s) AS m FROM t WHERE n % 3 = 0 BEGIN (START)"
OF_IDS = "SELECT max(_id) AS greatest, count(*) AS n FROM t BEGIN (START)"


def opened(path: Path, **settings: int) -> RestartingPSoup:
    """A service, and a stream whose only tuple is of the second 1,000."""
    soup = made(path, **settings)
    soup.clock.set(1_000 * SECOND)  # type: ignore[attr-defined]
    soup.execute(CREATE)
    soup.push("t", table(1, 1_000))
    soup.maintain()
    return soup


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = opened(tmp_path / "data", archive_rows=0)
    yield made
    made.store.close()


def table(count: int, start: int, seed: int = 5) -> pa.Table:
    """Rows of a second each, from second `start` on."""
    times = pa.array([(start + n) * SECOND for n in range(count)], pa.timestamp("us", "UTC"))
    return values(random.Random(seed), count).add_column(0, "at", times)


def job(
    soup: RestartingPSoup, queries: Sequence[tuple[int, str]], name: str = "one", start: int = 100, seed: int = 5
) -> Path:
    """A directory of 400 seconds in chunks of 100 rows, with the matches and folds of `queries`."""
    view = soup.engine.snapshot().stream("t", soup.tenant)
    folder, times = soup.path.parent / f"{soup.path.name}-{name}", [(start + n) * SECOND for n in range(400)]
    folds = FoldsToWrite(FoldsOutside(view.spec, queries), (view.stream_id,))
    beforehand = Beforehand(view.spec, queries)
    cuts = range(0, 400, 100)
    write(folder, view.spec, table(400, start, seed), times, cuts, beforehand, soup.store.incarnation, folds)
    return folder


def registered(soup: RestartingPSoup, texts: Sequence[str]) -> list[tuple[int, str]]:
    return [(soup.register(text), text) for text in texts]


def answer(soup: RestartingPSoup, query: int) -> tuple[str, object]:
    answered = again(soup.invoke, query)
    return repr([column.to_pylist() for column in answered.to_table().columns]), (answered.matched, answered.errors)


def sidecars(soup: RestartingPSoup) -> dict[str, dict[bytes, bytes]]:
    """The entries of all sidecars of one chunk."""
    answered = dict[str, dict[bytes, bytes]]()
    for path in sorted((soup.path / FOLDER).glob("*.folds")):
        place = place_of(path.name)
        assert place is not None
        if place.stop - place.first == 1:
            answered[path.name] = entries(path)
    return answered


def entries(path: Path) -> dict[bytes, bytes]:
    """The entries of a sidecar, whatever its chunks."""
    with open(path, "rb") as file:
        (checksum,) = np.frombuffer(os.pread(file.fileno(), 8, 16), "<i8").tolist()
        return dict(sidecar_file.entries_of(file.fileno(), checksum))


def batch(spec: StreamSpec) -> Batch:
    """The 400 rows, as a job has them."""
    times = np.array([(100 + n) * SECOND for n in range(400)], np.int64)
    return Batch(tuple(read_columns(spec, table(400, 100), EngineConfig())), times)


@pytest.mark.long
@pytest.mark.seeded("a job folds other rows than the service")
def test_folds_of_a_job_are_the_bytes_that_the_service_makes(
    soup: RestartingPSoup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar_file, "_LEAST", 1 << 20)
    other = opened(tmp_path / "other")
    other.ahead = SimpleNamespace(step=lambda snapshot: 0)  # type: ignore[assignment]
    queries = registered(soup, TEXTS + GROUPED)
    assert registered(other, TEXTS + GROUPED) == queries
    folder = job(soup, queries)
    attach(soup, "t", "one", folder)
    for path in folder.glob("*.folds"):
        path.unlink()
    attach(other, "t", "one", folder)
    assert len(sidecars(soup)) == 4 and not sidecars(other)
    soup.maintain()
    answered = [answer(soup, query) for query, _ in queries]
    assert soup.store.archive_reads == 0, "no tuple of the attached chunks was read"
    for _ in range(2):
        assert answered == [answer(other, query) for query, _ in queries]
    assert other.store.archive_reads > 0
    theirs = sidecars(other)
    for name, entries in sidecars(soup).items():
        assert entries == theirs[name] and len(entries) == len(queries)
    soup.check()
    other.store.close()


def test_answers_from_attached_folds_are_those_of_duckdb(soup: RestartingPSoup) -> None:
    queries = registered(soup, [QUERY, QUERY.replace("SELECT", "SELECT s AS k,").replace("BEGIN", "GROUP BY s BEGIN")])
    attach(soup, "t", "one", job(soup, queries))
    soup.restart()
    met = KEPT.counts["fold on disk"]
    connection = duckdb.connect()
    connection.register("t", pa.concat_tables([table(400, 100), table(1, 1_000)]))
    for query, text in queries:
        explanation = "\n".join(soup.explain(query).lines())
        assert "folds of 1 node and 0 chunks, 1 tuple at the two ends; 0 chunks not folded yet" in explanation
        reads = soup.store.archive_reads
        answered = again(soup.invoke, query).to_table().to_pylist()
        wanted = connection.sql(text.removesuffix("BEGIN (START)")).to_arrow_table().to_pylist()
        assert sorted(map(repr, answered)) == sorted(map(repr, wanted))
        assert soup.store.archive_reads == reads
    assert KEPT.counts["fold on disk"] >= met + 2
    connection.close()


@pytest.mark.seeded("a job folds tuple IDs, which it does not know")
def test_an_aggregate_of_tuple_ids_has_no_fold_of_a_job(soup: RestartingPSoup) -> None:
    queries = registered(soup, [OF_IDS, "SELECT count(*) AS n FROM t GROUP BY _id BEGIN (START)", QUERY])
    attach(soup, "t", "one", job(soup, queries))
    assert {len(entries) for entries in sidecars(soup).values()} == {1}
    for _ in range(2):
        assert again(soup.invoke, queries[0][0]).to_table().to_pylist() == [{"greatest": 0, "n": 401}]


def _corrected(change: Callable[[bytearray], object]) -> Callable[[bytes], bytes]:
    """A change of the entries' bytes, with right checksums."""

    def changed(content: bytes) -> bytes:
        (checksum, count) = np.frombuffer(content, "<i8", 2, 16).tolist()
        index = bytearray(content[32 : 32 + 32 * count])
        rest = bytearray(content[32 + 32 * count :])
        change(rest)
        ends = np.frombuffer(bytes(index[16 * count : 24 * count]), "<i8").tolist()
        parts = [bytes(rest[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        names = [bytes(index[16 * k : 16 * k + 16]) for k in range(count)]
        return sidecar_file.written(checksum, dict(zip(names, parts, strict=True)))

    return changed


def _with_index(content: bytes, ends: Sequence[int]) -> bytes:
    """The same with other ends of the results, under a right checksum."""
    count = int(np.frombuffer(content, "<i8", 1, 24)[0])
    index = content[32 : 32 + 16 * count] + np.array(ends, "<i8").tobytes() + content[32 + 24 * count : 32 + 32 * count]
    return content[:8] + np.array([zlib.crc32(index)], "<i8").tobytes() + content[16:32] + index + content[64:]


def _around(content: bytes) -> bytes:
    """Four results: the second ends 2^64 bytes before the first one, which is one byte after it in 64 bits."""
    index = bytes(range(64)) + np.array([2**63 - 1, -(2**63), -1, 10], "<i8").tobytes() + bytes(32)
    return content[:8] + np.array([zlib.crc32(index)], "<i8").tobytes() + content[16:24] + b"\4" + bytes(7) + index * 2


SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-3],
    "empty": lambda content: b"",
    "head": lambda content: content[:40],
    "flip": lambda content: content[:-9] + bytes([content[-9] ^ 4]) + content[-8:],
    "index": lambda content: content[:50] + bytes([content[50] ^ 4]) + content[51:],
    "long": lambda content: content + bytes(5_000),
    "backwards": lambda content: _with_index(content, [-8]),
    "beyond": lambda content: _with_index(content, [1 << 60]),
    "around": _around,
    "negative": _corrected(lambda rest: rest.__setitem__(slice(0, 8), b"\xff" * 8)),
    "kinds": _corrected(lambda rest: rest.__setitem__(slice(28, 32), b"<f8\0")),
    "short": _corrected(lambda rest: rest.__delitem__(slice(24, None))),
}


@pytest.mark.seeded("bytes of a job's folds are not checked")
@pytest.mark.parametrize("spoil", swept([*SPOILED, "swapped", "of another job", "gone"], fast=range(0, 15, 4)))
def test_a_sidecar_of_a_job_that_is_wrong_changes_no_answer(soup: RestartingPSoup, spoil: str) -> None:
    queries = registered(soup, [QUERY])
    folder = job(soup, queries)
    paths = sorted(folder.glob("*.folds"))
    original = [path.read_bytes() for path in paths]
    assert len(original) == 4
    foreign = sorted(job(soup, queries, "two", seed=6).glob("*.folds"))
    for at, path in enumerate(paths):
        if spoil == "gone":
            path.unlink()
        elif spoil == "swapped":
            path.write_bytes(original[at - 1])
        else:
            path.write_bytes(foreign[at].read_bytes() if spoil == "of another job" else SPOILED[spoil](original[at]))
    attach(soup, "t", "one", folder)
    expected = 4 if spoil in ("negative", "kinds", "short") else 0
    assert len(sidecars(soup)) == expected, "with right checksums, the reader of the fold sees that it is none"
    wanted = table(400, 100).to_pylist() + table(1, 1_000).to_pylist()
    some = [row for row in wanted if row["n"] is not None and row["n"] % 3 == 0]
    for _ in range(2):
        answered = again(soup.invoke, queries[0][0])
        assert answered.matched == len(some)
        assert [(row["c"], row["s"]) for row in answered.to_table().to_pylist()] == [
            (len(some), sum(row["n"] for row in some))
        ]
        soup.maintain()
        soup.restart()
    soup.store.close()
    assert examine(soup.path).findings == []
    soup.reopen()


@pytest.mark.parametrize("kind", ["link", "pipe", "vast"])
def test_a_sidecar_that_is_no_file_or_too_large_is_refused(soup: RestartingPSoup, tmp_path: Path, kind: str) -> None:
    folder = job(soup, registered(soup, [QUERY]))
    path = sorted(folder.glob("*.folds"))[2]
    path.unlink()
    if kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 31)
    with pytest.raises(InvalidInput) as caught:
        attach(soup, "t", "one", folder)
    assert caught.value.reason == "BAD_HISTORY" and path.name in caught.value.message
    assert not os.listdir(soup.path / FOLDER), "what was staged before is gone"


def test_folds_go_with_their_chunks_and_with_an_attempt_that_is_refused(soup: RestartingPSoup) -> None:
    queries = registered(soup, [QUERY])
    view = soup.engine.snapshot().stream("t", soup.tenant)
    folder = job(soup, queries)
    soup.store.adopt(folder, "given up", view.stream_id, view.spec)
    assert len(os.listdir(soup.path / FOLDER)) == 4
    soup.store.disown(view.stream_id, "given up")
    assert not os.listdir(soup.path / FOLDER)
    soup.store.adopt(folder, "killed", view.stream_id, view.spec)
    soup.restart()
    assert not os.listdir(soup.path / FOLDER), "a start removes what a killed service had staged"
    attach(soup, "t", "one", folder)
    assert sorted(sidecars(soup)) == [f"1.-{number}.-{number}.folds" for number in (1, 2, 3, 4)]
    soup.unregister(queries[0][0])
    soup.execute("DROP STREAM t")
    assert not os.listdir(soup.path / FOLDER)


@pytest.mark.parametrize("retention", ["RETENTION 600 SECONDS", "RETENTION 60 SECONDS ARCHIVE 600 SECONDS"])
def test_folds_of_batches_that_have_expired_are_removed(tmp_path: Path, retention: str) -> None:
    soup = made(tmp_path / "data")
    soup.clock.set(9_000 * SECOND)  # type: ignore[attr-defined]
    soup.execute(f"{EVENTS} {retention}")
    queries = registered(soup, [QUERY])
    for number, start in enumerate((100, 500, 1_000)):
        attach(soup, "t", "feed", job(soup, queries, f"batch {number}".replace(" ", "-"), start), number)
        chunks = soup.engine.snapshot().by_id[1].chunks
        present = {entry.data.number for entry in chunks}
        assert {place_of(name).first for name in sidecars(soup)} >= present - {chunks[-1].data.number}  # type: ignore[union-attr]
    assert {place_of(name).first for name in sidecars(soup)} <= present  # type: ignore[union-attr]
    assert len(sidecars(soup)) < 12
    soup.store.close()


def test_folds_of_history_go_with_its_expired_and_its_thinned_chunks(tmp_path: Path) -> None:
    soup = made(tmp_path / "data")
    soup.clock.set(9_000 * SECOND)  # type: ignore[attr-defined]
    soup.execute(f"{EVENTS} RETENTION 60 SECONDS ARCHIVE 1000 SECONDS")
    queries = registered(soup, [QUERY])
    soup.push("t", table(1, 1_000))
    attach(soup, "t", "one", job(soup, queries))
    view, store = soup.engine.snapshot().by_id[1], soup.store
    oldest = view.chunks[0].data
    rows_left = np.arange(0, 100, 3, dtype=np.uint16)
    left = ChunkView(
        -4,
        Places(oldest.first_id, 100, rows_left),
        oldest.times[::3],
        [c.take(rows_left.astype(np.int64)) for c in oldest.columns],
        9,
    )
    assert store.thin(1, view.spec, left) is not None
    assert sorted(sidecars(soup)) == [f"1.-{number}.-{number}.folds" for number in (1, 2, 3)]
    for start in (1_400, 1_480, 1_560):
        soup.push("t", table(80, start))
        soup.maintain()
    present = {entry.data.number for entry in soup.engine.snapshot().by_id[1].chunks}
    assert min(place_of(name).first for name in sidecars(soup)) >= min(present) > -4  # type: ignore[union-attr]
    soup.store.close()


def test_each_service_gets_folds_under_the_names_of_its_own_stream(soup: RestartingPSoup) -> None:
    spec = soup.engine.snapshot().stream("t", soup.tenant).spec
    texts = [f"SELECT sum(n) AS s FROM t WHERE n > {k}" for k in range(3)]
    queries = list(zip([4, SERVICE_IDS + 4, 2 * SERVICE_IDS], texts, strict=True))
    folds, folder = FoldsToWrite(FoldsOutside(spec, queries), (1, 7)), soup.path.parent / "shared"
    folder.mkdir()
    write_chunk(folder, "0", spec, batch(spec), Beforehand(spec, queries), ("0ther",), folds)
    mine, theirs, both = folds.aggregates.aggregates
    assert entries(folder / "0.parquet.folds").keys() == {mine.name(1), both.name(1)}
    assert entries(folder / "0.parquet.folds-0ther").keys() == {theirs.name(7), both.name(7)}


def test_bytes_that_are_no_fold_are_never_decoded_to_wrong_arrays(soup: RestartingPSoup) -> None:
    """Random changes under right checksums: a fold is refused, or its arrays have the lengths that kernels expect."""
    rng, refused = random.Random(3), 0
    queries = registered(soup, TEXTS + GROUPED)
    spec = soup.engine.snapshot().stream("t", soup.tenant).spec
    rows, outside = batch(spec), FoldsOutside(spec, queries)
    chunk = ChunkView(0, Places(0, len(rows)), rows.times, rows.columns, rows.nbytes)
    answered = outside.find(chunk, Beforehand(spec, queries).find(chunk))
    assert len(answered) == len(outside.aggregates) == len(queries)
    for recipe, content in ((aggregate.recipe, content) for aggregate, content in answered):
        assert decoded(recipe, content) is not None
        for _ in range(20):
            changed = bytearray(content)
            at = rng.randrange(24, len(content))
            changed[at] ^= 1 << rng.randrange(8)
            fold = decoded(recipe, bytes(changed[: rng.choice([len(content), at])]))
            refused += fold is None
            if fold is not None:
                recipe.joined([fold, fold])
    assert refused > 100


def test_places_that_go_around_64_bits_are_no_fold(soup: RestartingPSoup) -> None:
    """The difference of the greatest and the least integer of 64 bits is 1. A kernel would read far outside."""
    grouped = "SELECT s, min(s) AS a, approx_count_distinct(n) AS b FROM t GROUP BY s BEGIN (START)"
    spec, queries = soup.engine.snapshot().stream("t", soup.tenant).spec, registered(soup, [grouped])
    rows, outside = batch(spec), FoldsOutside(spec, queries)
    chunk = ChunkView(0, Places(0, len(rows)), rows.times, rows.columns, rows.nbytes)
    ((aggregate, content),) = outside.find(chunk, Beforehand(spec, queries).find(chunk))
    for place in range(3):
        fold = decoded(aggregate.recipe, content)
        assert fold is not None
        texts, sketch = fold.states
        changed = (fold.keys[0].values, texts[-1].values, sketch[0])[place]  # type: ignore[union-attr]
        assert isinstance(changed, np.ndarray) and changed.dtype == np.int64 and len(changed) > 4
        changed[1:4] = 2**63 - 1, -(2**63), -1
        assert not is_sound(aggregate.recipe, fold)
