"""The differences between two versions of a persistent map. Pages and blocks that both versions share are not read.

before  [page 0][page 1]  {block a}          changes(before, after)
after   [page 0][page 1'] {block b}    ──>   gone, come: only from page 1, page 1', block a and block b
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from psoup.published.paged_map import KeyedBlock, PagedMap
from psoup.values.columns import Array

V = TypeVar("V")


class MapChanges(NamedTuple, Generic[V]):
    """The records of the earlier version that the later one lacks, and the reverse, by their keys.

    A record that has moved from a block to a page is in both. So is a record that was replaced.
    """

    gone: dict[int, V]
    come: dict[int, V]


def changes(before: PagedMap[V], after: PagedMap[V]) -> MapChanges[V]:
    """The differences. O(pages + blocks), and O(page) or O(block) for each one that is not shared."""
    return MapChanges(_missing(before, after), _missing(after, before))


def _missing(these: PagedMap[V], those: PagedMap[V]) -> dict[int, V]:
    """The records of the first map that the second one lacks."""
    missing: dict[int, V] = {}
    pages = those.pages_by_number
    for number, page in these.pages_by_number.items():
        other = pages.get(number)
        if other is not page:
            missing |= {key: record for key, record in page.items() if other is None or other.get(key) is not record}
    shared = {*map(id, these.blocks)} & {*map(id, those.blocks)}
    different = [block for block in those.blocks if id(block) not in shared]
    for block in these.blocks:
        if id(block) not in shared:
            missing |= _missing_of_block(block, different)
    return missing


def _missing_of_block(block: KeyedBlock[V], different: list[KeyedBlock[V]]) -> dict[int, V]:
    keys: Array = np.arange(block.first, block.last + 1)
    keys = keys[block.places(keys) >= 0]
    for other in different:
        keys = keys[other.places(keys) < 0]
    records = ((key, block.get(key)) for key in keys.tolist())
    return {key: record for key, record in records if record is not None}
