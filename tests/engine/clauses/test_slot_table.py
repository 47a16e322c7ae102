"""Slots: their owners, and the view of a reader that has an older table."""

from __future__ import annotations

import numpy as np

from psoup.clauses.table import SlotTable


def _table(*sqc_ids: int) -> SlotTable:
    table = SlotTable()
    assert table.allocate(np.array(sqc_ids)).tolist() == list(range(len(sqc_ids)))
    return table


def test_a_closed_chunk_names_no_slot_that_is_dead() -> None:
    table = _table(7, 8, 9)
    table.release(np.array([1]))
    assert table.live_mapping()[:3].tolist() == [7, -1, 9]
    assert table.sqc_of_slot[:3].tolist() == [7, 8, 9]


def test_without_a_dead_slot_the_table_itself_is_what_a_closed_chunk_gets() -> None:
    table = _table(7, 8, 9)
    assert table.live_mapping() is table.sqc_of_slot


def test_a_mapping_that_was_given_out_keeps_its_owners_when_slots_are_used_again() -> None:
    table = _table(7, 8, 9)
    mapping = table.live_mapping()
    table.release(np.array([1]))
    table.free_dead()
    assert table.allocate(np.array([20])).tolist() == [1]
    assert mapping[:3].tolist() == [7, 8, 9]
    assert table.sqc_of_slot[:3].tolist() == [7, 20, 9]
    table.check()
