"""Tuples of a push as bytes of the log, and back: an Arrow IPC record batch without its schema.

columns  "0": int64 [7, 12, …]   "1": string ["a", …]      in the order of the stream, which gives their types
times    the column TIMESTAMP BY, or one time that all of them have

With a `floor`, a push has no time below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.model import StreamSpec
from psoup.values.columns import Array, Batch, Column
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import arrow_type
from psoup_storage.durable.log.messages import read_batch


def encode_tuples(batch: Batch) -> memoryview:
    """The columns as one Arrow IPC record batch. The schema is left out, because the stream's definition has it."""
    arrays = [column.to_arrow() for column in batch.columns]
    names = [str(position) for position in range(len(arrays))]
    return memoryview(pa.RecordBatch.from_arrays(arrays, names).serialize()).cast("B")


def decode_tuples(spec: StreamSpec, tuples: bytes | memoryview, times: Array | int) -> Batch:
    """The batch of `encode_tuples`; `times`: the time of each tuple, or a time that all of them have.

    Raises ValueError for bytes of another form.
    """
    types = [arrow_type(attribute.type) for attribute in spec.schema.attributes]
    schema = pa.schema([pa.field(str(position), kind) for position, kind in enumerate(types)])
    records = read_batch(tuples, schema)
    columns = tuple(
        column_from_arrow(attribute.name, attribute.type, array)
        for attribute, array in zip(spec.schema.attributes, records.columns, strict=True)
    )
    if isinstance(times, int):
        times = np.full(records.num_rows, times, np.int64)
    return Batch(columns, times)


def times_of(spec: StreamSpec, columns: tuple[Column, ...]) -> Array | None:
    """The times of tuples that have them in a column; else None."""
    return None if spec.time_attribute is None else columns[spec.time_attribute].values


@dataclass(slots=True)
class StoredEnd:
    """The end of the stored part of a stream: after `ties` tuples of the time `time`; see `chunks/folder`."""

    time: int
    ties: int

    def split(self, times: Array, own_times: Array | None = None) -> Array:
        """Positions of the tuples after the stored part, int64. Call it for each batch once, in the log's order.

        `own_times`: int64[n], if `times` are greater for tuples of a table that came late. Equal times are in the
        order of these.
        """
        behind = times > self.time
        level = np.flatnonzero(times == self.time)
        if own_times is not None:
            level = level[np.argsort(own_times[level], kind="stable")]
        behind[level[self.ties :]] = True
        self.ties -= min(self.ties, len(level))
        return np.flatnonzero(behind)
