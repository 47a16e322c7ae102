"""NiagaraCQ's two plans for queries of a selection and a join, emulated, and CACQ's plan for the same queries.

    PushDown   stocks ─> selections ─> split: a copy for each query ─> a join for each query ─> its output
    PullUp     stocks ─> one join ─> selections over the joined tuples ─> split ─> outputs
    CACQ       stocks ─> selections: a bit for each query that refuses ─> one join ─> an output for each clear bit

All joins of a plan probe one hash table on the articles. A joined tuple is copied as a whole, into a ring of 1 MiB: the
consumer of an output reads it at once. Selections are `price > constant`, grouped in the order of constants, or
functions. Functions cannot be grouped, and are called one after the other. The paper's eddy draws the order of its
operators by lottery. Here CACQ's plan always filters first. The loops are compiled, and take one tuple at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[Any]
_RING = 2**17
"""Words of the ring."""
_HEAD = 3
"""Words of a joined tuple before the body of the article: symbol and price of the stock, symbol of the article."""


class Articles(NamedTuple):
    """Articles: int64[n] symbols, and their bodies, uint64, from starts[i] to starts[i + 1]. At most 1 MiB each."""

    symbols: Array
    starts: Array
    words: Array


class Selections(NamedTuple):
    """The selection of each query: int64 constants, ascending, and their queries. `most_steps`: the most steps that a
    function spins; 0: the selections are grouped."""

    constants: Array
    queries: Array
    most_steps: int


def selections(constants: Array, most_steps: int = 0) -> Selections:
    """The selections of queries with these constants, by query."""
    order = np.argsort(constants, kind="stable")
    return Selections(constants[order], order.astype(np.int64), most_steps)


class Plans:
    """The plans of some queries. Each takes stocks, int64[n, 2] of symbol and price, and articles.

    A plan returns its outputs, int64[3, outputs]: the query, the row of the stock, the row of the article. They are
    valid until the next call. `most_outputs`: room for them. `ring`: the joined tuples that were written last.
    """

    def __init__(self, chosen: Selections, most_outputs: int) -> None:
        self._chosen = chosen
        self.ring = np.zeros(_RING, np.int64)
        self._outputs = np.zeros((3, most_outputs), np.int64)

    def push_down(self, stocks: Array, articles: Articles) -> Array:
        """NiagaraCQ's plan with the selections below the joins."""
        return self._ran(_push_down, stocks, articles)

    def pull_up(self, stocks: Array, articles: Articles) -> Array:
        """NiagaraCQ's plan with the selections above the join."""
        return self._ran(_pull_up, stocks, articles)

    def cacq(self, stocks: Array, articles: Articles) -> Array:
        """CACQ's plan: the selections, then one join for all queries."""
        return self._ran(_cacq, stocks, articles)

    def _ran(self, plan: Callable[..., int], stocks: Array, articles: Articles) -> Array:
        table = _table(articles.symbols)
        return self._outputs[:, : plan(stocks, articles, *table, self._chosen, self.ring, self._outputs)]


@njit(cache=True)
def spins(value, constant, query, most_steps):  # type: ignore[no-untyped-def]
    """Whether `value > constant`, after 0 to `most_steps` shifts and products, uniform by value and query."""
    mixed = (np.uint64(value) ^ np.uint64(query + 1) * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    for _ in range(np.int64(mixed % np.uint64(most_steps + 1))):
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    # The comparison with the outcome keeps the compiler from leaving the loop out.
    return (value > constant) ^ (mixed == np.uint64(1))


@njit(cache=True)
def spins_each(values, constants, queries, most_steps):  # type: ignore[no-untyped-def]
    """`spins` for each row: bool[rows]."""
    out = np.empty(len(values), np.bool_)
    for row in range(len(values)):
        out[row] = spins(values[row], constants[row], queries[row], most_steps[row])
    return out


def by_hand(stocks: Array, articles: Articles, constants: Array, most_steps: int, outputs: Array) -> int:
    """The outputs by a plain loop: articles by symbol in order, each selection once for each stock. Returns their
    number. It copies each article once, and no stocks."""
    order = np.argsort(articles.symbols)
    return int(_loop(stocks, articles, order, articles.symbols[order], constants, most_steps, outputs))


@njit(cache=True)
def _loop(stocks, articles, order, ordered, constants, most_steps, outputs):  # type: ignore[no-untyped-def]
    body = np.empty(_RING, np.int64)
    count = 0
    for row in range(len(stocks)):
        price = stocks[row, 1]
        begin, end = np.searchsorted(ordered, stocks[row, 0]), np.searchsorted(ordered, stocks[row, 0] + 1)
        for at in range(begin, end):
            first = articles.starts[order[at]]
            for place in range(articles.starts[order[at] + 1] - first):
                body[place] = articles.words[first + place]
        for query in range(len(constants)):
            if spins(price, constants[query], query, most_steps) if most_steps else price > constants[query]:
                for at in range(begin, end):
                    count = _send(query, row, order[at], outputs, count)
    return count


@njit(cache=True)
def _table(symbols):  # type: ignore[no-untyped-def]
    """A hash table: the first row of each slot, and the next row in the same slot; -1: none."""
    slots = 1
    while slots < 2 * len(symbols):
        slots *= 2
    heads, following = np.full(slots, -1), np.empty(len(symbols), np.int64)
    for row in range(len(symbols) - 1, -1, -1):
        slot = _slot(symbols[row], heads)
        following[row] = heads[slot]
        heads[slot] = row
    return heads, following


@njit(cache=True)
def _slot(symbol, heads):  # type: ignore[no-untyped-def]
    mixed = np.uint64(symbol) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(len(heads) - 1))


