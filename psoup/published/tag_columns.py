"""Keys and labels of many queries at once, as columns.

    query IDs [7, 9000, 12, …] ── by block ──> the columns of each block, at the places of its queries ─┐
                              └─ the others ─> a record each, looked at once                            ┴─> in order

Replies with many queries use this module. Python takes a step for each query outside blocks, and none for a query of a
block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.published.paged_map import PagedMap
from psoup.published.records import QueryBlock, QueryRecord
from psoup.values.columns import Array

KEY = ""
"""The name that stands for the key. No label has it, because names of labels are never empty."""


def tag_columns(queries: PagedMap[QueryRecord], query_ids: Array, names: Sequence[str]) -> list[pa.StringArray]:
    """For each name the labels of some queries (int64[k]), or their keys (`KEY`): NULL for a query without one.

    O(k log blocks + bytes), and a step of Python for each block and each query outside blocks.
    """
    order, parts = np.arange(0), [[pa.nulls(0, pa.string())] for _ in names]
    for places, tags, rows in _parts(queries, query_ids):
        order = np.concatenate([order, places])
        for column, name in zip(parts, names, strict=True):
            column.append(_texts(tags, rows, name))
    back: Array = np.empty(len(query_ids), np.int64)
    back[order] = np.arange(len(query_ids))
    return [pa.concat_arrays(column).take(pa.array(back)) for column in parts]


def _parts(
    queries: PagedMap[QueryRecord], query_ids: Array
) -> Iterator[tuple[Array, TagColumns | list[Tag] | None, Array]]:
    """Yield (places among `query_ids`, tags, row of each query in the tags).

    The tags are columns or a list, or None if a block has no tags.
    """
    firsts = np.array([block.first for block in queries.blocks], np.int64)
    which = np.searchsorted(firsts, query_ids, "right")
    which = which.astype(np.uint16 if len(firsts) < 1 << 16 else np.uint32)  # NumPy sorts 16-bit integers by radix
    order, ends = np.argsort(which, kind="stable"), np.cumsum(np.bincount(which, minlength=len(firsts) + 1))
    alone = [order[: ends[0]]]
    for number in np.flatnonzero(np.diff(ends)).tolist():
        block, places = queries.blocks[number], order[ends[number] : ends[number + 1]]
        assert isinstance(block, QueryBlock)
        rows = block.places(query_ids[places])
        alone.append(places[rows < 0])
        yield places[rows >= 0], block.tags, rows[rows >= 0]
    places = np.concatenate(alone)
    different, rows = np.unique(query_ids[places], return_inverse=True)
    records = map(queries.get, different.tolist())
    yield places, [NO_TAG if record is None else record.tag for record in records], rows


def _texts(tags: TagColumns | list[Tag] | None, rows: Array, name: str) -> pa.StringArray:
    if isinstance(tags, list):
        values = [(tag.key or None) if name == KEY else dict(tag.labels).get(name) for tag in tags]
        return pa.array(values, pa.string()).take(pa.array(rows))
    column = None if tags is None else tags.keys if name == KEY else dict(tags.labels).get(name)
    if column is None:
        return pa.nulls(len(rows), pa.string())
    texts = column.take(pa.array(rows))
    return texts.dictionary_decode() if isinstance(texts, pa.DictionaryArray) else texts
