"""Operators of the update-pattern paper (SIGMOD 2005, sections 2.1 and 5.3.1), one tuple at a time.

    join       each tuple goes into its own state and probes the other one
    distinct   the output has a tuple of each key; the youngest tuple of the key takes the place of one that expires
    negation   by copies: of the v1 left and v2 right tuples of a key, the v1 - v2 left ones that expire last are output

A negative tuple has the sign -1. An operator appends to a queue: rows of sign, key, expiry, left and right ID (for
DISTINCT, its side in place of the right ID). In the negative tuple approach (`negative`) each expiry comes as a
negative tuple; else operators look for expired tuples. `s` is a `State`; buffers are numbers.
"""

from __future__ import annotations

import numpy as np

from benchmarks.reproduce.emulators.update_patterns.buffers import (
    AFTER,
    CHOSEN,
    EXPIRY,
    FIRST,
    HASH,
    KEY,
    KIND,
    LEFT,
    LIST,
    NEXT,
    PREVIOUS,
    RIGHT,
    compiled,
    expired,
    find,
    first_of,
    insert,
    last_of,
    neighbour,
    remove,
    remove_expired,
)

PRODUCED, PREMATURE, EXPIRED = range(3)
"""Counts of a negation: results, results that a negative tuple removed, and results that left at their expiry."""
LEFTS, RIGHTS, OUTPUTS, BOUNDARY = range(4)
"""Facts of a key in a negation: numbers of tuples and outputs, and the cell of the output that expires first."""
WINDOWS, INPUTS, SEEN, JOINED, LEFT_INPUT, RIGHT_INPUT, RESULT, BUFFERS = 0, 3, 5, 7, 9, 10, 11, 12
"""The numbers of buffers: three windows, two inputs and outputs of DISTINCT, two states of a join, negation, view."""


@compiled
def append(s, out, sign, key, expiry, left, right):  # type: ignore[no-untyped-def]
    """Append a row to a queue."""
    row = s.counts[out]
    s.queues[out, row, 0], s.queues[out, row, 1], s.queues[out, row, 2] = sign, key, expiry
    s.queues[out, row, 3], s.queues[out, row, 4] = left, right
    s.counts[out] += 1


@compiled
def _append_cell(s, out, sign, key, cell):  # type: ignore[no-untyped-def]
    expiry, left, right = s.nodes[cell, EXPIRY], s.cells[cell, LEFT], s.cells[cell, RIGHT]
    append(s, out, sign, key, np.int64(expiry), np.int64(left), np.int64(right))


@compiled
def join(s, states, side, keeps, negative, sign, key, expiry, tuple_id, now, out):  # type: ignore[no-untyped-def]
    """A tuple on one side of a join. `keeps`: it goes into the state; else the state is the output of DISTINCT."""
    state, other = states + side, states + 1 - side
    if sign < 0:
        remove(s, state, find(s, state, key, tuple_id, np.int64(-1)))
    elif keeps:
        insert(s, state, key, expiry, tuple_id, np.int64(-1))
    cell = first_of(s, other, key)
    while cell >= 0:
        until, partner = np.int64(s.nodes[cell, EXPIRY]), np.int64(s.cells[cell, LEFT])
        if negative or until > now:
            left, right = (tuple_id, partner) if side == 0 else (partner, tuple_id)
            append(s, out, sign, key, min(expiry, until), left, right)
        cell = neighbour(s, cell, key, NEXT)


@compiled
def distinct(s, side, keeps, sign, key, expiry, tuple_id, window, out):  # type: ignore[no-untyped-def]
    """A tuple for DISTINCT. `keeps`: the input is stored; else the youngest tuple of a key is, beside the output."""
    inputs, output, none = INPUTS + side, SEEN + side, np.int64(-1)
    if sign < 0:
        remove(s, inputs, find(s, inputs, key, tuple_id, none))
        cell = first_of(s, output, key)
        if s.cells[cell, LEFT] == tuple_id:
            append(s, out, -1, key, expiry, tuple_id, side)
            _replace(s, side, keeps, cell, expiry, window, out)
        return
    if keeps:
        insert(s, inputs, key, expiry, tuple_id, none)
    cell = first_of(s, output, key)
    if cell < 0:
        insert(s, output, key, expiry, tuple_id, none)
        append(s, out, 1, key, expiry, tuple_id, side)
    elif not keeps:
        s.cells[cell, RIGHT] = tuple_id


@compiled
def _replace(s, side, keeps, cell, now, window, out):  # type: ignore[no-untyped-def]
    """Remove an output that has expired, and put out the youngest tuple of its key if there is one."""
    key, youngest = np.int64(s.cells[cell, KEY]), np.int64(s.cells[cell, RIGHT])
    remove(s, SEEN + side, cell)
    if keeps:
        last = last_of(s, INPUTS + side, key)
        youngest = np.int64(s.cells[last, LEFT]) if last >= 0 else np.int64(-1)
    if youngest >= 0 and youngest + window > now:
        insert(s, SEEN + side, key, youngest + window, youngest, np.int64(-1))
        append(s, out, 1, key, youngest + window, youngest, side)


