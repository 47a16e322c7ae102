"""The plans of queries 1 to 5 of the update-pattern paper (SIGMOD 2005, figures 6 and 8), compiled.

At each time a tuple arrives on each link. First expired tuples leave. In the negative tuple approach each window makes
its negative tuples; else DISTINCT and negation look for expired tuples. Nothing expires in the first window, so nothing
looks for it there. Then the tuple goes through all operators before the next one comes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit

from benchmarks.reproduce.emulators.update_patterns.buffers import (
    EXPIRY,
    FIRST,
    KEY,
    LEFT,
    RIGHT,
    compiled,
    expired,
    insert,
    remove,
    remove_expired,
)
from benchmarks.reproduce.emulators.update_patterns.operators import (
    INPUTS,
    JOINED,
    LEFT_INPUT,
    RIGHT_INPUT,
    SEEN,
    WINDOWS,
    append,
    apply,
    distinct,
    drop_left,
    drop_right,
    expire_distinct,
    join,
    negate,
)


class Options(NamedTuple):
    """The way in which results expire.

    `negative`: windows make negative tuples. `keeps_input`: DISTINCT stores its input. `explicit`: a negation makes a
    negative tuple for each result that leaves.
    """

    negative: bool
    keeps_input: bool
    explicit: bool


class Query(IntEnum):
    """The queries. NEGATED_JOIN: query 5 with the join below the negation; JOIN_UP: with the negation below."""

    JOIN = 1
    DISTINCT = 2
    NEGATION = 3
    DISTINCT_JOIN = 4
    NEGATED_JOIN = 5
    JOIN_UP = 6


_PASS, _DISTINCT, _JOIN, _NEGATE, _NONE = range(5)
_PLANS = {
    Query.JOIN: [[(_PASS, 0), (_JOIN, 0)], [(_PASS, 1), (_JOIN, 1)]],
    Query.DISTINCT: [[(_DISTINCT, 0), (_NONE, 0)]],
    Query.NEGATION: [[(_PASS, 0), (_NEGATE, 0)], [(_PASS, 1), (_NEGATE, 1)]],
    Query.DISTINCT_JOIN: [[(_DISTINCT, 0), (_JOIN, 0)], [(_DISTINCT, 1), (_JOIN, 1)]],
    Query.NEGATED_JOIN: [[(_JOIN, 0), (_NEGATE, 0)], [(_PASS, 0), (_NEGATE, 1)], [(_JOIN, 1), (_NEGATE, 0)]],
    Query.JOIN_UP: [[(_NEGATE, 0), (_JOIN, 0)], [(_NEGATE, 1), (_JOIN, 0)], [(_PASS, 0), (_JOIN, 1)]],
}
"""For each query and link, the two operators that a tuple goes through, and the side of the operator."""
_STEPS = np.full((len(Query) + 1, 3, 2, 2), _NONE, np.int64)
for _query, _links in _PLANS.items():
    _STEPS[_query, : len(_links)] = _links
_NEGATED = _STEPS[:, 0, 1, 0] == _NEGATE
_DISTINCT_FIRST = _STEPS[:, 0, 0, 0] == _DISTINCT


@njit(cache=True)
def run_plan(query, options, window, lazy, keys, passes, s, start, stop):  # type: ignore[no-untyped-def]
    """Take the tuples of the times from `start` to `stop`. `keys`, `passes`: [links, times]; `lazy`: an interval."""
    links = keys.shape[0]
    reacts = not options.negative and (_DISTINCT_FIRST[query] or _NEGATED[query])
    for now in range(start, stop):
        for link in range(links):
            if options.negative:
                for source in range(links):
                    oldest = s.ends[s.facts[WINDOWS + source, FIRST], 0]
                    if oldest >= 0 and s.nodes[oldest, EXPIRY] <= now:
                        _expire_window(source, s, now)
                insert(s, WINDOWS + link, keys[link, now], now + window, now, np.int64(passes[link, now]))
            if passes[link, now]:
                append(s, 0, 1, keys[link, now], now + window, now, link)
            for row in range(-2, s.counts[0]):  # -2 and -1: what has expired on each side. One call, as it is inlined
                if row < 0:
                    if not reacts or now < window or row + 2 >= links:
                        continue
                    _expire_state(query, options, window, row + 2, s, now)
                    if s.counts[1] == 0 and s.counts[2] == 0:
                        continue
                _through_operators(query, options, window, s, row, now)
            s.counts[0] = 0
        if not options.negative and now % lazy == 0 and now >= window:
            for at in range(INPUTS, INPUTS + 2):
                remove_expired(s, at, now)
                remove_expired(s, at + JOINED - INPUTS, now)


@compiled
def _expire_window(source, s, now):  # type: ignore[no-untyped-def]
    """A window puts its negative tuples into the first queue. They pass the selection like the tuples did."""
    cell = expired(s, WINDOWS + source, now)
    while cell >= 0:
        if s.cells[cell, RIGHT]:
            key, expiry, tuple_id = s.cells[cell, KEY], s.nodes[cell, EXPIRY], s.cells[cell, LEFT]
            append(s, 0, -1, np.int64(key), np.int64(expiry), np.int64(tuple_id), source)
        remove(s, WINDOWS + source, cell)
        cell = expired(s, WINDOWS + source, now)


@compiled
def _expire_state(query, options, window, side, s, now):  # type: ignore[no-untyped-def]
    """An operator that reacts to expirations looks for them: DISTINCT on a side, or the negation, for side 0."""
    if _DISTINCT_FIRST[query]:
        expire_distinct(s, side, options.keeps_input, now, window, 1)
    elif _NEGATED[query] and side == 0:
        cell = expired(s, LEFT_INPUT, now)
        while cell >= 0:
            drop_left(s, options.explicit, cell, 2)
            cell = expired(s, LEFT_INPUT, now)
        cell = expired(s, RIGHT_INPUT, now)
        while cell >= 0:
            drop_right(s, cell, 2)
            cell = expired(s, RIGHT_INPUT, now)


@compiled
def _through_operators(query, options, window, s, row, now):  # type: ignore[no-untyped-def]
    """Send a row of the first queue through both operators into the view; row < 0: only what the first one put out."""
    link = np.int64(0)
    for stage in range(2):
        first, last = (max(row, 0), row + 1) if stage == 0 else (0, s.counts[1])
        for at in range(first, last):
            sign, key, expiry = s.queues[stage, at, 0], s.queues[stage, at, 1], s.queues[stage, at, 2]
            left, right = s.queues[stage, at, 3], s.queues[stage, at, 4]
            if stage == 0 or _DISTINCT_FIRST[query]:
                link, right = right, np.int64(-1)
            operator, side = _STEPS[query, link, stage, 0], _STEPS[query, link, stage, 1]
            if operator == _PASS:
                append(s, stage + 1, sign, key, expiry, left, right)
            elif operator == _DISTINCT:
                distinct(s, side, options.keeps_input, sign, key, expiry, left, window, stage + 1)
            elif operator == _JOIN:
                shared = _DISTINCT_FIRST[query] and not options.keeps_input
                states = SEEN if shared else JOINED
                join(s, states, side, not shared, options.negative, sign, key, expiry, left, now, stage + 1)
            elif operator == _NEGATE:
                negate(s, side, options.explicit, sign, key, expiry, left, right, stage + 1)
    if s.counts[1] or s.counts[2]:
        apply(s, 2, window, now)
    s.counts[1] = 0
