"""Sidecars: what was folded of chunks on disk outlives the process, and no answer depends on it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from psoup.aggregates.recipes import recipe_of
from psoup.aggregates.stored_folds import decoded, encoded, name_of
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.single_row import aggregate_of
from psoup.model import SECOND
from psoup_storage.durable.chunks import sidecars
from psoup_storage.durable.chunks.sidecars import FOLDER, ChunkRange, place_of
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.formats import sidecar_file
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.fold_stream import MEASURES, WHERE, made, rows
from psoup_testing.engines.past import rows as past_rows
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.kept_structures import KEPT
from psoup_testing.suite.sweeps import swept

CREATE = "CREATE STREAM t (n BIGINT, x DOUBLE, s TEXT) RETENTION 400 ROWS ARCHIVE 3600 ROWS"
BRIEF = "CREATE STREAM t (n BIGINT, x DOUBLE, s TEXT) RETENTION 400 ROWS ARCHIVE 900 ROWS"
QUERY = "SELECT count(*) AS c, sum(n) AS s, max(s) AS m FROM t WHERE n % 3 = 0 BEGIN (START)"


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    opened = made(tmp_path / "data")
    opened.execute(CREATE)
    yield opened
    opened.store.close()


def fill(soup: RestartingPSoup, count: int = 1_600, batch: int = 160, ask: Sequence[int] = ()) -> None:
    rng = random.Random(count)
    for _ in range(0, count, batch):
        soup.push("t", rows(rng, batch))
        soup.maintain()
        for query in ask:
            answer(soup, query)


def answer(soup: RestartingPSoup, query: int, window: str | None = None) -> tuple[str, object]:
    """The rows and how many tuples matched, and what could not be computed in SELECT."""
    found = again(soup.invoke, query, window=window, accept_truncation=True)
    shown = repr([column.to_pylist() for column in found.to_table().columns])
    return shown, (found.matched, found.errors - found.completeness.errors)


def files(soup: RestartingPSoup) -> list[str]:
    folder = soup.path / FOLDER
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.mark.long
@pytest.mark.seeded("a fold is named by a number that a restart gives to another clause")
@pytest.mark.seeded("values that could not be computed are lost on the way to the disk")
@pytest.mark.parametrize("seed", swept([1, 2], fast=1))
def test_answers_are_those_without_folds_whenever_the_process_ends(tmp_path: Path, seed: int) -> None:
    """Clauses have other numbers after each start, as some leave; chunks expire in the middle of nodes."""
    rng, met = random.Random(seed), KEPT.counts["fold on disk"]
    sides = [made(tmp_path / "one", every=rng.choice([3, 5])), made(tmp_path / "other", fan=1)]
    for soup in sides:
        soup.execute(BRIEF)
    queries = dict[int, str]()
    for step in range(24):
        if step in (0, 7):
            texts = [f"SELECT {m} FROM t {rng.choice(WHERE)} BEGIN (START)" for m in MEASURES]
            keys = rng.choice(["s", "n", "x, s"])
            texts += [f"SELECT {m} FROM t {rng.choice(WHERE)} GROUP BY {keys} BEGIN (START)" for m in MEASURES[:3]]
            ids = [[soup.register(text) for text in texts] for soup in sides]
            assert ids[0] == ids[1]
            queries.update(zip(ids[0], texts, strict=True))
        if step == 12:
            gone = next(iter(queries))
            del queries[gone]
            for soup in sides:
                soup.unregister(gone)
        pushed = rows(rng, rng.choice([1, 63, 64, 360]))
        for soup in sides:
            soup.push("t", pushed)
            soup.maintain()
        sides[0].engine.snapshot().by_id[1].folds.give_up(rng.choice([0, 0, 5_000, 1 << 30]))
        for query in rng.choices(list(queries), k=3):
            window = rng.choice([None, None, "BEGIN (NOW - 900 ROWS)", "BEGIN (NOW - 1200 ROWS) END (NOW - 400 ROWS)"])
            one, other = (answer(soup, query, window) for soup in sides)
            assert one == other, (queries[query], window)
    assert sides[0].restarts > 3 and files(sides[0])
    assert KEPT.counts["fold on disk"] > met
    assert sides[0].engine.snapshot().by_id[1].chunks[0].data.number > 3, "some have expired"
    assert not files(sides[1])
    for soup in sides:
        soup.check()
        soup.store.close()


def test_an_aggregate_over_an_archive_reads_no_tuple_after_a_restart(tmp_path: Path) -> None:
    soup = made(tmp_path / "data", archive_rows=64)
    soup.execute(CREATE)
    query = soup.register(QUERY)
    fill(soup, 2_880, ask=[query])
    soup.push("t", rows(random.Random(0), 8))
    before = answer(soup, query)
    soup.maintain()
    for _ in range(2):
        soup.restart()
        assert soup.engine.snapshot().by_id[1].archived > 30
        late = soup.register("SELECT max(s) AS m FROM t WHERE x = 1.0 BEGIN (START)")
        with pytest.raises(ResourceExhausted, match="were never evaluated for this query"):
            soup.invoke(late)
        text = "\n".join(soup.explain(query).lines())
        on_disk = 64 * soup.engine.snapshot().by_id[1].archived
        assert f"{on_disk:,} tuples of these are folded, and not read again" in text
        assert "an invocation evaluates none of these tuples" in text and "holds 2,888 tuples, at least" in text
        assert "refused" in "\n".join(soup.explain(late).lines())
        same = soup.register(QUERY.replace("n % 3 = 0", "0 = N % 3"))
        assert answer(soup, query) == answer(soup, same) == before
        assert soup.store.archive_reads == 0
    soup.store.close()


@pytest.mark.seeded("the first chunk that leaves the memory leaves no fold")
def test_a_chunk_that_leaves_the_memory_leaves_its_folds(soup: RestartingPSoup) -> None:
    query = soup.register(QUERY)
    soup.ahead = SimpleNamespace(step=lambda snapshot: 0)  # type: ignore[assignment]
    fill(soup, 320)
    for _ in range(3):
        answer(soup, query)
    assert soup.engine.snapshot().by_id[1].archived == 0 and not files(soup)
    fill(soup, 1_200)
    spans = (0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (0, 1), (2, 3), (0, 3)
    assert files(soup) == sorted(f"1.{first}.{last}.folds" for first, last in spans)
    soup.check()


SPOILED = {
    "cut": lambda content: content[:-3],
    "empty": lambda content: b"",
    "head": lambda content: content[:40],
    "flip": lambda content: content[:-9] + bytes([content[-9] ^ 4]) + content[-8:],
    "index": lambda content: content[:50] + bytes([content[50] ^ 4]) + content[51:],
    "count": lambda content: content[:30] + bytes([content[30] ^ 4]) + content[31:],
}


@pytest.mark.seeded("a sidecar is of other chunks")
@pytest.mark.seeded("bytes of a sidecar are not checked")
@pytest.mark.parametrize("spoil", swept([*SPOILED, "foreign", "lost"], fast=(3, 6)))
def test_a_sidecar_that_is_damaged_or_foreign_is_not_found(soup: RestartingPSoup, spoil: str) -> None:
    query = soup.register(QUERY)
    fill(soup, ask=[query])
    wanted, kept = answer(soup, query), {name: (soup.path / FOLDER / name).read_bytes() for name in files(soup)}
    soup.store.close()
    assert examine(soup.path).findings == []
    for name, other in zip(kept, list(kept)[1:], strict=False):
        if spoil == "lost":
            (soup.path / FOLDER / name).unlink()
        else:
            content = kept[other] if spoil == "foreign" else SPOILED[spoil](kept[name])
            (soup.path / FOLDER / name).write_bytes(content)
    found = examine(soup.path)
    assert found.well and len(found.findings) == (0 if spoil == "lost" else len(kept) - 1)
    soup.reopen()
    assert answer(soup, query) == wanted
    assert soup.store.archive_reads > 0
    soup.restart()
    assert answer(soup, query) == wanted, "what was damaged is whole again"
    assert soup.store.archive_reads == 0
    soup.store.close()
    assert examine(soup.path).findings == []
    soup.reopen()


@pytest.mark.long
def test_sidecars_of_chunks_that_became_others_are_not_found(soup: RestartingPSoup, tmp_path: Path) -> None:
    """Another body of data has chunks of the same numbers, and the same query."""
    query = soup.register(QUERY)
    fill(soup, 1_600, ask=[query])
    other = made(tmp_path / "other")
    other.execute(CREATE)
    assert other.register(QUERY) == query
    fill(other, 1_760)
    other.store.close()
    shutil.copytree(soup.path / FOLDER, other.path / FOLDER, dirs_exist_ok=True)
    other.reopen()
    plain = made(tmp_path / "plain", fan=1)
    plain.execute(CREATE)
    plain.register(QUERY)
    fill(plain, 1_760)
    assert answer(other, query) == answer(plain, query)
    other.store.close()
    plain.store.close()


@pytest.mark.parametrize("step", swept(["open", "rename"], fast=1))
def test_a_kill_while_a_sidecar_is_written_leaves_nothing_wrong(
    soup: RestartingPSoup, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = soup.register(QUERY)
    fill(soup, 800, ask=[query])

    renamed = os.rename

    def killed(file: Any, *more: Any) -> None:
        if step == "rename" and ".folds" not in str(file):
            renamed(file, *more)
        else:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sidecars.os, "fdopen" if step == "open" else "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            fill(soup, 1_600, ask=[query])
    assert any(name.endswith(".new") for name in files(soup))
    soup.store.close()
    left = [finding.place for finding in examine(soup.path, repair=False).findings]
    assert left == [f"{FOLDER}/{name}" for name in files(soup) if name.endswith(".new")]
    assert not examine(soup.path, repair=True).left
    soup.reopen()
    wanted = answer(soup, query)
    soup.restart()
    assert answer(soup, query) == wanted
    assert not any(name.endswith(".new") for name in files(soup))


def test_without_room_nothing_is_kept_and_nothing_fails(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query = soup.register(QUERY)
    monkeypatch.setattr(sidecar_file, "_LEAST", 0)
    monkeypatch.setattr(sidecar_file, "SHARE", 1_000)
    fill(soup, 800, ask=[query])
    assert not files(soup), "a thousandth of these chunks is less than a fold"
    monkeypatch.setattr(sidecar_file, "_LEAST", 1 << 16)

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sidecars.os, "fdopen", full)
    fill(soup, 1_200, ask=[query])
    assert not files(soup)
    assert caplog.text.count("what was folded is not kept on disk") == 1
    wanted = answer(soup, query)
    soup.restart()
    assert answer(soup, query) == wanted


@pytest.mark.long
def test_sidecars_go_with_their_chunks_and_their_stream_and_are_not_in_a_copy(
    soup: RestartingPSoup, tmp_path: Path
) -> None:
    query = soup.register(QUERY)
    fill(soup, 4_000, ask=[query])
    view = soup.engine.snapshot().by_id[1]
    places = [place_of(name) for name in files(soup)]
    fill(soup, 1_600, ask=[query])
    oldest = soup.engine.snapshot().by_id[1].chunks[0].data.number
    assert oldest > view.chunks[0].data.number
    assert min(place.first for place in map(place_of, files(soup)) if place) >= oldest - 3 > 0
    assert all(place is not None and place.stream == 1 for place in places)
    wanted = answer(soup, query)
    assert _counted(soup) == _sizes(soup) > 0
    soup.store.close()
    (soup.path / FOLDER / "1.99999.99999.folds").write_bytes(b"")
    (soup.path / FOLDER / "1.0.folds").write_bytes(b"")
    restore(soup.path, tmp_path / "copy")
    assert not (tmp_path / "copy" / FOLDER).exists()
    soup.reopen()
    assert answer(soup, query) == wanted
    assert min(place.first for place in map(place_of, files(soup)) if place) >= oldest
    assert not {"1.99999.99999.folds", "1.0.folds"} & set(files(soup))
    assert _counted(soup) == _sizes(soup) > 0
    soup.unregister(query)
    soup.execute("DROP STREAM t")
    assert not files(soup)
    assert _counted(soup) == 0


def _counted(soup: RestartingPSoup) -> int:
    """The bytes of sidecars that the store counts among its own."""
    return soup.store.bytes - soup.store._database.bytes - soup.store._chunk_bytes


def _sizes(soup: RestartingPSoup) -> int:
    """The bytes of all sidecars."""
    return sum((soup.path / FOLDER / name).stat().st_size for name in files(soup))


def test_history_that_was_attached_is_folded_under_negative_numbers(tmp_path: Path) -> None:
    soup = made(tmp_path / "data", archive_rows=800)
    soup.clock.set(1_000 * SECOND)  # type: ignore[attr-defined]
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t RETENTION 90 SECONDS ARCHIVE 9 DAYS")
    spec, times = soup.engine.snapshot().by_id[1].spec, [n * SECOND for n in range(100, 300)]
    query = soup.register("SELECT count(*) AS n, sum(x) AS s FROM s WHERE x % 3 = 0 BEGIN (START)")
    soup.push("s", past_rows(300, 420))
    soup.maintain()
    answer(soup, query)
    write(tmp_path / "history", spec, past_rows(100, 300), times, range(0, 200, 16))
    attach(soup, "s", "job", tmp_path / "history")
    values = [n for n in range(100, 420) if n % 3 == 0]
    for _ in range(3):
        assert soup.invoke(query).to_table().to_pylist() == [{"n": len(values), "s": sum(values)}]
        soup.maintain()
        reads = soup.store.archive_reads
        soup.restart()
    assert reads == 0
    assert "1.-13.-13.folds" in files(soup) and "1.-12.-9.folds" in files(soup)
    soup.check()
    soup.store.close()


@pytest.mark.seeded("the name of a fold lacks WHERE, or FILTER")
def test_names_are_equal_for_equal_measures_and_clauses_alone(soup: RestartingPSoup) -> None:
    texts = [f"SELECT {m} FROM t {where}" for m in MEASURES[:4] for where in WHERE]
    texts += ["SELECT sum(n) FROM t", "SELECT sum(x) FROM t", "SELECT max(x) FROM t", "SELECT min(x) FROM t"]
    texts += ["SELECT sum(n) FILTER (WHERE n > 0) FROM t", "SELECT sum(n) FILTER (WHERE n > 1) FROM t"]
    names = list[bytes | None]()
    for text in [*texts, "select AVG(n) from t", "SELECT count(*) AS z, count(x), sum(n), avg(x), sum(x) + 1 FROM t"]:
        query = soup.register(text)
        record = soup.engine.snapshot().query(query, soup.tenant)
        node = aggregate_of(record.query.plan)
        recipe = None if node is None else recipe_of(node.measures)
        assert recipe is not None
        factors = soup.engine.snapshot().clause(record.sqc_id).factors
        names.append(name_of(1, factors, recipe, 100))
        assert names[-1] not in (name_of(2, factors, recipe, 100), name_of(1, factors, recipe, 99))
    assert len({*names}) == len(texts) == len({*names[: len(texts)]})


def test_folds_are_the_same_after_a_way_through_bytes(soup: RestartingPSoup) -> None:
    ids = [soup.register(f"SELECT {m} FROM t {where} BEGIN (START)") for m in MEASURES[:4] for where in WHERE]
    fill(soup, 240, ask=ids + ids)
    kept = [folds for *_, folds in soup.engine.snapshot().by_id[1].folds.kept()]
    folds = [(folds.recipe, fold) for folds in kept for fold in folds.spans.values()]
    assert len(folds) > len(kept) == len(ids)
    for recipe, fold in folds:
        again = decoded(recipe, encoded(fold))
        assert encoded(again) == encoded(fold)
        assert (again.matched, again.errors, again.failed) == (fold.matched, fold.errors, fold.failed)
        assert encoded(recipe.joined([again, fold])) == encoded(recipe.joined([fold, fold]))


def test_the_newest_names_stay_when_a_sidecar_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar_file, "_LEAST", 32 + 3 * (32 + 100))
    folder, span = sidecars.SidecarFolder(tmp_path), sidecars.ChunkSpan(1, -2, 0, 77, 0)
    names = [bytes([k]) * 16 for k in range(5)]
    assert not folder.has(1, -2, 0)
    for name in names:
        folder.put(span, {name: name * 6 + b"1234"})
    assert folder.has(1, -2, 0)
    assert [folder.find(span, name) for name in names] == [None, None, *[name * 6 + b"1234" for name in names[2:]]]
    folder.put(span, {names[0]: b"x" * 1_000})
    assert [folder.find(span, name) is not None for name in names] == [False, False, True, True, True]
    folder.put(span._replace(checksum=78), {names[0]: b""})
    assert [folder.find(span, name) for name in names] == [None] * 5, "the chunks are others"
    assert folder.find(span._replace(checksum=78), names[0]) == b""


def test_a_name_of_a_file_says_its_chunks() -> None:
    assert ChunkRange(3, -16, 0).file == "3.-16.-1.folds"
    for place in (ChunkRange(3, -16, 0), ChunkRange(1, 0, 1), ChunkRange(12, 256, 512), ChunkRange(1, -1, 15)):
        assert place_of(place.file) == place
    for name in ("3.4.folds", "3.5.4.folds", "3.4.5.folds.new", "3.04.5.folds", "x.1.2.folds", "3.1.2.parquet"):
        assert place_of(name) is None
