"""Matches that a job computed: they are used, they leave with their chunks, and no answer needs them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from psoup.matching.outside import Beforehand
from psoup_proto.file_names import backup_path
from psoup_storage.durable.tools.backup import restore
from psoup_storage.formats.matches import are_ranges
from psoup_testing.engines import past
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.batches import seconds
from psoup_testing.engines.past import CONFIG, EVENTS, examine_closed, rows, values
from psoup_testing.engines.restarts import RestartingPSoup

soup = past.soup
TEXTS = [
    "SELECT x FROM s WHERE x % 3 = 0 BEGIN (START)",
    "SELECT x FROM s WHERE x % 3 = 0 AND w = 'w1' BEGIN (START)",
    "SELECT w FROM s WHERE x % 3 = 0 BEGIN (START)",
    "SELECT x FROM s WHERE x < 0 BEGIN (START)",
    "SELECT x FROM s WHERE x + 9223372036854775600 > 0 BEGIN (START)",
    "SELECT x FROM s BEGIN (START)",
]


def with_matches(soup: RestartingPSoup, name: str, queries: list[tuple[int, str]], incarnation: str) -> Path:
    """A job directory with what the queries match."""
    folder = soup.path.parent / name
    spec = soup.engine.snapshot().stream("s", "default").spec
    known = Beforehand(spec, queries)
    write(folder, spec, rows(100, 300), seconds(100, 300), range(0, 200, 64), known, incarnation)
    return folder


def test_what_was_found_beforehand_is_used_and_never_needed(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    ids = [soup.register(text) for text in TEXTS]
    known = list(zip(ids, TEXTS, strict=True))
    soup.push("s", rows(300, 400))
    attach(soup, "s", "job", with_matches(soup, "one", known, soup.store.incarnation))
    born = soup.register("SELECT x FROM s WHERE x % 5 = 0 BEGIN (START)")
    same = soup.register(TEXTS[0])
    wanted = [values(soup, query) for query in (*ids, born, same)]
    assert wanted[0] == wanted[-1] == [n for n in range(100, 400) if n % 3 == 0]
    assert [len(found) for found in wanted] == [100, 14, 100, 0, 108, 300, 60, 100]
    failures = soup.invoke(ids[4]).completeness.errors
    assert failures == 192

    def forms(query: int) -> int:
        return soup.explain(query).source.column_forms.get("on disk", 0)

    for _ in range(2):
        assert [forms(query) for query in (*ids, born, same)] == [4, 4, 4, 4, 4, 0, 0, 4]
        assert soup.invoke(ids[4]).completeness.errors == failures
        soup.restart()
    soup.unregister(ids[0])
    assert (forms(ids[2]), forms(same)) == (4, 4), "another query of the clause was evaluated"
    soup.unregister(ids[2])
    assert (forms(same), values(soup, same)) == (0, wanted[0])
    asked = (ids[1], ids[3], ids[4], same)
    for damage in ("bit", "column", "cut", "gone"):
        for path in (soup.path / "chunks").glob("*.matches"):
            content = bytearray(path.read_bytes())
            content[60 if damage == "bit" else -1] ^= 1
            path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
            if damage == "gone":
                path.unlink()
        soup.restart()
        assert [values(soup, query) for query in asked] == [wanted[1], wanted[3], wanted[4], wanted[0]], damage
    assert examine_closed(soup).well
    soup.restart()


def test_matches_go_with_copies_and_with_their_chunks(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS + " RETENTION 400 SECONDS")
    query = soup.register(TEXTS[0])
    attach(soup, "s", "job", with_matches(soup, "one", [(query, TEXTS[0])], soup.store.incarnation))
    assert len(list((soup.path / "chunks").glob("*.matches"))) == 4
    with closing(soup.store.freeze()) as frozen:
        assert sum(name.endswith(".matches") for name, _ in frozen.files) == 4
        assert all(backup_path(name) for name, _ in frozen.files), frozen.files
    soup.store.close()
    restore(soup.path, soup.path.parent / "copy")
    copy = RestartingPSoup(CONFIG, soup.clock, soup.path.parent / "copy")  # type: ignore[arg-type]
    assert copy.explain(query).source.column_forms["on disk"] == 4
    copy.store.close()
    soup.restart()
    for first in range(300, 900, 50):
        soup.push("s", rows(first, first + 50))
        soup.maintain()
    assert not list((soup.path / "chunks").glob("*.matches"))


def test_matches_of_another_incarnation_are_left_out(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    query = soup.register(TEXTS[0])
    attach(soup, "s", "job", with_matches(soup, "one", [(query, TEXTS[3])], "another"))
    assert values(soup, query) == [n for n in range(100, 300) if n % 3 == 0]
    assert "on disk" not in soup.explain(query).source.column_forms


def test_ranges_of_queries_that_descend_by_more_than_64_bits_are_refused() -> None:
    assert are_ranges(np.array([[5, 6], [6, 2**63 - 1]]))
    assert not are_ranges(np.array([[5, 2**63 - 1], [-(2**63), -1]]))
