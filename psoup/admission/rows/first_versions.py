"""Rows of a table below the watermark that are not late: rows of a key that has no version yet.

    watermark 12:00      push: UA 11:00, DL 11:10, LH 11:20, LH 11:40
    UA has a version     late, refused
    DL, LH are new       taken: the first versions of their keys; LH has two, as they come in one batch

A key has a version if one of its rows is released. The writer's hash table has the keys of published rows. Two kinds of
rows are not in it. The first are rows of the snapshot that waited for the watermark. The second are rows of pushes that
the writer has not published. A deletion is remembered for DELETED FOR: until then its key has a version. The event has
the decision, so a replay looks up nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from psoup.admission.catalog import KnownStream
from psoup.data.newest_versions import key_lanes
from psoup.kernels.names import newest_versions
from psoup.model import StreamSpec
from psoup.published.new_keys import are_new
from psoup.published.selection import Published
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array, Batch, Column

NewKeys = Callable[[Sequence[Column]], Array]
"""Returns whether the key of each row of some columns has no version yet, bool[n]."""


def new_keys(stream: KnownStream, published: Callable[[], Published]) -> NewKeys | None:
    """The test for keys of a table, as of the last prepared event. None for a stream, and without a watermark."""
    if stream.spec.table is None or stream.watermark is None:
        return None
    watermark = stream.watermark

    def are_unknown(columns: Sequence[Column]) -> Array:
        recent = stream.past.recent.held()
        snapshot = published()  # after the references: a push that has none left is published
        lanes = _lanes(stream.spec, columns)
        view = snapshot.by_id.get(stream.stream_id)
        if view is None and not snapshot.sequence:  # nothing is published: the keys are not known
            return np.zeros(len(lanes), np.bool_)
        versioned = np.zeros(len(lanes), np.bool_) if view is None else ~are_new(view, lanes, watermark)
        keys = None if view is None else view.table_keys
        batches = [] if keys is None else list(keys.waiting)
        batches += [batch for sequence, batch in recent if sequence > snapshot.sequence]
        return ~(versioned | _among(stream.spec, lanes, batches, watermark))

    return are_unknown


def new_keys_of(view: StreamView) -> NewKeys | None:
    """The test for keys of a table, as of a snapshot. None for a stream, and without a watermark."""
    spec, watermark = view.spec, view.watermark
    if spec.table is None or watermark is None:
        return None
    return lambda columns: are_new(view, _lanes(spec, columns), watermark)


def _among(spec: StreamSpec, lanes: Array, batches: Sequence[Batch], watermark: int) -> Array:
    """Whether each key (`lanes`) is one of a row of the batches up to the watermark. O(keys + rows) expected."""
    present: Array = np.zeros(len(lanes), np.bool_)
    slots: Array = np.zeros(newest_versions.SLOT << (2 * len(lanes)).bit_length(), np.uint64)
    for batch in batches:
        rows = np.flatnonzero(batch.times <= watermark)
        if not len(rows):
            continue
        if not slots.any():
            newest_versions.put_newest(lanes, 0, slots, np.empty(len(lanes), np.int64))
        released = _lanes(spec, batch.columns)[rows]
        newest, counts = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        newest_versions.find_newest(released, slots, newest, counts)
        present[newest[newest >= 0]] = True
    if not present.any():
        return present
    newest, counts = np.empty(len(lanes), np.int64), np.empty(len(lanes), np.int64)
    newest_versions.find_newest(lanes, slots, newest, counts)  # the last row of each key stands for all its rows
    return present[newest]


def _lanes(spec: StreamSpec, columns: Sequence[Column]) -> Array:
    assert spec.table is not None
    return key_lanes([columns[place] for place in spec.table.key])
