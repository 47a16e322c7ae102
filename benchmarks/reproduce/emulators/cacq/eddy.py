"""CACQ's eddy, emulated: one tuple at a time goes through grouped filters, with bits for the queries that refused it.

    tuple + state ─> eddy ─lottery─> grouped filter of an attribute: the queries that refuse the tuple get their bit
                      ▲──────────────┘ the state is copied on the way to a filter and back
                      └─> all bits set: dropped       no filter left: one output for each query without a bit

The state of a tuple is a bitmap of the queries, as wide as the caller wants. A grouped filter has the constants of its
predicates in order. So it visits only predicates that refuse the tuple. A filter gets a ticket with
each tuple, and gives it back with each tuple that survives. The loops are compiled, like PSoup's kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[Any]
_WORD = 64
_MOST_TICKETS = 1_000
"""The most tickets of a filter, so that it can lose its lead."""


@dataclass(frozen=True, slots=True)
class EddyQuery:
    """A query over one source: for each attribute with a predicate, whether it is `>` (else `<`), and the constant."""

    source: int
    predicates: Mapping[int, tuple[bool, int]]


class Eddy:
    """An eddy over some sources, all with the same number of attributes.

    `state_bits`: the least width of a tuple's bitmap. `visits`: how often a tuple came to a filter.
    """

    def __init__(self, queries: Sequence[EddyQuery], sources: int, attributes: int, state_bits: int = 0) -> None:
        self._queries, self._attributes = len(queries), attributes
        self._words = max(-(-max(len(queries), state_bits) // _WORD), 1)
        self._begin = np.full((sources, self._words), np.uint64(2**64 - 1))
        """The bitmap with which a tuple begins: the bits of queries over other sources are set."""
        groups: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
        for number, query in enumerate(queries):
            self._begin[query.source, number // _WORD] &= ~np.uint64(1 << number % _WORD)
            for attribute, (above, constant) in query.predicates.items():
                groups.setdefault((query.source, attribute, above), []).append((constant, number))
        bounds, entries = list[int](), list[tuple[int, int]]()
        for at in range(sources * attributes):
            for above in (True, False):
                bounds.append(len(entries))
                entries += sorted(groups.get((*divmod(at, attributes), above), []))
        self._bounds = np.array([*bounds, len(entries)], np.int64)
        table = np.array(entries, np.int64).reshape(-1, 2)
        self._constants, self._owners = table[:, 0].copy(), table[:, 1].copy()
        self._tickets = np.ones(sources * attributes, np.int64)
        self.visits = 0

    def route(self, values: Array, sources: Array) -> Array:
        """Route tuples: int64[n, attributes], and int64[n] sources. Returns each query's number of outputs, int64."""
        outputs = np.zeros(self._words * _WORD, np.int64)
        filters = self._bounds, self._constants, self._owners
        self.visits += _route(values, sources, self._begin, *filters, self._tickets, outputs)
        return outputs[: self._queries]


def by_hand(queries: Sequence[EddyQuery], attributes: int, values: Array, sources: Array) -> Array:
    """The same outputs by a plain loop over tuples and queries, as one writes it for these queries alone."""
    low = np.full((len(queries), attributes), -(2**62), np.int64)
    high = np.full((len(queries), attributes), 2**62, np.int64)
    for number, query in enumerate(queries):
        for attribute, (above, constant) in query.predicates.items():
            (low if above else high)[number, attribute] = constant
    outputs = np.zeros(len(queries), np.int64)
    _loop(values, sources, np.array([query.source for query in queries], np.int64), low, high, outputs)
    return outputs


@njit(cache=True)
def _route(values, sources, begin, bounds, constants, owners, tickets, outputs):  # type: ignore[no-untyped-def]
    attributes, words, visits = values.shape[1], begin.shape[1], 0
    state, moved = np.empty(words, np.uint64), np.empty(words, np.uint64)
    left = np.empty(attributes, np.int64)
    for row in range(len(values)):
        first = sources[row] * attributes
        count = 0
        for at in range(attributes):
            if bounds[2 * (first + at)] < bounds[2 * (first + at) + 2]:
                left[count] = at
                count += 1
        state[:] = begin[sources[row]]
        alive = _alive(state)
        while alive and count:
            place = _drawn(tickets, first, left, count)
            at = left[place]
            count -= 1
            left[place] = left[count]
            moved[:] = state
            _refuse(values[row, at], 2 * (first + at), bounds, constants, owners, moved)
            state[:] = moved
            visits += 1
            alive = _alive(state)
            if not alive:
                tickets[first + at] = min(tickets[first + at] + 1, _MOST_TICKETS)
            elif tickets[first + at] > 1:
                tickets[first + at] -= 1
        if alive:
            _deliver(state, outputs)
    return visits


@njit(cache=True)
def _alive(state):  # type: ignore[no-untyped-def]
    clear = np.uint64(0)
    for word in state:
        clear |= ~word
    return clear != 0


@njit(cache=True)
def _drawn(tickets, first, left, count):  # type: ignore[no-untyped-def]
    """The place in `left` of a filter that is drawn by its tickets."""
    total = 0
    for place in range(count):
        total += tickets[first + left[place]]
    drawn = np.random.randint(0, total)
    for place in range(count):
        drawn -= tickets[first + left[place]]
        if drawn < 0:
            return place
    return count - 1


@njit(cache=True)
def _refuse(value, at, bounds, constants, owners, state):  # type: ignore[no-untyped-def]
    """Set the bits of the queries that refuse a value: `>` from the greatest constant, `<` from the least."""
    place = bounds[at + 1] - 1
    while place >= bounds[at] and constants[place] >= value:
        state[owners[place] >> 6] |= np.uint64(1) << np.uint64(owners[place] & 63)
        place -= 1
    place = bounds[at + 1]
    while place < bounds[at + 2] and constants[place] <= value:
        state[owners[place] >> 6] |= np.uint64(1) << np.uint64(owners[place] & 63)
        place += 1


@njit(cache=True)
def _deliver(state, outputs):  # type: ignore[no-untyped-def]
    for word in range(len(state)):
        bits = ~state[word]
        number = 64 * word
        while bits:
            outputs[number] += np.int64(bits & np.uint64(1))
            bits >>= np.uint64(1)
            number += 1


@njit(cache=True)
def _loop(values, sources, source_of, low, high, outputs):  # type: ignore[no-untyped-def]
    for row in range(len(values)):
        for query in range(len(source_of)):
            passes = source_of[query] == sources[row]
            for at in range(values.shape[1]):
                passes &= low[query, at] < values[row, at] < high[query, at]
            outputs[query] += passes