@njit(cache=True)
def _next(symbol, article, symbols, following):  # type: ignore[no-untyped-def]
    """The first article of a symbol from an article of its slot on, or -1."""
    while article >= 0 and symbols[article] != symbol:
        article = following[article]
    return article


@njit(cache=True)
def _push_down(stocks, articles, heads, following, chosen, ring, outputs):  # type: ignore[no-untyped-def]
    count, end = 0, 0
    symbols, passing = articles.symbols, np.empty(len(chosen.queries), np.int64)
    inputs = np.empty((len(chosen.queries), 2), np.int64)
    for row in range(len(stocks)):
        for at in range(_passing(stocks[row, 1], chosen, passing)):
            copied = inputs[passing[at]]
            copied[0], copied[1] = stocks[row, 0], stocks[row, 1]
            article = _next(copied[0], heads[_slot(copied[0], heads)], symbols, following)
            while article >= 0:
                _, end = _join(copied, articles, article, ring, end)
                count = _send(passing[at], row, article, outputs, count)
                article = _next(copied[0], following[article], symbols, following)
    return count


@njit(cache=True)
def _pull_up(stocks, articles, heads, following, chosen, ring, outputs):  # type: ignore[no-untyped-def]
    count, end = 0, 0
    symbols, passing = articles.symbols, np.empty(len(chosen.queries), np.int64)
    for row in range(len(stocks)):
        symbol = stocks[row, 0]
        article = _next(symbol, heads[_slot(symbol, heads)], symbols, following)
        while article >= 0:
            start, end = _join(stocks[row], articles, article, ring, end)
            for at in range(_passing(ring[start + 1], chosen, passing)):
                count = _send(passing[at], row, article, outputs, count)
            article = _next(symbol, following[article], symbols, following)
    return count


@njit(cache=True)
def _cacq(stocks, articles, heads, following, chosen, ring, outputs):  # type: ignore[no-untyped-def]
    count, end = 0, 0
    symbols, queries = articles.symbols, len(chosen.queries)
    state, joined = np.zeros((queries + 63) // 64, np.uint64), np.empty((queries + 63) // 64, np.uint64)
    for row in range(len(stocks)):
        symbol = stocks[row, 0]
        state.fill(0)
        _refuse(stocks[row, 1], chosen, state)
        article = _next(symbol, heads[_slot(symbol, heads)], symbols, following)
        while article >= 0:
            _, end = _join(stocks[row], articles, article, ring, end)
            for word in range(len(state)):
                joined[word] = state[word]
            for query in range(queries):
                if not (joined[query >> 6] >> np.uint64(query & 63)) & np.uint64(1):
                    count = _send(query, row, article, outputs, count)
            article = _next(symbol, following[article], symbols, following)
    return count


@njit(cache=True)
def _passing(price, chosen, passing):  # type: ignore[no-untyped-def]
    """Write the queries whose selection holds, and return their number."""
    count = 0
    for at in range(len(chosen.queries)):
        if chosen.most_steps:
            holds = spins(price, chosen.constants[at], chosen.queries[at], chosen.most_steps)
        else:
            holds = chosen.constants[at] < price
            if not holds:
                break
        if holds:
            passing[count] = chosen.queries[at]
            count += 1
    return count


@njit(cache=True)
def _refuse(price, chosen, state):  # type: ignore[no-untyped-def]
    """Set the bits of the queries whose selection does not hold."""
    for at in range(len(chosen.queries) - 1, -1, -1):
        if chosen.most_steps:
            refuses = not spins(price, chosen.constants[at], chosen.queries[at], chosen.most_steps)
        else:
            refuses = chosen.constants[at] >= price
            if not refuses:
                break
        if refuses:
            query = chosen.queries[at]
            state[query >> 6] |= np.uint64(1) << np.uint64(query & 63)


@njit(cache=True)
def _join(stock, articles, article, ring, start):  # type: ignore[no-untyped-def]
    """Copy a joined tuple into the ring. Returns where it begins and ends."""
    first, last = articles.starts[article], articles.starts[article + 1]
    if start + _HEAD + last - first > len(ring):
        start = 0
    ring[start], ring[start + 1], ring[start + 2] = stock[0], stock[1], articles.symbols[article]
    for at in range(last - first):
        ring[start + _HEAD + at] = articles.words[first + at]
    return start, start + _HEAD + last - first


@njit(cache=True)
def _send(query, stock, article, outputs, count):  # type: ignore[no-untyped-def]
    """Append a joined tuple to the output of a query. Returns the number of outputs."""
    outputs[0, count], outputs[1, count], outputs[2, count] = query, stock, article
    return count + 1
