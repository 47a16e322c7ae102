"""Arguments for the kernels that read pages of Parquet files: as the library writes them, some a bit different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psoup.kernels.plain.rows.parquet_deltas import page_facts as plain_facts
from psoup.kernels.rows.parquet_deltas import COUNT, FACTS, SIZE

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _page(rng: Rng) -> tuple[Any, int, int, bool]:
    """A file, where a page of it begins and ends, and whether the page has levels."""
    spread, levels = int(rng.choice([1, 2, 90, 10**6, 2**62])), bool(rng.integers(2))
    values = rng.integers(-spread, spread, int(rng.integers(1, 700)))
    if rng.random() < 0.3:
        values[: len(values) // 2] = np.arange(len(values) // 2)  # parts of width 0
    if rng.random() < 0.1:
        values[-2:] = -(2**63), 2**63 - 1
    column = pa.array(values, mask=np.arange(len(values)) % 9 == 3 if levels and rng.random() < 0.2 else None)
    kind = pa.int32() if spread < 2**31 and not abs(values).max() >= 2**31 and rng.random() < 0.3 else pa.int64()
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table([column.cast(kind)], schema=pa.schema([pa.field("x", kind, levels)])),
        sink,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
        column_encoding={"x": "DELTA_BINARY_PACKED" if rng.random() < 0.9 else "PLAIN"},
    )
    file = sink.getvalue()
    facts = pq.read_metadata(pa.BufferReader(file)).row_group(0).column(0)
    start = facts.data_page_offset
    return np.frombuffer(file, np.uint8).copy(), start, start + facts.total_compressed_size, levels


def page_facts(rng: Rng) -> Arguments:
    """The head of a page."""
    file, start, end, _ = _page(rng)
    if rng.random() < 0.5:
        file[start + int(rng.integers(0, 40))] ^= 1 << int(rng.integers(0, 8))
    return file, start, end, np.zeros(FACTS, np.int64)


def unpack_deltas(rng: Rng) -> Arguments:
    """The body of a page, or something like it."""
    file, start, end, levels = _page(rng)
    facts = np.zeros(FACTS, np.int64)
    body = plain_facts(file, start, end, facts)
    size, count = int(facts[SIZE]), int(facts[COUNT])
    words = np.zeros(size // 8 + 4, np.uint64)
    words.view(np.uint8)[:size] = file[body : body + size]
    if rng.random() < 0.3:
        words.view(np.uint8)[int(rng.integers(0, min(size, 30)))] ^= 1 << int(rng.integers(0, 8))
    size -= int(rng.integers(1, 9)) if rng.random() < 0.1 else 0
    return words, size, levels, count, np.zeros(count, np.int64)


CASES: dict[str, Callable[[Rng], Arguments]] = {
    "rows.parquet_deltas.page_facts": page_facts,
    "rows.parquet_deltas.unpack_deltas": unpack_deltas,
}
