"""Spans of chunks: aligned runs that have one fold. A span of level k has `fan`^k chunks.

    chunks [-17, 18)  =  leaf -17, node -1, node 0, leaf 16, leaf 17          fan 16; attached history is below zero

O(fan * log n) spans make up a run of n chunks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

Span = tuple[int, int]
"""A span as (level, number). It begins with the chunk number * fan ** level."""


def cover(first: int, stop: int, fan: int) -> Iterator[Span]:
    """Yield the spans that make up the chunks [first, stop), in order. Each is as wide as possible. O(fan * log n)."""
    while first < stop:
        level, size = 0, 1
        while first % (size * fan) == 0 and first + size * fan <= stop:
            level, size = level + 1, size * fan
        yield level, first // size
        first += size


def lacking(spans: Container[Span], first: int, stop: int, fan: int) -> list[range]:
    """The chunks of [first, stop) that none of the given spans covers, as ascending runs of numbers.

    A run does not cross the border of a span of level 1.
    """

    def missing(level: int, number: int) -> Iterator[tuple[Span | None, int]]:
        if (level, number) not in spans:
            if not level:
                yield None, number
            for child in range(number * fan, (number + 1) * fan) if level else ():
                yield from (((level, number) if level == 1 else node, at) for node, at in missing(level - 1, child))

    runs = list[range]()
    latest: Span | None = None
    for node, number in (each for span in cover(first, stop, fan) for each in missing(*span)):
        if runs and runs[-1].stop == number and node == latest:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
        latest = node
    return runs


def single(runs: Iterable[range]) -> list[range]:
    """Split runs into runs of one chunk."""
    return [range(number, number + 1) for run in runs for number in run]
