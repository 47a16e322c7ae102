"""Spans of query IDs (first, how many), one for each call, and which of them some queries are in.

    spans    [3 … 9]      [12]     [20 …… 99]
    queries    5 7    10       15     23 … 80        meeting: (3, 2 queries), (20, 58 queries)

A step for each span that is met, not for each query: those of a block leave at the cost of a look-up.
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
    """The spans that some queries (ascending) are in: first ID, its value, and how many of the queries.

    Spans do not overlap; a span may be removed when it has been given. O((spans met) log n).
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
