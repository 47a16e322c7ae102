"""Which stream each query is on: blocks of one stream, of several, and over the ends of pages."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.admission.queries.query_streams import Owners


@pytest.mark.parametrize("streams", [[7], [7] * 9_000, [7, 7, 9, 7, 9, 9], [3, 4] * 3_000])
@pytest.mark.parametrize("first", [1, 4_090])
def test_a_block_is_its_queries_one_by_one(first: int, streams: list[int]) -> None:
    count = 5 if len(streams) == 1 else len(streams)
    block, single = Owners(), Owners()
    block.add_block(first, count, streams)
    for place in range(count):
        single.add(first + place, 1, streams[place] if len(streams) > 1 else streams[0])
    assert dict(block.items()) == dict(single.items())
    assert [block.count(stream) for stream in (3, 4, 7, 9)] == [single.count(stream) for stream in (3, 4, 7, 9)]
    block.check()
    for query_id in np.random.default_rng(0).permutation(count)[: count // 2].tolist():
        block.remove(first + query_id)
        single.remove(first + query_id)
    assert dict(block.items()) == dict(single.items())
    block.check()
