"""Turns: how often a stream was thinned. Folds and packs of one turn serve only snapshots of the same turn.

    turn 4   fold of chunks 0-15   fold of chunk 16      a reader with a newer snapshot, turn 5: chunk 16 was thinned
    turn 5   fold of chunks 0-15   ── a new object ──    a reader of turn 4 may still write to the old one

After a thinning, the folds of all spans with the chunk are wrong. All other folds stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from psoup.aggregates.spans import Span
from psoup.data.archived_chunk import Chunk

if TYPE_CHECKING:
    from psoup.aggregates.folds import Folds
    from psoup.aggregates.packs import Packs

Turns = tuple[int, Mapping[int, int]]
"""The thinnings of a stream: their count, and by the number of each thinned chunk the count after its last one."""

NO_TURNS: Turns = (0, MappingProxyType({}))
"""The thinnings of a stream without any."""


def turns_at_start(chunks: Iterable[Chunk]) -> Turns:
    """The turns of a stream that a start has read. It has no folds yet."""
    return 0, MappingProxyType({chunk.number: 0 for chunk in chunks if chunk.places.left is not None})


def next_turns(turns: Turns, number: int) -> Turns:
    """The turns after the chunk `number` was thinned once more. O(thinned chunks)."""
    return turns[0] + 1, MappingProxyType({**turns[1], number: turns[0] + 1})


def turns_from(turns: Turns, first: int) -> Turns:
    """The turns without chunks with numbers below `first`, which were dropped. O(thinned chunks)."""
    if not turns[1]:
        return turns
    return turns[0], MappingProxyType({number: last for number, last in turns[1].items() if number >= first})


def turned_folds(folds: Folds, turns: Turns, fan: int, base: int) -> Folds:
    """A copy of the folds, without folds of chunks that were thinned since. `base`: the bytes of an empty object."""
    gone = _thinned_since(folds.turn, turns)
    spans = {span: fold for span, fold in folds.spans.copy().items() if not _meets(span, gone, fan)}
    inner = {inside: fold for inside, fold in folds.inner.copy().items() if not _within(inside, gone)}
    size = base + sum(fold.nbytes for fold in (*spans.values(), *inner.values()))
    shelved = folds.shelved.copy() & spans.keys()
    return replace(folds, spans=spans, inner=inner, middles={}, shelved=shelved, nbytes=size, turn=turns[0])


def turned_packs(packs: Packs, turns: Turns, fan: int) -> Packs:
    """A copy of the packs, without packs of chunks that were thinned since."""
    gone = _thinned_since(packs.turn, turns)
    spans = {span: parts for span, parts in packs.spans.copy().items() if not _meets(span, gone, fan)}
    inner = {inside: parts for inside, parts in packs.inner.copy().items() if not _within(inside, gone)}
    fresh, ahead = packs.fresh.copy() & spans.keys(), min([packs.ahead, *gone])
    later = replace(packs, spans=spans, inner=inner, fresh=fresh, looked=set(), ahead=ahead, turn=turns[0])
    later.count()
    return later


def _thinned_since(turn: int, turns: Turns) -> list[int]:
    """The numbers of the chunks that were thinned after a turn."""
    return [number for number, last in turns[1].items() if last > turn]


def _meets(span: Span, numbers: Iterable[int], fan: int) -> bool:
    """Whether a span has one of some chunks. O(numbers)."""
    size = fan ** span[0]
    return any(number // size == span[1] for number in numbers)


def _within(chunks: tuple[int, int], numbers: Iterable[int]) -> bool:
    """Whether the chunks [first, stop) have one of some numbers. O(numbers)."""
    return any(chunks[0] <= number < chunks[1] for number in numbers)
