"""The list of places of a thinned chunk, as its manifest row stores it.

    left [1, 4, 7]  ──differences──> 1 3 3  ──uint16, zlib──> places_left, a BLOB of at most some kilobytes

The list may come from a restored database of an untrusted source. So the number of its bytes is limited before they are
decompressed, and each place is checked.
"""

from __future__ import annotations

import zlib

import numpy as np

from psoup.data.places import MOST_PLACES, Places
from psoup.values.columns import Array

_FAST = 1
"""The level of compression. The differences are small, and higher levels save a few percent more."""


class WrongPlaces(Exception):
    """The reason why a place list is not valid, in words."""


def encode_places(places: Places) -> bytes | None:
    """The list of the places that are left; None if the chunk is not thinned. O(places)."""
    if places.left is None:
        return None
    left = places.left.astype(np.int64)
    return zlib.compress(np.diff(left, prepend=0).astype("<u2").tobytes(), _FAST)


def decode_places(first_id: int, rows: int, count: int | None, content: object) -> Places:
    """The places of a chunk with `rows` rows. Raises WrongPlaces. O(places).

    `count`: the number of places, and `content`: the list of those that are left; both None if the chunk is not
    thinned.
    """
    if count is None and content is None:
        return Places(first_id, rows)
    if count is None or not isinstance(content, bytes):
        raise WrongPlaces("its place list is incomplete")
    if not 0 <= rows <= count <= MOST_PLACES:
        raise WrongPlaces(f"its manifest row has {rows:,} rows in {count:,} places, of at most {MOST_PLACES:,}")
    left = _left(content, rows)
    if len(left) != rows:
        raise WrongPlaces(f"its place list has {len(left):,} places, and the manifest row has {rows:,} rows")
    if rows and not (bool((left[:-1] < left[1:]).all()) and int(left[-1]) < count):
        raise WrongPlaces(f"its places do not ascend from 0 to {count - 1:,}")
    return Places(first_id, count, left.astype(np.uint16))


def _left(content: bytes, rows: int) -> Array:
    """The places that are left, int64[n]; `n` is at most `rows` + 1."""
    reader = zlib.decompressobj()
    try:
        differences = reader.decompress(content, 2 * rows + 2)
    except zlib.error as problem:
        raise WrongPlaces(f"its place list cannot be read: {problem}") from problem
    if len(differences) % 2 or (not reader.eof and len(differences) <= 2 * rows):
        raise WrongPlaces("its place list is cut off")
    return np.cumsum(np.frombuffer(differences, "<u2"), dtype=np.int64)