@compiled
def expire_distinct(s, side, keeps, now, window, out):  # type: ignore[no-untyped-def]
    """Replace the outputs that have expired."""
    output = SEEN + side
    if s.facts[output, KIND] == LIST:
        cell = np.int64(s.ends[s.facts[output, FIRST], 0])
        while cell >= 0:
            after = np.int64(s.nodes[cell, AFTER])
            if s.nodes[cell, EXPIRY] <= now:
                _replace(s, side, keeps, cell, now, window, out)
            cell = after
    else:
        cell = expired(s, output, now)
        while cell >= 0:
            _replace(s, side, keeps, cell, now, window, out)
            cell = expired(s, output, now)


@compiled
def _surplus(s, key):  # type: ignore[no-untyped-def]
    """The outputs of a key that are too many (below 0: too few)."""
    return s.keys[OUTPUTS, key] - max(s.keys[LEFTS, key] - s.keys[RIGHTS, key], 0)


@compiled
def _put_out(s, key, out):  # type: ignore[no-untyped-def]
    """Add an output of a key: of the left tuples that are not output, the last one to expire."""
    boundary = s.keys[BOUNDARY, key]
    cell = last_of(s, LEFT_INPUT, key) if boundary < 0 else neighbour(s, boundary, key, PREVIOUS)
    s.cells[cell, CHOSEN] = 1
    s.keys[BOUNDARY, key] = cell
    s.keys[OUTPUTS, key] += 1
    s.tally[PRODUCED] += 1
    _append_cell(s, out, 1, key, cell)


@compiled
def _take_back(s, key, out):  # type: ignore[no-untyped-def]
    """Remove an output of a key before its expiry: a negative tuple for the output that expires first."""
    cell = s.keys[BOUNDARY, key]
    s.cells[cell, CHOSEN] = 0
    s.keys[OUTPUTS, key] -= 1
    s.keys[BOUNDARY, key] = neighbour(s, cell, key, NEXT)
    s.tally[PREMATURE] += 1
    _append_cell(s, out, -1, key, cell)


@compiled
def _negate_left(s, key, expiry, first, second, out):  # type: ignore[no-untyped-def]
    """A left tuple arrives."""
    cell = insert(s, LEFT_INPUT, key, expiry, first, second)
    s.keys[LEFTS, key] += 1
    if _surplus(s, key) >= 0:
        return
    boundary = s.keys[BOUNDARY, key]
    if boundary < 0 or s.nodes[boundary, EXPIRY] > expiry:
        _put_out(s, key, out)
        return
    s.cells[cell, CHOSEN] = 1
    s.keys[OUTPUTS, key] += 1
    s.tally[PRODUCED] += 1
    append(s, out, 1, key, expiry, first, second)


@compiled
def drop_left(s, explicit, cell, out):  # type: ignore[no-untyped-def]
    """A left tuple expires. `explicit`: there is a negative tuple for each output that leaves."""
    key = np.int64(s.cells[cell, KEY])
    s.keys[LEFTS, key] -= 1
    if s.cells[cell, CHOSEN]:
        s.keys[OUTPUTS, key] -= 1
        if s.keys[BOUNDARY, key] == cell:
            s.keys[BOUNDARY, key] = neighbour(s, cell, key, NEXT)
        s.tally[EXPIRED] += 1
        if explicit:
            _append_cell(s, out, -1, key, cell)
    remove(s, LEFT_INPUT, cell)
    if _surplus(s, key) > 0:
        _take_back(s, key, out)


@compiled
def _negate_right(s, key, expiry, tuple_id, out):  # type: ignore[no-untyped-def]
    """A right tuple arrives."""
    insert(s, RIGHT_INPUT, key, expiry, tuple_id, np.int64(-1))
    s.keys[RIGHTS, key] += 1
    if _surplus(s, key) > 0:
        _take_back(s, key, out)


@compiled
def drop_right(s, cell, out):  # type: ignore[no-untyped-def]
    """A right tuple expires."""
    key = np.int64(s.cells[cell, KEY])
    remove(s, RIGHT_INPUT, cell)
    s.keys[RIGHTS, key] -= 1
    if _surplus(s, key) < 0:
        _put_out(s, key, out)


@compiled
def negate(s, side, explicit, sign, key, expiry, first, second, out):  # type: ignore[no-untyped-def]
    """A tuple for a negation, on its left side (0) or right side."""
    if sign > 0 and side == 0:
        _negate_left(s, key, expiry, first, second, out)
    elif sign > 0:
        _negate_right(s, key, expiry, first, out)
    elif side == 0:
        drop_left(s, explicit, find(s, LEFT_INPUT, key, first, second), out)
    else:
        drop_right(s, find(s, RIGHT_INPUT, key, first, second), out)


@compiled
def apply(s, out, window, now):  # type: ignore[no-untyped-def]
    """Bring the view up to date: remove its expired rows, then take the rows of a queue, which becomes empty."""
    if now >= window:
        remove_expired(s, RESULT, now)
    for row in range(s.counts[out]):
        key, left, right = s.queues[out, row, 1], s.queues[out, row, 3], s.queues[out, row, 4]
        if s.queues[out, row, 0] > 0:
            insert(s, RESULT, key, s.queues[out, row, 2], left, right)
            continue
        cell = find(s, RESULT, key, left, right)
        if cell >= 0:
            remove(s, RESULT, cell)
        elif s.facts[RESULT, KIND] == HASH:
            raise KeyError("a negative tuple came for a row that is not in the view")
    s.counts[out] = 0
