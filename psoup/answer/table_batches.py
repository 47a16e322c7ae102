"""Batches of a table of answers: cut by rows and bytes, and merged from several sets in the order of places.

    batches of the parts    |xxx|xxxxxxxxxxxx|x|x|x|       of any size
    batches that are sent   |xxx|xxxx|xxxx|xxxx|xxx|       at most so many rows and bytes, or one row

A slice shares the memory of its batch. `psoup.answer.table` bounds the memory when it computes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from psoup.results.runs import order_of
from psoup.values.columns import Array

PLACE = "_query"
"""The name of the first column."""


class BatchLimit(NamedTuple):
    """The most rows and bytes of a batch. A batch of one row may have more bytes."""

    rows: int
    bytes: int


def batches_of(parts: Iterable[pa.RecordBatch], limit: BatchLimit) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, in batches as large as the limit allows."""
    batches, rows, size = list[pa.RecordBatch](), 0, 0
    for part in parts:
        for batch in slices_of(part, limit):
            more = batch.nbytes
            if batches and (rows + batch.num_rows > limit.rows or size + more > limit.bytes):
                yield _one(batches)
                batches, rows, size = [], 0, 0
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + more
    if batches:
        yield _one(batches)


def slices_of(batch: pa.RecordBatch, limit: BatchLimit) -> Iterator[pa.RecordBatch]:
    """The batch cut into slices within the limit. O(1) if it is small enough, else O(rows * columns)."""
    if batch.num_rows <= limit.rows and (batch.nbytes <= limit.bytes or batch.num_rows <= 1):
        yield batch
        return
    ends, start = _ends(batch), 0
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + limit.bytes, "right"))
        stop = min(max(fitting, start + 1), start + limit.rows)
        yield batch.slice(start, stop - start)
        start = stop


def _ends(batch: pa.RecordBatch) -> Array:
    """The prefix sum of the bytes of each row: int64[rows], ascending."""
    each, texts = 0, np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if pa.types.is_string(column.type):
            offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + batch.num_rows + 1]
            texts += np.diff(offsets)
            each += 5
        else:
            each += -(-column.type.bit_width // 8) + 1
    return np.cumsum(texts + each)


def by_place(
    places: Array, batches: Callable[[int, int], Iterator[pa.RecordBatch]], limit: BatchLimit
) -> Iterator[pa.RecordBatch]:
    """The rows of several sets in the order of their places; rows of one query keep their order.

    `places`: int64[n], ascending, the place of each row. `batches(last, cut)`: the rows with places greater than `last`
    and at most `cut`, set after set. Rows of one place are in one set. If the rows exceed `limit`, `by_place` calls it
    again with a smaller `cut`.
    """
    last, at, rows = -1, 0, limit.rows
    while at < len(places):
        cut_at = int(places[min(at + rows, len(places)) - 1])
        if int(places[at]) == cut_at:  # the rows of one query
            yield from batches(last, cut_at)
        else:
            some = _gathered(batches(last, cut_at), limit.bytes)
            if some is None:  # try fewer places, at least one less
                rows = min(rows // 2, int(np.searchsorted(places, cut_at)) - at)
                continue
            yield from _sorted(some, limit.rows)
            if 2 * sum([batch.nbytes for batch in some]) < limit.bytes:
                rows = min(2 * rows, limit.rows)
        last, at = cut_at, int(np.searchsorted(places, cut_at, "right"))


def _gathered(batches: Iterator[pa.RecordBatch], max_bytes: int) -> list[pa.RecordBatch] | None:
    """All of the batches in a list. Returns None if they have more than `max_bytes` bytes."""
    some, size = list[pa.RecordBatch](), 0
    for batch in batches:
        size += batch.nbytes
        if size > max_bytes:
            return None
        some.append(batch)
    return some


def _sorted(batches: list[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of the batches in the order of their places. Rows of one query keep their order."""
    every = pa.Table.from_batches(batches)
    order = order_of(every.column(PLACE).to_numpy())
    rows = every.take(pa.array(order)).combine_chunks()
    for start in range(0, rows.num_rows, max_rows):
        yield from rows.slice(start, max_rows).to_batches()


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
