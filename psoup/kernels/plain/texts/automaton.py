"""Twins of `psoup.kernels.texts.automaton`."""

from __future__ import annotations

from itertools import pairwise

from psoup.kernels.plain import Array


def grow_states(
    offsets: Array, data: Array, child: Array, label: Array, fail: Array, hit: Array, parent: Array, root: Array
) -> int:
    """See the kernel."""
    patterns = [data[start:stop].tobytes() for start, stop in pairwise(offsets)]
    starts = {pattern[:size] for pattern in patterns for size in range(len(pattern) + 1)}
    states = sorted(starts, key=lambda text: (len(text), text))
    numbers = {text: number for number, text in enumerate(states)}
    for s, text in enumerate(states):
        after = [numbers[other] for other in states if other[:-1] == text and other]
        child[s] = after[0] if after else _none_after(states, text)
        label[s] = text[-1] if text else 0
        suffixes = [text[k:] for k in range(1, len(text) + 1) if text[k:] in numbers]
        fail[s] = numbers[suffixes[0]] if suffixes else 0
        ending = [p for p, pattern in enumerate(patterns) if text.endswith(pattern)]
        hit[s] = max(ending, key=lambda p: (len(patterns[p]), p), default=-1)
    child[len(states)] = len(states)
    for p, pattern in enumerate(patterns):
        endings = [
            q for q, part in enumerate(patterns) if pattern.endswith(part) and (len(part), q) < (len(pattern), p)
        ]
        parent[p] = max(endings, key=lambda q: (len(patterns[q]), q), default=-1)
    for text, s in numbers.items():
        if len(text) == 1:
            root[text[0]] = s
    return len(states)


def _none_after(states: list[bytes], text: bytes) -> int:
    """The first number of the states that follow `text`: after all that follow states before it."""
    return 1 + sum(1 for other in states if other and (len(other) - 1, other[:-1]) < (len(text), text))


def search_texts(
    offsets: Array, data: Array, first: int, child: Array, label: Array, fail: Array, hit: Array, parent: Array,
    root: Array, seen: Array, out_tuples: Array, out_patterns: Array,
) -> tuple[int, int]:  # fmt: skip
    """See the kernel."""
    states, size = [b""] * (len(child) - 1), 0
    for s in range(len(states)):
        for after in range(child[s], child[s + 1]):
            states[after] = states[s] + label[after : after + 1].tobytes()
    for t in range(first, len(offsets) - 1):
        if size > len(out_tuples) - len(parent):
            return t, size
        text, matches = data[offsets[t] : offsets[t + 1]].tobytes() + b"\xff", set[int]()
        for p in [int(hit[s]) for s, part in enumerate(states) if part and part in text]:
            while p >= 0:
                matches.add(p)
                p = int(parent[p])
        for p in matches:
            out_tuples[size], out_patterns[size], seen[p] = t, p, t + 1
            size += 1
    return len(offsets) - 1, size
