"""Checks that the stored entries of a table are upserts with all their columns, or deletions with only their key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from psoup.model import DELETED_AT, FIRST_AT, StreamSpec
from psoup.values.columns import Array, Batch, Column


def wrong_entries(spec: StreamSpec, batch: Batch) -> Iterator[str]:
    """The faults of the rows of a chunk of a table, in words. None for a stream. O(rows)."""
    table, names = spec.table, [attribute.name for attribute in spec.schema.attributes]
    if table is None:
        return
    for place in (DELETED_AT, FIRST_AT, *table.key):
        missing = _null_rows(batch.columns[place])
        if missing.any():
            yield f"its row {int(np.argmax(missing))} has no {names[place]}"
    deleted = batch.columns[DELETED_AT].values
    for place in table.required:
        missing = _null_rows(batch.columns[place]) & ~deleted
        if missing.any():
            yield f"its row {int(np.argmax(missing))} has no {names[place]}, which is NOT NULL"
    of_deletion = {DELETED_AT, FIRST_AT, *table.key, spec.time_attribute}
    for place in sorted(set(range(len(names))) - of_deletion):
        present = ~_null_rows(batch.columns[place]) & deleted
        if present.any():
            yield f"its row {int(np.argmax(present))} deletes a key, and has a value of {names[place]}"


def _null_rows(column: Column) -> Array:
    return np.zeros(len(column), np.bool_) if column.valid is None else ~column.valid
