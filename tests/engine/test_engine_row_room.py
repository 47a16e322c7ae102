"""Room for rows: what was dropped is used again, zeroed, and never while anybody looks at it."""

from __future__ import annotations

import numpy as np

from psoup.config import EngineConfig
from psoup.results.open import OpenResults
from psoup.results.room import RowRoom
from psoup.results.sealed import seal

WORDS = 1_024
ROWS = 256
"""Two mebibytes: less than one is left to the C library."""


def address(rows: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> int:
    return int(rows.__array_interface__["data"][0])


def test_memory_comes_back_when_the_last_view_is_gone() -> None:
    room = RowRoom(WORDS)
    rows = room.take(ROWS, ROWS)
    assert rows.shape == (ROWS, WORDS)
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
    assert again.shape == (ROWS, WORDS)
    assert not again.any()


def test_room_that_was_made_ready_is_taken_and_room_of_another_size_is_not() -> None:
    room = RowRoom(WORDS)
    room.make_ready(ROWS)
    ready = room.nbytes
    assert ready == (ROWS + ROWS // 4) * WORDS * 8
    room.make_ready(ROWS)
    assert room.nbytes == ready
    assert room.take(ROWS, 2 * ROWS).nbytes == ready
    small = room.take(1, 4)
    assert small.nbytes == 4 * WORDS * 8
    room.make_ready(8 * ROWS)
    assert len(room.take(ROWS, ROWS)) == ROWS  # eight times too large, so it was given up
    assert room.nbytes <= 2 * ROWS * WORDS * 8


def test_a_sealed_chunk_keeps_its_bitmaps_and_gives_their_room_to_a_later_one() -> None:
    config = EngineConfig(list_limit=4)
    results = OpenResults(config, ROWS)
    results.ensure_rows(np.arange(ROWS))
    results.rows[:ROWS] = np.uint64(0x5555)
    view = results.view(config.chunk_rows, np.arange(ROWS))
    pack = seal(view, view.sqc_of_slot, config.list_limit)
    where = address(pack.bitmaps)
    assert where == address(results.rows)
    del view
    successor = results.successor(ROWS)
    del results
    successor.ensure_rows(np.arange(ROWS))
    assert not successor.rows.any()
    assert (pack.bitmaps[:ROWS] == 0x5555).all()
    del pack
    third = successor.successor(ROWS)
    third.ensure_rows(np.arange(ROWS))
    assert address(third.rows) == where
    assert not third.rows.any()
