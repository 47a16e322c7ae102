"""`ensure`, and checks of single structures: each finds what was spoilt by hand, and says which structure it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from psoup.clauses.costs import ClauseCosts
from psoup.clauses.table import LiveClauses, SlotTable
from psoup.data.refusals import Refusals
from psoup.errors import Corrupt, Internal
from psoup.invariants import corrupt, ensure, shown
from psoup.published.paged_map import Editor, PagedMap
from psoup.published.record_block import RecordBlock
from psoup.results.room import RowRoom


def test_what_does_not_hold_names_the_structure_the_problem_and_numbers() -> None:
    with pytest.raises(Corrupt, match=r"^LiveClauses: two are one \(ids=int64\[1, 2\], count=3\)$") as raised:
        ensure(False, LiveClauses(), "two are one", ids=np.array([1, 2]), count=3)
    assert (raised.value.structure, raised.value.dump) == ("LiveClauses", "ids=int64[1, 2], count=3")
    assert isinstance(raised.value, Internal)
    ensure(np.bool_(True), "anything", "never raised")


def test_the_last_events_are_told_with_it() -> None:
    told = corrupt("rows", "a bit is lost", row=4).after(("7 Pushed to 1", "8 Registered on 1"))
    assert told.message == "rows: a bit is lost (row=4); the last events: 7 Pushed to 1, 8 Registered on 1"


def test_a_dump_is_bounded_and_has_numbers_alone() -> None:
    problem = corrupt("rows", "long", **{f"a{i}": list(range(1_000)) for i in range(500)})
    assert len(problem.message) < 4_200
    assert "… 1,000 in all" in problem.message
    assert shown({1: "secret", 2: [b"secret"], 3: np.array(["secret"])}) == "{1: str, 2: [bytes], 3: ndarray}"
    assert shown(object()) == "object"


def _pages() -> Editor[int]:
    editor = PagedMap[int]().edit()
    for key in (1, 600, 601):
        editor.set(key, key)
    editor.freeze()
    return editor


def _page_in_place(editor: Editor[int]) -> None:
    editor._owned.add(1)  # as if it had been copied
    editor.set(602, 602)


def _directory_in_place(editor: Editor[int]) -> None:
    editor._directory_owned = True
    editor.set(602, 602)


def _stray(editor: Editor[int]) -> None:
    editor._own(1)[5] = 5
    editor._count += 1


@pytest.mark.parametrize("spoil", [_page_in_place, _directory_in_place, _stray])
def test_a_published_page_that_is_written_is_found(spoil: Callable[[Editor[int]], None]) -> None:
    editor = _pages()
    editor.set(1, 11)
    editor.set(700, 700)
    editor.remove(601)
    editor.check()
    spoil(editor := _pages())
    with pytest.raises(Corrupt, match=r"^(Editor|PagedMap): "):
        editor.check()


class _Block(RecordBlock[int]):
    def columns(self) -> tuple[range]:
        return (range(3),)


def test_a_block_counts_who_is_left() -> None:
    block = _Block(range(5, 8))
    block.check()
    block.live = 2
    with pytest.raises(Corrupt, match="records are miscounted"):
        block.check()
    with pytest.raises(Corrupt, match="a column has another length"):
        _Block(range(5, 9)).check()


def test_live_clauses_have_a_slot_each() -> None:
    live = LiveClauses()
    live.add(np.array([1, 2, 5]), np.array([0, 1, 2]))
    live.remove(np.array([2]))
    live.check()
    live._slots[2] = 0
    with pytest.raises(Corrupt, match="two clauses have one slot"):
        live.check()
    live._count += 1
    with pytest.raises(Corrupt, match="live clauses are miscounted"):
        live.check()


def test_a_clause_has_one_slot() -> None:
    table = SlotTable()
    table.allocate(np.array([4, 5]))
    table.check()
    table.sqc_of_slot[1] = 4
    with pytest.raises(Corrupt, match="a clause has two slots"):
        table.check()


def test_costs_are_of_tuples_that_came() -> None:
    costs = ClauseCosts([])
    costs.tuples = 7
    costs.begin(np.array([0]))
    costs.check()
    costs.tuples = 6
    with pytest.raises(Corrupt, match="tuples are miscounted"):
        costs.check()


def test_refusals_are_kept_or_forgotten() -> None:
    refusals = Refusals()
    refusals.add(np.arange(5))
    refusals.check()
    refusals._count = 6
    with pytest.raises(Corrupt, match="refusals are miscounted"):
        refusals.check()


def test_memory_that_was_made_ready_is_zero() -> None:
    room = RowRoom(1_024, 64)
    room.make_ready(128)
    room.check()
    room._zeroed.kept()[0][3] = 1
    with pytest.raises(Corrupt, match="memory is not zero"):
        room.check()
