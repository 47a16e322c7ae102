"""Seeded bugs: the product is broken by a patch, and the next event or piece of maintenance finds it.

Each bug is tried at both levels: `all` finds every one; `cheap`, which runs in production, those that change a count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.clauses.index.combine import MergeResult
from psoup.clauses.index.predicate_index import Part
from psoup.clauses.names import ClauseNames
from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.table import SlotTable
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.data.data_stem import DataSteM
from psoup.engine.maintenance import seal
from psoup.engine.stream.attention import Attention
from psoup.engine.stream.shelf import Shelf
from psoup.engine.verification import STORY
from psoup.errors import Corrupt
from psoup.invariants import Verify
from psoup.local import LocalPSoup
from psoup.published.paged_map import Editor
from psoup.results.chunk_results import ChunkResults
from psoup.results.open import OpenResults
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=32, block_rows=64, delta_queries=8)


def _soup(verify: Verify) -> LocalPSoup:
    """A chunk and a half of tuples, some clauses, all maintenance done but for the last clause."""
    soup = LocalPSoup(SMALL, verify=verify)
    soup.execute("CREATE STREAM s (x BIGINT)")
    for bound in range(20):
        soup.register(f"SELECT x FROM s WHERE x > {bound}")
    _push(soup, 96)
    soup.maintain()
    soup.register("SELECT x FROM s WHERE x = 3")
    return soup


def _push(soup: LocalPSoup, rows: int = 4) -> None:
    soup.push("s", pa.table({"x": np.arange(rows) % 24}))


def _fill(soup: LocalPSoup) -> None:
    _push(soup, 32)


def _unregister(soup: LocalPSoup) -> None:
    soup.unregister(2)


def _register(soup: LocalPSoup) -> None:
    soup.register("SELECT x FROM s WHERE x > 3 AND x < 7")


def _maintain(soup: LocalPSoup) -> None:
    soup.maintain()


def _after(cls: type, method: str, then: Callable[..., None]) -> Callable[[pytest.MonkeyPatch], None]:
    """`then` is called with the arguments of a method, when that is done."""
    original = getattr(cls, method)

    def broken(self: Any, *args: Any, **named: Any) -> Any:
        result = original(self, *args, **named)
        then(self, *args)
        return result

    return lambda patch: patch.setattr(cls, method, broken)


def _instead(owner: Any, name: str, broken: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, broken)


def _put_nowhere(shelf: Shelf, data: ChunkView, *_: Any) -> None:
    shelf.tuple_bytes += data.nbytes


def _merged_twice(stem: QuerySteM, result: MergeResult) -> None:
    stem._parts.append(Part.of(result.merged.index))


def _in_place(editor: Editor[Any], number: int) -> dict[int, Any]:
    editor._owned.add(number)
    return editor._pages.setdefault(number, {})


def _covers_too_much(results: ChunkResults, pack: Any, ids: Any, before: int, *_: Any) -> ChunkResults:
    return ChunkResults(None, results.packs, covered_before=before, compacted=results.compacted)


def _seal_nothing(view: Any, sqc_of_slot: Any, *rest: Any) -> Any:
    return seal_of(view, np.full_like(sqc_of_slot, -1), *rest)


seal_of = seal.seal

Bug = tuple[Callable[[pytest.MonkeyPatch], None], Callable[[LocalPSoup], None], bool]

BUGS: dict[str, Bug] = {
    "a push changes a stream, and it is not published": (_instead(Attention, "changed", lambda *_: None), _push, True),
    "a chunk is closed, and not on the shelf": (_instead(Shelf, "put", _put_nowhere), _fill, True),
    "work is due, and nobody will look after it": (
        _instead(Attention, "look_after", lambda *_: None),
        lambda soup: (_maintain(soup), _fill(soup))[0],
        False,
    ),
    "a chunk begins one tuple too late": (
        _after(DataSteM, "close", lambda data: setattr(data.open, "first_id", data.open.first_id + 1)),
        _fill,
        True,
    ),
    "a slot is in two parts": (_after(QuerySteM, "install", _merged_twice), _maintain, True),
    "a clause stays in the index when it is gone": (_instead(Part, "kill", lambda *_: True), _unregister, True),
    "a clause is in the names, and not in the slots": (
        _instead(ClauseNames, "forget", lambda *_: None),
        _unregister,
        True,
    ),
    "a slot is never released": (_instead(SlotTable, "release", lambda *_: None), _unregister, True),
    "a published page is written in place": (_instead(Editor, "_own", _in_place), _register, False),
    "a chunk counts as covered, and is not": (_instead(ChunkResults, "covered", _covers_too_much), _maintain, False),
    "matches of an open chunk are lost": (_instead(OpenResults, "append_run", lambda *_: None), _fill, False),
    "matches are lost when a chunk is sealed": (
        _instead(seal, "seal", _seal_nothing),
        lambda soup: (_fill(soup), _maintain(soup))[0],
        False,
    ),
}


@pytest.mark.parametrize("verify", swept(["cheap", "all"], fast=(1,)))
@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_found_within_one_event(name: str, verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, act, counted = BUGS[name]
    soup = _soup(verify)
    published = soup.engine.snapshot()
    seed(monkeypatch)
    if verify == "cheap" and not counted:
        act(soup)  # cheap counts, and nothing is miscounted
        return
    with pytest.raises(Corrupt) as raised:
        act(soup)
    assert raised.value.structure in raised.value.message
    assert raised.value.story[-1].startswith(str(soup.engine._sequence))
    assert soup.engine.snapshot().sequence in (published.sequence, soup.engine._sequence - 1, soup.engine._sequence)


@pytest.mark.parametrize("verify", swept(["cheap", "all"], fast=(1,)))
@pytest.mark.parametrize("act", [_push, _fill, _unregister, _register, _maintain])
def test_without_a_bug_nothing_is_found(act: Callable[[LocalPSoup], None], verify: Verify) -> None:
    act(_soup(verify))


@pytest.mark.parametrize("verify", ["cheap", "all"])
def test_a_chunk_that_is_stored_need_not_be_published(verify: Verify) -> None:
    soup = LocalPSoup(SMALL, keep=lambda stream, spec, chunk, oldest: None, verify=verify)
    soup.execute("CREATE STREAM s (x BIGINT)")
    for _ in range(3):
        _fill(soup)
        soup.maintain()


def test_off_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = _soup("off")
    BUGS["a slot is never released"][0](monkeypatch)
    _unregister(soup)
    assert soup.engine._verification.story == ()


def test_what_is_broken_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = _soup("cheap")
    before = soup.engine.snapshot()
    monkeypatch.setattr(SlotTable, "release", lambda *_: None)
    with pytest.raises(Corrupt, match="names, slots and IDs are not of the same clauses"):
        soup.unregister(2)
    assert soup.engine.snapshot() is before


def test_the_story_is_the_last_events_as_short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = _soup("cheap")
    for _ in range(30):
        _push(soup, 1)
    soup.unregister(1)
    story = soup.engine._verification.story
    assert len(story) == STORY
    assert [text.split(" ", 1)[1] for text in story[-2:]] == ["Pushed on stream 1", "Unregistered of query 1"]


def test_streams_that_go_are_counted_no_more() -> None:
    soup = _soup("all")
    soup.execute("CREATE STREAM other (y BIGINT)")
    query = soup.register("SELECT y FROM other WHERE y > 1")
    soup.unregister(query)
    soup.execute("DROP STREAM other")
    _push(soup)
    _register(soup)
