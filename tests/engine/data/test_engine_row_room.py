"""Room for rows: what was dropped is used again, zeroed, and never while anybody looks at it."""

from __future__ import annotations

import numpy as np

from psoup.config import EngineConfig
from psoup.results.open import OpenResults
from psoup.results.pack import seal
from psoup.results.room import RowRoom

WORDS, BLOCK = 1_024, 64
ROWS = 256
"""Two mebibytes: less than one is left to the C library."""


def address(rows: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> int:
    return int(rows.__array_interface__["data"][0])


def test_memory_comes_back_when_the_last_view_is_gone() -> None:
    room = RowRoom(WORDS, BLOCK)
    rows = room.take(ROWS, ROWS)
    assert rows.shape == (WORDS // BLOCK, ROWS, BLOCK)
    assert not rows.any()
    rows[:] = 7
    where, view = address(rows), rows[3]
    del rows
    assert room.nbytes == 0
    other = room.take(ROWS, ROWS)
    assert address(other) != where
    assert (view == 7).all()
    del view
    assert room.nbytes == ROWS * WORDS * 8
    again = room.take(ROWS - 10, ROWS + 10)
    assert address(again) == where
    assert again.shape == (WORDS // BLOCK, ROWS, BLOCK)
    assert not again.any()


def test_rows_begin_with_a_line_of_cache() -> None:
    room = RowRoom(WORDS, BLOCK)
    assert address(room.take(ROWS, ROWS)) % 64 == 0
    assert address(room.bitmaps(ROWS)) % 64 == 0


def test_room_that_was_made_ready_is_taken_and_room_of_another_size_is_not() -> None:
    room = RowRoom(WORDS, BLOCK)
    room.make_ready(ROWS)
    ready = room.nbytes
    assert ready == (ROWS + ROWS // 4) * WORDS * 8
    room.make_ready(ROWS)
    assert room.nbytes == ready
    assert room.take(ROWS, 2 * ROWS).nbytes == ready
    small = room.take(1, 4)
    assert small.nbytes == 4 * WORDS * 8
    room.make_ready(8 * ROWS)
    assert room.take(ROWS, ROWS).shape[1] == ROWS  # eight times too large, so it was given up
    assert room.nbytes <= 2 * ROWS * WORDS * 8


def test_a_sealed_chunk_leaves_its_rows_to_the_next_and_its_bitmaps_to_a_later_one() -> None:
    config = EngineConfig(list_limit=4)
    results = OpenResults(config, ROWS)
    results.ensure_rows(np.arange(ROWS))
    results.rows[:] = np.uint64(0x5555)
    view, room = results.view(config.chunk_rows, np.arange(ROWS)), results.room
    pack = seal(view, view.sqc_of_slot, config.list_limit, room)
    rows, bitmaps = address(results.rows), address(pack.bitmaps)
    successor = results.successor(ROWS)
    del results
    successor.ensure_rows(np.arange(ROWS))
    assert address(successor.rows) != rows  # somebody looks at them
    assert (pack.bitmaps == 0x5555).all()
    del view
    third = successor.successor(ROWS)
    third.ensure_rows(np.arange(ROWS))
    assert address(third.rows) == rows
    assert not third.rows.any()
    assert address(room.bitmaps(ROWS)) != bitmaps
    del pack
    assert address(room.bitmaps(ROWS)) == bitmaps
