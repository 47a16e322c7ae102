"""Batches of a table of answers, cut by rows and by bytes; and the rows of several sets in the order of their places.

    batches of the parts    |xxx|xxxxxxxxxxxx|x|x|x|       of any size
    batches that are sent   |xxx|xxxx|xxxx|xxxx|xxx|       at most so many rows and bytes, or one row

A batch that is cut shares its memory with the whole one: what is in memory at once is bounded where rows are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from psoup.columns import Array
from psoup.results.runs import order_of

PLACE = "_query"
"""The name of the first column."""


class BatchLimit(NamedTuple):
    """The most rows and bytes of a batch; a batch of one row may have more bytes."""

    rows: int
    bytes: int


def batches_of(parts: Iterable[pa.RecordBatch], most: BatchLimit) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, in batches as large as may be."""
    held, rows, size = list[pa.RecordBatch](), 0, 0
    for part in parts:
        for batch in slices_of(part, most):
            more = batch.nbytes
            if held and (rows + batch.num_rows > most.rows or size + more > most.bytes):
                yield _one(held)
                held, rows, size = [], 0, 0
            held.append(batch)
            rows, size = rows + batch.num_rows, size + more
    if held:
        yield _one(held)


def slices_of(batch: pa.RecordBatch, most: BatchLimit) -> Iterator[pa.RecordBatch]:
    """The batch in slices. O(1) if it is small enough, else O(rows * columns)."""
    if batch.num_rows <= most.rows and (batch.nbytes <= most.bytes or batch.num_rows <= 1):
        yield batch
        return
    ends, start = _ends(batch), 0
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + most.bytes, "right"))
        stop = min(max(fitting, start + 1), start + most.rows)
        yield batch.slice(start, stop - start)
        start = stop


def _ends(batch: pa.RecordBatch) -> Array:
    """The bytes of all rows up to and with each: int64[rows], ascending."""
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
    places: Array, batches: Callable[[int, int], Iterator[pa.RecordBatch]], most: BatchLimit
) -> Iterator[pa.RecordBatch]:
    """The rows of several sets in the order of their places; rows of one query keep their order.

    places: int64[n], ascending: those of all rows. `batches(last, cut)`: the rows of all sets whose places are greater
    than `last`, and at most `cut`, set after set; of one place all are of one set. It is called again with fewer
    places if they have more than `most`.
    """
    last, at, rows = -1, 0, most.rows
    while at < len(places):
        cut_at = int(places[min(at + rows, len(places)) - 1])
        if int(places[at]) == cut_at:  # of one query
            yield from batches(last, cut_at)
        else:
            some = _gathered(batches(last, cut_at), most.bytes)
            if some is None:  # fewer places, by one at least
                rows = min(rows // 2, int(np.searchsorted(places, cut_at)) - at)
                continue
            yield from _sorted(some, most.rows)
            if 2 * sum([batch.nbytes for batch in some]) < most.bytes:
                rows = min(2 * rows, most.rows)
        last, at = cut_at, int(np.searchsorted(places, cut_at, "right"))


def _gathered(batches: Iterator[pa.RecordBatch], most: int) -> list[pa.RecordBatch] | None:
    """All of the batches; None if they have more than so many bytes."""
    some, size = list[pa.RecordBatch](), 0
    for batch in batches:
        size += batch.nbytes
        if size > most:
            return None
        some.append(batch)
    return some


def _sorted(batches: list[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The rows of some batches in the order of their places; rows of one query keep their order."""
    every = pa.Table.from_batches(batches)
    order = order_of(every.column(PLACE).to_numpy())
    rows = every.take(pa.array(order)).combine_chunks()
    for start in range(0, rows.num_rows, most):
        yield from rows.slice(start, most).to_batches()


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
