"""Spans of query IDs (first, count), one for each call, and the search for the spans that contain given queries.

    spans    [3 … 9]      [12]     [20 …… 99]
    queries    5 7    10       15     23 … 80        meeting: (3, 2 queries), (20, 58 queries)

The search takes a step for each span, not for each query. So the removal of a whole block costs one look-up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sortedcontainers import SortedDict

V = TypeVar("V")


def meeting(
    query_ids: Sequence[int], spans: SortedDict[int, V], count_of: Callable[[V], int]
) -> Iterator[tuple[int, V, int]]:
    """Yield the spans that contain some of the queries (ascending): first ID, value, and number of these queries.

    Spans must not overlap. The caller may remove a span as soon as it is yielded. O(log n) for each yielded span, and
    for each query in no span.
    """
    at = 0
    while at < len(query_ids):
        place = spans.bisect_right(query_ids[at]) - 1
        if place >= 0:
            first, span = spans.peekitem(place)
            if query_ids[at] < first + count_of(span):
                end = bisect_left(query_ids, first + count_of(span), at + 1)
                yield first, span, end - at
                at = end
                continue
        if place + 1 >= len(spans):
            return
        at = bisect_left(query_ids, spans.peekitem(place + 1)[0], at + 1)
