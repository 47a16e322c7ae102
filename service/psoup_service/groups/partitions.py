"""The partition of each query: a stable hash of its labels, else of its key, else of its ID.

    labels {user: u1}  ── "user\\0u1" ── CRC-32, modulo 64 ──> partition 17

The partition of a query is the same in every version and on every machine: the log has a position for each partition.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.events.groups import PARTITIONS
from psoup.values.columns import Array

_SEPARATOR = "\0"


def partitions_of(tags: pa.RecordBatch) -> Array:
    """The partitions of some queries, int64[k]. `tags`: the columns query, key and labels.

    O(k), and a step of Python for each different text.
    """
    count = tags.num_rows
    if not count:
        return np.zeros(0, np.int64)
    labels, keys = tags["labels"], tags["key"]
    pairs = pc.binary_join_element_wise(labels.keys, labels.items, _SEPARATOR)
    texts = pc.binary_join(pa.ListArray.from_arrays(labels.offsets, pairs), _SEPARATOR)
    numbers = tags["query"].cast(pa.string())
    unlabelled = pc.coalesce(keys, numbers)
    texts = pc.if_else(pa.array(np.diff(labels.offsets.to_numpy()) == 0), unlabelled, texts)
    encoded = texts.dictionary_encode()
    hashes = [zlib.crc32(text.encode()) % PARTITIONS for text in encoded.dictionary.to_pylist()]
    of_queries: Array = np.array(hashes, np.int64)[encoded.indices.to_numpy()]
    return of_queries
