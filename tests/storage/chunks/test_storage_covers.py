"""Covers: queries that came later are evaluated over chunks on disk by a job, and no answer changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.errors import InvalidInput, OutOfRange, ResourceExhausted
from psoup.matching.outside import Beforehand
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_storage.durable.chunks import covers
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.formats.facts import MANIFEST, read_facts, write_facts
from psoup_testing.engines.attachments import attach, take, write, write_job
from psoup_testing.engines.past import rows
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, archive_rows=200)
ARCHIVED = "CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t RETENTION 100 SECONDS ARCHIVE 9900 SECONDS"
TEXTS = [
    "SELECT x FROM s WHERE x % 3 = 0 BEGIN (START)",
    "SELECT x FROM s WHERE w = 'w1' AND x % 2 = 0 BEGIN (START)",
    "SELECT x FROM s WHERE _time < TIMESTAMP '1970-01-01 00:01:50' OR x BETWEEN 303 AND 305 BEGIN (START)",
    "SELECT x FROM s WHERE x + 9223372036854775600 > 0 BEGIN (NOW - 600 ROWS)",
]


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    """Chunks -4 to -1 attached, 0 to 5 in the archive, the rest in memory; no query stood then."""
    made = RestartingPSoup(CONFIG, VirtualClock(1_000 * SECOND), tmp_path / "data")
    made.execute(ARCHIVED)
    spec, times = made.engine.snapshot().by_id[1].spec, [n * SECOND for n in range(100, 300)]
    write(tmp_path / "history", spec, rows(100, 300), times, range(0, 200, 50))
    attach(made, "s", "job", tmp_path / "history")
    for first in range(300, 820, 40):
        made.push("s", rows(first, first + 40))
        made.maintain()
    assert made.engine.snapshot().by_id[1].archived == 10
    yield made
    made.check()
    made.store.close()


def values(soup: RestartingPSoup, query: int, budget: int = 2**40) -> list[int]:
    """What the query answers, if it may evaluate so many tuples on disk."""
    snapshot = replace(soup.engine.snapshot(), config=replace(CONFIG, archive_rows=budget))
    answer = invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now())
    return list(answer.to_table().columns[0].to_pylist())


def forms(soup: RestartingPSoup, query: int) -> int:
    """Over how many chunks on disk it was evaluated by a job."""
    return soup.explain(query).source.column_forms.get("on disk", 0)


def test_a_job_covers_queries_that_came_later_and_no_answer_changes(soup: RestartingPSoup, tmp_path: Path) -> None:
    ids = [soup.register(text) for text in TEXTS]
    plain = soup.register("SELECT x FROM s BEGIN (START)")
    wanted = [values(soup, query) for query in ids]
    assert wanted[0] == [n for n in range(100, 820) if n % 3 == 0]
    assert wanted[2] == [*range(100, 110), 303, 304, 305]
    assert [forms(soup, query) for query in ids] == [0, 0, 0, 0]
    with pytest.raises(ResourceExhausted, match=r"584 tuples of the window .* `psoup spark cover ID`") as refused:
        soup.invoke(ids[0])
    assert (refused.value.reason, refused.value.facts["limit"]) == ("ARCHIVE_BUDGET", "200")
    assert write_job(soup, tmp_path / "one", [*ids, plain]) == 10
    assert values(soup, ids[1], 600) == wanted[1], "nothing is seen of it yet"
    assert take(soup, tmp_path / "one", "s") == (10, 584)
    shutil.rmtree(tmp_path / "one")
    assert write_job(soup, tmp_path / "two", ids) == 0
    for _ in range(2):
        assert [values(soup, query, 0) for query in ids] == wanted
        assert [forms(soup, query) for query in ids] == [10, 10, 10, 10]
        assert soup.invoke(ids[3]).completeness.errors > 0
        soup.restart()
    assert soup.explain(plain).source.column_forms["all"] >= 10
    same = soup.register(TEXTS[0])
    assert (forms(soup, same), values(soup, same, 0)) == (10, wanted[0]), "another query of the clause was covered"


def test_what_is_lost_of_a_cover_is_covered_again(soup: RestartingPSoup, tmp_path: Path) -> None:
    query = soup.register(TEXTS[0])
    write_job(soup, tmp_path / "one", [query])
    take(soup, tmp_path / "one", "s")
    next((soup.path / covers.FOLDER).glob("*/1-3.*")).unlink()
    soup.restart()
    assert forms(soup, query) == 9
    assert write_job(soup, tmp_path / "two", [query]) == 1
    assert (take(soup, tmp_path / "two", "s").chunks, forms(soup, query)) == (1, 10)


def test_explain_says_which_part_of_the_past_is_covered(soup: RestartingPSoup, tmp_path: Path) -> None:
    query = soup.register(TEXTS[0])
    before = soup.explain(query)
    (whole,) = before.source.uncovered
    assert (whole.begin, whole.end, whole.chunks, whole.tuples) == (
        "1970-01-01 00:01:40Z",
        "1970-01-01 00:11:23Z",
        10,
        584,
    )
    assert (before.source.to_evaluate, before.source.refused, before.source.archived_covered) == (584, True, 0)
    text = "\n".join(before.lines("q-1-7"))
    assert "at least 46 match" in text
    assert "not covered: 1970-01-01 00:01:40Z to 1970-01-01 00:11:23Z: 10 chunks, 584 tuples" in text
    assert (
        "refused: it would have to evaluate 584 of these tuples, in 10 chunks, and one invocation may evaluate 200 (arc"
        in text
    )
    assert "psoup spark cover q-1-7" in text
    view = soup.engine.snapshot().by_id[1]
    write_job(soup, tmp_path / "job", [query])
    soup.store.cover(tmp_path / "job", [view.chunks[k].data for k in (0, 1, 5, 6, 7)])  # type: ignore[misc]
    half = soup.explain(query)
    assert [(span.chunks, span.tuples) for span in half.source.uncovered] == [(3, 164), (2, 128)]
    assert (half.source.archived_covered, half.source.to_evaluate, half.source.refused) == (5, 292, True)
    take(soup, tmp_path / "job", "s")
    after = soup.explain(query)
    assert (after.source.uncovered, after.source.to_evaluate, after.source.refused) == ((), 0, False)
    assert after.source.matches_in_window == 240
    assert "10 of the chunks are on disk, 10 of them covered" in "\n".join(after.lines())
    narrow = soup.register("SELECT x FROM s WHERE x < 200 BEGIN (START)")
    seen = soup.explain(narrow)
    assert (seen.source.to_evaluate, seen.source.refused) == (100, False), (
        "zones say that no other chunk has such tuples"
    )
    assert "an invocation evaluates 100 of these tuples, in 2 chunks" in "\n".join(seen.lines())


SPOILS = ["no manifest", "no matches", "bit", "other chunk", "other incarnation", "history", "path"]


@pytest.mark.parametrize("spoil", swept(SPOILS, fast=3))
def test_a_directory_that_is_not_whole_is_refused(soup: RestartingPSoup, tmp_path: Path, spoil: str) -> None:
    query = soup.register(TEXTS[0])
    folder = tmp_path / "job"
    write_job(soup, folder, [query])
    one, other = sorted(folder.glob("*.matches"))[:2]
    if spoil == "no manifest":
        (folder / MANIFEST).unlink()
    elif spoil == "no matches":
        one.unlink()
    elif spoil == "bit":
        content = bytearray(one.read_bytes())
        content[60] ^= 1
        one.write_bytes(content)
    elif spoil == "other chunk":
        shutil.copy(other, one)
    elif spoil == "history":
        folder = tmp_path / "history"
    else:
        facts = read_facts(folder)
        facts |= {"incarnation": "other"} if spoil == "other incarnation" else {"covered": ["../x"]}
        write_facts(folder, facts)
    with pytest.raises(InvalidInput) as refused:
        take(soup, folder, "s")
    assert refused.value.reason == "BAD_HISTORY"
    assert "run the job again" in refused.value.message
    assert forms(soup, query) == 0
    assert not list((soup.path / covers.FOLDER).glob("*"))


def test_what_is_lost_of_a_cover_is_evaluated_again(soup: RestartingPSoup, tmp_path: Path) -> None:
    query = soup.register(TEXTS[0])
    wanted = values(soup, query)
    write_job(soup, tmp_path / "job", [query])
    take(soup, tmp_path / "job", "s")
    soup.restart()
    files = sorted((soup.path / covers.FOLDER).rglob("*.matches"))
    for at, path in enumerate(files):
        content = bytearray(path.read_bytes())
        if at % 3 == 0:
            path.unlink()
        else:
            content[60 if at % 3 == 1 else -1] ^= 1
            path.write_bytes(content)
    assert (forms(soup, query), values(soup, query)) == (0, wanted)
    soup.store.close()
    assert examine(soup.path).well
    soup.restart()
    assert values(soup, query) == wanted
    (manifest,) = (soup.path / covers.FOLDER).rglob(MANIFEST)
    manifest.write_text("{", encoding="utf-8")
    (soup.path / covers.FOLDER / "half.new").mkdir()
    soup.restart()
    assert not os.listdir(soup.path / covers.FOLDER)


def test_a_cover_goes_with_its_chunks_and_its_incarnation(soup: RestartingPSoup, tmp_path: Path) -> None:
    query = soup.register(TEXTS[0])
    write_job(soup, tmp_path / "job", [query])
    take(soup, tmp_path / "job", "s")
    soup.store.close()
    restore(soup.path, tmp_path / "copy")
    copy = RestartingPSoup(CONFIG, soup.clock, tmp_path / "copy")  # type: ignore[arg-type]
    assert (forms(copy, query), values(copy, query)) == (0, values(soup, query))
    copy.store.close()
    soup.restart()
    soup.clock.set(10_400 * SECOND)  # type: ignore[attr-defined]
    for first in range(10_000, 10_400, 100):
        soup.push("s", rows(first, first + 100))
        soup.maintain()
    left = {path.name for path in (soup.path / covers.FOLDER).rglob("*.matches")}
    assert left == {f"{name}.matches" for name in os.listdir(soup.path / "chunks")} & left
    assert 0 < len(left) < 10
    soup.execute("CREATE STREAM other (x BIGINT)")
    soup.unregister(query)
    soup.execute("DROP STREAM s")
    soup.restart()
    assert not os.listdir(soup.path / covers.FOLDER)


def test_a_full_disk_takes_nothing(soup: RestartingPSoup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = soup.register(TEXTS[0])
    write_job(soup, tmp_path / "job", [query])
    links = os.link

    def full(source: str, target: Path, **how: Any) -> None:
        if target.name.startswith("1-3"):
            raise OSError(28, "no space")
        links(source, target, **how)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", full)
        with pytest.raises(ResourceExhausted, match="the matches find no room"):
            take(soup, tmp_path / "job", "s")
    assert not os.listdir(soup.path / covers.FOLDER)
    assert (take(soup, tmp_path / "job", "s").chunks, forms(soup, query)) == (10, 10)


def test_ids_of_queries_that_were_set_aside_find_nothing_of_others(soup: RestartingPSoup, tmp_path: Path) -> None:
    """The damaged row of the newest query leaves the log, so its ID is given out again."""
    soup.push("s", rows(820, 821))
    query = soup.register(TEXTS[0])
    spec, times = soup.engine.snapshot().by_id[1].spec, [n * SECOND for n in range(50, 100)]
    known = Beforehand(spec, [(query, TEXTS[0])])
    write(tmp_path / "older", spec, rows(50, 100), times, [], known, soup.store.incarnation)
    attach(soup, "s", "older", tmp_path / "older")
    assert forms(soup, query) == 1
    write_job(soup, tmp_path / "job", [query])
    take(soup, tmp_path / "job", "s")
    with soup.store._database.transaction() as connection:
        connection.execute("UPDATE log SET checksum = checksum + 1 WHERE kind = 'query'")
    soup.store.close()
    assert examine(soup.path, aside=True).findings
    found = RestartingPSoup(CONFIG, soup.clock, soup.path)  # type: ignore[arg-type]
    again = found.register(TEXTS[1])
    assert again == query
    assert (forms(found, again), values(found, again)) == (0, [n for n in range(50, 821) if n % 7 == 1 and n % 2 == 0])
    found.store.close()
    soup.store, soup.engine, soup.admission = found._open(), found.engine, found.admission


def test_an_attached_chunk_that_is_damaged_is_set_aside_with_what_lies_beside_it(
    soup: RestartingPSoup, tmp_path: Path
) -> None:
    query = soup.register(TEXTS[0])
    spec, times = soup.engine.snapshot().by_id[1].spec, [n * SECOND for n in range(50, 100)]
    known = Beforehand(spec, [(query, TEXTS[0])])
    write(tmp_path / "older", spec, rows(50, 100), times, [], known, soup.store.incarnation)
    attach(soup, "s", "older", tmp_path / "older")
    write_job(soup, tmp_path / "job", [query])
    take(soup, tmp_path / "job", "s")
    damaged = next(row for row in soup.store._manifest("ORDER BY number") if row.number == -3)
    soup.store.close()
    path = soup.path / "chunks" / damaged.file
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    report = examine(soup.path, aside=True)
    assert [one.place for one in report.findings if one.repaired] == [f"chunks/{damaged.file}"]
    assert "tuples -150 to -101 of stream s" in report.findings[0].lost
    soup.store = soup._open()
    soup._replay()
    assert soup.engine.snapshot().by_id[1].first_id == -100
    snapshot = replace(soup.engine.snapshot(), config=replace(CONFIG, archive_rows=0))
    answer = invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now())
    assert answer.to_table().columns[0].to_pylist() == [n for n in range(200, 820) if n % 3 == 0]
    with pytest.raises(OutOfRange, match="begins before the oldest tuple kept"):
        soup.invoke(query, window="BEGIN TIMESTAMP '1970-01-01 00:02:00' END (NOW)")
    left = {path.name.removesuffix(".matches") for path in soup.path.rglob("*.matches")}
    assert left <= {row.file for row in soup.store._manifest("")}


def test_what_was_found_for_queries_that_are_gone_goes(soup: RestartingPSoup, tmp_path: Path) -> None:
    one, two = soup.register(TEXTS[0]), soup.register(TEXTS[1])
    for number, queries in enumerate(([one], [one, two])):
        write_job(soup, tmp_path / str(number), queries)
        assert take(soup, tmp_path / str(number), "s").chunks == 10
    soup.unregister(one)
    assert soup.store.prune_covers(lambda number: number == two) == 1
    assert len(os.listdir(soup.path / covers.FOLDER)) == 1
    assert forms(soup, two) == 10
    soup.unregister(two)
    assert soup.store.prune_covers(lambda number: False) == 1
    assert not os.listdir(soup.path / covers.FOLDER)
    again = soup.register(TEXTS[1])
    assert (forms(soup, again), len(values(soup, again))) == (0, 51)
