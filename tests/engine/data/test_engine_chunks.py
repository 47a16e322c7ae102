"""Chunks and the reorder buffer: views stay as they were, releases come in stream order."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup.data.chunk import OpenChunk
from psoup.data.data_stem import ReorderBuffer
from psoup.model import BIGINT, TEXT, Attribute, Schema
from psoup.values.columns import Batch, lasting_memory
from psoup.values.from_arrow import columns_from_arrow

SCHEMA = Schema((Attribute("number", BIGINT), Attribute("word", TEXT)))
ROWS = st.lists(st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text(max_size=4)), max_size=7)


def batch(rows: list[tuple[int | None, str | None]], times: list[int] | None = None) -> Batch:
    table = pa.table(
        {
            "number": pa.array([row[0] for row in rows], pa.int64()),
            "word": pa.array([row[1] for row in rows], pa.string()),
        }
    )
    instants = np.array(range(len(rows)) if times is None else times, np.int64)
    return Batch(columns_from_arrow(SCHEMA, table), instants)


def rows_of(columns: tuple) -> list[tuple[int | None, str | None]]:
    return list(zip(*(column.to_list() for column in columns), strict=True))


@given(st.lists(ROWS, max_size=12))
def test_a_view_keeps_its_rows_while_the_chunk_grows(parts: list[list[tuple[int | None, str | None]]]) -> None:
    chunk = OpenChunk(SCHEMA, 0, 100, 128)
    everything: list[tuple[int | None, str | None]] = []
    views = []
    for part in parts:
        if len(part) <= chunk.room:
            chunk.append(batch(part))
            everything += part
        views.append((chunk.view(), list(everything)))
    views.append((chunk.close(), everything))
    for view, expected in views:
        assert rows_of(view.columns) == expected
        assert view.end_id == 100 + len(expected)
        assert view.ids_of(0, len(view)).tolist() == list(range(100, view.end_id))


def test_growth_beyond_the_first_buffers_keeps_text_and_nulls() -> None:
    chunk = OpenChunk(SCHEMA, 0, 0, 65_536)
    rows = [(None if i % 3 == 0 else i, None if i % 5 == 0 else "é" * (i % 7)) for i in range(5_000)]
    before = None
    for start in range(0, 5_000, 625):
        chunk.append(batch(rows[start : start + 625]))
        before = before or chunk.view()
    assert rows_of(chunk.view().columns) == rows
    assert before is not None
    assert rows_of(before.columns) == rows[:625]
    assert chunk.nbytes == batch(rows).nbytes


@pytest.mark.parametrize("rows", [65_536, 30_000])
def test_columns_that_stay_lie_apart_and_their_memory_goes_with_them(rows: int) -> None:
    gc.collect()  # what earlier tests have left goes now, and not meanwhile
    before = lasting_memory().bytes_allocated()
    chunk = OpenChunk(SCHEMA, 0, 0, 65_536)
    for start in range(0, rows, 10_000):
        chunk.append(batch([(None, "0123456789")] * min(10_000, rows - start)))
    closed = chunk.close()
    del chunk
    text = 10 * rows
    held = lasting_memory().bytes_allocated() - before
    least = 3 * 8 * rows + rows + text  # times, values and offsets; a validity; texts
    assert least <= held < least + text + 8_192
    del closed
    assert lasting_memory().bytes_allocated() == before


PUSHES = st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=6), st.integers(0, 30)), max_size=50)


@given(PUSHES)
def test_releases_are_in_stream_order_and_complete(pushes: list[tuple[list[int], int]]) -> None:
    buffer = ReorderBuffer()
    waiting: list[tuple[int, int]] = []
    released: list[tuple[int, int]] = []
    watermark, label = 0, 0
    for times, step in pushes:
        taken = [(t, label + i) for i, t in enumerate(times) if t >= watermark]
        label += len(times)
        buffer.add(batch([(name, None) for _, name in taken], [t for t, _ in taken]))
        waiting += taken
        watermark = max(watermark, step)
        expected = sorted(item for item in waiting if item[0] <= watermark)
        waiting = [item for item in waiting if item[0] > watermark]
        got = buffer.release(watermark)
        found = [] if got is None else [*zip(got.batch.times.tolist(), got.batch.columns[0].to_list(), strict=True)]
        assert found == expected
        released += found
        buffer.check()
        assert len(buffer) == len(waiting)
        assert buffer.first_time == min((t for t, _ in waiting), default=None)
    assert released == sorted(released)
