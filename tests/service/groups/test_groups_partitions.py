"""The partition of a query is stable: it depends on its labels, else its key, else its ID, and on nothing else."""

from __future__ import annotations

import pyarrow as pa

from psoup.events.groups import PARTITIONS
from psoup_service.groups.partitions import partitions_of

SCHEMA = pa.schema(
    [("query", pa.int64()), ("key", pa.string()), pa.field("labels", pa.map_(pa.string(), pa.string()), False)]
)


def tags(*rows: tuple[int, str | None, dict[str, str]]) -> pa.RecordBatch:
    """The tags of queries."""
    return pa.RecordBatch.from_pylist([{"query": q, "key": k, "labels": list(v.items())} for q, k, v in rows], SCHEMA)


def test_partitions_are_those_of_every_version() -> None:
    partitions = partitions_of(
        tags(
            (1, None, {"user": "u1"}),
            (2, "k", {"user": "u1"}),
            (3, "k", {"kind": "alert", "user": "u1"}),
            (4, "search-4", {}),
            (5, None, {}),
            (6, None, {"user": "Grüße 🌍"}),
        )
    )
    assert partitions.tolist() == [62, 62, 24, 39, 46, 19], "this must never change: the log has positions"


def test_partitions_are_even() -> None:
    partitions = partitions_of(tags(*((n, None, {"user": f"u{n}"}) for n in range(6_400)))).tolist()
    counts = [partitions.count(partition) for partition in range(PARTITIONS)]
    assert 60 <= min(counts) <= max(counts) <= 140


def test_a_part_of_a_batch_has_the_same_partitions() -> None:
    batch = tags(*((n, f"k{n}" if n % 3 else None, {"user": f"u{n}"} if n % 2 else {}) for n in range(50)))
    whole = partitions_of(batch).tolist()
    assert partitions_of(batch.slice(7, 20)).tolist() == whole[7:27]
    assert partitions_of(batch.slice(0, 0)).tolist() == []
