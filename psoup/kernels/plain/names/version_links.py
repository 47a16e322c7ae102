"""Twins of `psoup.kernels.names.version_links`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.plain.rows.batch_body import _at


def link_versions(first_id: int, times: Array, before: Array, first_ids: Array, places: Array, ended: Array) -> None:
    """See the kernel."""
    ended[:] = 0
    for i, earlier in enumerate(before.tolist()):
        chunk = int(np.searchsorted(first_ids, first_id + i, "right")) - 1
        row = first_id + i - int(first_ids[chunk])
        _at(places[chunk, 2], row + 1, np.int64)[row] = earlier
        if earlier < 0:
            continue
        chunk = int(np.searchsorted(first_ids, earlier, "right")) - 1
        row = earlier - int(first_ids[chunk])
        if places[chunk, 4]:
            row = int(np.searchsorted(_at(places[chunk, 4], places[chunk, 5], np.uint16), row))
        _at(places[chunk, 1], row + 1, np.int64)[row] = times[i]
        _at(places[chunk, 0], row + 1, np.int64)[row] = first_id + i
        bits = _at(places[chunk, 3], (row >> 6) + 1, np.uint64)
        bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        ended[chunk] += 1
