"""Many patterns looked for in texts together, each byte of a text read once (Aho and Corasick, 1975).

    patterns   an ant na     states   0 --a--> 1 --n--> 3 --t--> 5     fail: the longest other suffix that is
                                        --n--> 2 --a--> 4              a state: 3 -> 2, 4 -> 1
    text       n a n t       states   0 2 4 3 5                        hits: na, an, ant

A state is a beginning of a pattern, numbered level by level: the states that follow one are neighbours, in the order of
their bytes. A text takes at most two steps a byte, whatever lies within what: what has been read is never read again. A
pattern counts once in a text: where it was seen before, the patterns that it ends with were too. A text is followed by
the byte END, which is in no text: a pattern that ends with it is found at the end of a text only.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner

END = 0xFF
"""The byte behind each text; UTF-8 does not have it."""
_FEW = 8


@inner
def _next(state, byte, child, label):
    """The state that follows by a byte; -1 if there is none."""
    first, last = child[state], child[state + 1]
    while last - first > _FEW:
        middle = (first + last) >> 1
        if label[middle] <= byte:
            first = middle
        else:
            last = middle
    for after in range(first, last):
        if label[after] == byte:
            return after
    return -1


@inner
def _failed(state, byte, child, label, fail):
    """The longest suffix of a state, not the whole of it, that is a state by a byte."""
    while state:
        state = fail[state]
        after = _next(state, byte, child, label)
        if after >= 0:
            return after
    return 0


@njit(cache=True, nogil=True)
def grow_states(offsets, data, child, label, fail, hit, parent, root):
    """The automaton of K patterns of N bytes; returns the number of its states, S <= N + 1.

    offsets: int64[K + 1], data: uint8[N]: patterns in order, none empty; equal ones may be there. Read. Written, for
    the states: child: int32[N + 2], the states that follow s are child[s] up to child[s + 1]; label: uint8[N + 1], the
    byte that leads to s; fail: int32[N + 1], its longest other suffix that is a state; hit: int32[N + 1], the last
    pattern that s ends with and that is the longest, -1 if there is none. parent: int32[K], written: an equal pattern
    before it, or the hit of what the pattern ends with; -1. root: int32[256], zeros before, written: the state by a
    byte from state 0. O(N + K * the longest).
    """
    here = np.zeros(parent.shape[0], np.int32)
    label[0], fail[0], hit[0] = 0, 0, -1
    states, first, depth = 1, 0, 0
    while True:
        level, state = states, -1
        for p in range(parent.shape[0]):
            if offsets[p + 1] - offsets[p] <= depth:
                continue
            byte = data[offsets[p] + depth]
            if here[p] != state or byte != label[states - 1]:
                for before in range(max(state + 1, first), here[p] + 1):
                    child[before] = states
                state = here[p]
                label[states] = byte
                fail[states] = _failed(state, byte, child, label, fail)
                hit[states] = hit[fail[states]]
                states += 1
            here[p] = states - 1
            if offsets[p + 1] - offsets[p] == depth + 1:
                parent[p] = hit[states - 1]
                hit[states - 1] = p
        for before in range(max(state + 1, first), level):
            child[before] = states
        if states == level:
            break
        first, depth = level, depth + 1
    child[states] = states
    for after in range(child[0], child[1]):
        root[label[after]] = after
    return states


@njit(cache=True, nogil=True)
def search_texts(offsets, data, first, child, label, fail, hit, parent, root, seen, out_tuples, out_patterns):
    """Which patterns occur in which texts, from text `first` on, until there might be no more room.

    offsets: int64[n + 1], data: uint8: the texts. child, label, fail, hit, parent, root: see `grow_states`. Read. seen:
    int32[K], zeros before the first call, and then as they were left. out_tuples, out_patterns: int32[>= K], written:
    each pair once, by text. Returns (the text to go on with, pairs). O(bytes + pairs).
    """
    size, room = 0, out_tuples.shape[0] - parent.shape[0]
    for t in range(first, offsets.shape[0] - 1):
        if size > room:
            return t, size
        state, end = 0, offsets[t + 1]
        for at in range(offsets[t], end + 1):
            byte = data[at] if at < end else np.uint8(END)
            while state:
                after = _next(state, byte, child, label)
                if after >= 0:
                    break
                state = fail[state]
            state = after if state else root[byte]
            p = hit[state]
            while p >= 0 and seen[p] != t + 1:
                seen[p] = t + 1
                out_tuples[size], out_patterns[size] = t, p
                size += 1
                p = parent[p]
    return offsets.shape[0] - 1, size
