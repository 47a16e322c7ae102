"""The rows of a push to a table: upserts, patches, and deletions, which have only their key.

    k     price   _deleted            k     price   _deleted
    UA    10.5    -           ──>     UA    10.5    false
    DL    9.0     true                DL    -       true       the entry of a deletion keeps no other column

A column with NOT NULL needs a value in each upsert. A key is never NULL; `psoup.values.from_arrow` refuses that. A
batch with patches needs all columns with NOT NULL. The key of a patch may have no row whose values it could keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psoup.data.newest_versions import key_lanes
from psoup.errors import InvalidBatch
from psoup.kernels.names import newest_versions
from psoup.model import DELETED_AT, FIRST_AT, Kind, StreamSpec, TableSpec, positions
from psoup.values.columns import Array, Batch, Column
from psoup.values.from_arrow import clear_null_text

KEY_BYTES = 65_536
"""The most bytes of text in the key of a row."""


def table_columns(
    spec: StreamSpec, table: TableSpec, columns: tuple[Column, ...], names: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Check the columns of a push to a table, and remove the values of deletions. Raises InvalidBatch. O(bytes).

    `names`: the names of the columns that the batch has. Needed only if it may have patches.
    """
    _check_keys(spec, table, columns)
    given = columns[DELETED_AT]
    deleted: Array = given.values if given.valid is None else given.values & given.valid
    _check_patches(spec, table, given_columns(spec, names, columns))
    for place in table.required:
        _check_required(spec, place, columns[place], deleted)
    if not deleted.any():
        return columns
    stays = {DELETED_AT, *table.key, spec.time_attribute}
    return tuple(column if place in stays else _emptied(column, deleted) for place, column in enumerate(columns))


def given_columns(spec: StreamSpec, names: Sequence[str], columns: tuple[Column, ...]) -> tuple[int, ...]:
    """The positions of the columns that a batch gives, if some of its rows are patches; else empty. O(rows).

    `names`: the names of the columns that the batch has. Needed only if it may have patches.
    """
    if spec.table is None:
        return ()
    flags = columns[FIRST_AT]
    patches = flags.values if flags.valid is None else flags.values & flags.valid
    if not patches.any():
        return ()
    places = positions(spec.schema, names)
    every = enumerate(spec.schema.attributes)
    return tuple(place for place, attribute in every if attribute.name.lower() in places and not attribute.hidden)


def count_replaced(spec: StreamSpec, batch: Batch) -> int:
    """The rows that a later row of the batch replaces: it has their key and their time. 0 for a stream.

    O(rows) expected.
    """
    rows = len(batch)
    if spec.table is None or rows < 2:
        return 0
    key = [batch.columns[place] for place in spec.table.key]
    timed = [] if spec.time_attribute is None else [batch.columns[spec.time_attribute]]
    lanes = key_lanes([*key, *timed])
    places = 1 << (2 * rows - 1).bit_length()
    slots: Array = np.zeros(newest_versions.SLOT * places, np.uint64)
    return rows - int(newest_versions.put_newest(lanes, 0, slots, np.empty(rows, np.int64)))


def _check_keys(spec: StreamSpec, table: TableSpec, columns: tuple[Column, ...]) -> None:
    """Raise InvalidBatch for a key of more than `KEY_BYTES` bytes of text. O(rows)."""
    texts = [columns[place].values for place in table.key if columns[place].type.kind is Kind.TEXT]
    if sum(int(offsets[-1] - offsets[0]) for offsets in texts) <= KEY_BYTES:
        return
    sizes: Array = np.sum([np.diff(offsets) for offsets in texts], axis=0)
    row = int(np.argmax(sizes))
    if sizes[row] > KEY_BYTES:
        raise InvalidBatch(
            f"row {row}: its key has {int(sizes[row]):,} bytes of text; {KEY_BYTES:,} is the most in the primary key of"
            f" table {spec.name!r}; make the key shorter, for instance a digest of the text",
            reason="KEY_TOO_LONG",
            row=row,
            limit=KEY_BYTES,
        )


def _check_patches(spec: StreamSpec, table: TableSpec, given: tuple[int, ...]) -> None:
    """Raise InvalidBatch if a batch with patches lacks a column with NOT NULL. `given`: as of `given_columns`."""
    missing = [place for place in table.required if place not in given] if given else []
    if missing:
        name = spec.schema.attributes[missing[0]].name
        raise InvalidBatch(
            f"the patches lack the column {name!r}, which is NOT NULL in table {spec.name!r}: a key without a row would"
            " have no value to keep; give the column, or push whole rows",
            reason="PATCH_NOT_NULL",
            column=name,
        )


def _check_required(spec: StreamSpec, place: int, column: Column, deleted: Array) -> None:
    missing = None if column.valid is None else ~column.valid & ~deleted
    if missing is None or not missing.any():
        return
    name, row = spec.schema.attributes[place].name, int(np.argmax(missing))
    raise InvalidBatch(
        f"row {row}: {name!r} is NULL, but table {spec.name!r} says NOT NULL; give it a value, or delete the row"
        " with _deleted = true",
        column=name,
        row=row,
    )


def _emptied(column: Column, deleted: Array) -> Column:
    valid = ~deleted if column.valid is None else column.valid & ~deleted
    if column.type.kind is Kind.TEXT:
        return clear_null_text(replace(column, valid=valid))
    return replace(column, values=np.where(deleted, np.zeros(1, column.values.dtype), column.values), valid=valid)
