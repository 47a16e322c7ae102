"""The structures from which answers came that were compared with an oracle: counts of a test process; a zero fails.

    an answer   reads    key index, fold          noted where the product reads it, by wrapped functions
    compared    passes   +1 for each of these     `KEPT.compared()` around the question and its comparison

A fold, a pack or a place counts only if it was there before the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from psoup.aggregates.folds import FoldRoom, Folds
from psoup.aggregates.spans import cover
from psoup.aggregates.stored_folds import ShelfOnDisk
from psoup.answer import invoke, join_ranges
from psoup.data.archived_chunk import Chunk
from psoup.data.chunk import ChunkView
from psoup.execution.aggregate import window_middle
from psoup.execution.join import kept_pairs, located_side, lookup_filter
from psoup.execution.many import window_packs
from psoup.execution.many.packs_store import PackShelf
from psoup.matching.key_search import KeyPlaces
from psoup.model import STREAMED, Kind

STRUCTURES = (
    "key index",
    "join look-up",
    "fold",
    "middle",
    "pack",
    "kept pairs",
    "placed ranges",
    "looked-up run",
    "fold on disk",
    "pack on disk",
)
"""The structures that must be met."""
KEYED = tuple(kind for kind in STREAMED if kind is not Kind.BOOLEAN)
"""The kinds of columns that have key indexes."""


class KeptStructures:
    """Counts of compared answers by structure, and by structure and kind of column."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.answers = 0
        self._used: set[str] = set()

    def note(self, name: str) -> None:
        """Note that a structure is read."""
        self._used.add(name)

    @contextmanager
    def compared(self) -> Iterator[None]:
        """A question and the comparison of its answer: what is read meanwhile counts, unless the comparison fails."""
        self._used.clear()
        yield
        self.answers += 1
        self.counts.update(self._used)

    def missing(self) -> list[str]:
        """The structures, and the kinds of columns with a key index, from which no compared answer came."""
        return [name for name in (*STRUCTURES, *map(index_of, KEYED)) if not self.counts[name]]

    def report(self) -> list[str]:
        """The line of the summary."""
        shown = [f"{name} {self.counts[name]}" for name in (*STRUCTURES, *map(index_of, KEYED))]
        return [f"{self.answers} answers compared, of which from: {', '.join(shown)}"]


def index_of(kind: Kind) -> str:
    """The name under which key indexes of columns of a kind are counted."""
    return f"key index of {kind.value}"


KEPT = KeptStructures()
"""The counts of this test process."""


def observe() -> None:
    """Wrap what reads kept structures, in this process. Called once."""
    _wrap(KeyPlaces, "taken", _taken)
    _wrap(lookup_filter, "_cut", _cut)
    _wrap(FoldRoom, "fold", _fold)
    _wrap(window_middle, "_tails", _when_given("middle"))
    _wrap(window_packs, "_known", _packs)
    _wrap(kept_pairs, "_codes_of", _when_given("kept pairs"))
    _wrap(invoke, "placed", _placed)
    for module in (located_side, join_ranges):
        _wrap(module, "run_of", _run)
    _wrap(ShelfOnDisk, "fetch", _when_given("fold on disk"))
    _wrap(PackShelf, "fetch", _when_given("pack on disk"))


Call = Callable[..., Any]


def _wrap(owner: Any, name: str, wrapper: Callable[[Call], Call]) -> None:
    setattr(owner, name, wraps(getattr(owner, name))(wrapper(getattr(owner, name))))


def _when_given(name: str) -> Callable[[Call], Call]:
    """Note a structure when the function returns something."""

    def wrapper(call: Call) -> Call:
        def wrapped(*given: Any, **named: Any) -> Any:
            result = call(*given, **named)
            if result is not None and result is not False and (not isinstance(result, int) or result):
                KEPT.note(name)
            return result

        return wrapped

    return wrapper


def _taken(call: Call) -> Call:
    """Rows of a chunk that a key index gave."""

    def wrapped(places: KeyPlaces, fewest: Any, parts: Sequence[Any]) -> Iterator[Any]:
        for number, rows in call(places, fewest, parts):
            KEPT.note("key index")
            KEPT.note(index_of(_kind(parts[number][0], places._by_key.column)))
            yield number, rows

    return wrapped


def _kind(chunk: Chunk, column: int) -> Kind:
    return chunk.columns[column].type.kind if isinstance(chunk, ChunkView) else chunk.attribute(column).type.kind


def _cut(call: Call) -> Call:
    def wrapped(matches: Any, *more: Any) -> Any:
        result = call(matches, *more)
        if result is not matches:
            KEPT.note("join look-up")
        return result

    return wrapped


def _fold(call: Call) -> Call:
    def wrapped(room: FoldRoom, folds: Folds, first: int, stop: int, *more: Any, **named: Any) -> Any:
        if (first, stop) in folds.inner or any(span in folds.spans for span in cover(first, stop, room.fan)):
            KEPT.note("fold")
        return call(room, folds, first, stop, *more, **named)

    return wrapped


def _packs(call: Call) -> Call:
    def wrapped(view: Any, measures: Any, inner: Any) -> Any:
        packs = call(view, measures, inner)
        first = view.chunks[inner.first].data.number
        inside = first, first + inner.stop - inner.first
        known = (
            [] if packs is None else [packs.inner.get(inside), *map(packs.spans.get, cover(*inside, view.packs.fan))]
        )
        if any(known):
            KEPT.note("pack")
        return packs

    return wrapped


def _placed(call: Call) -> Call:
    def wrapped(snapshot: Any, record: Any) -> Any:
        before = snapshot.notes.table(join_ranges.RANGES).get(record.query_id) is not None
        result = call(snapshot, record)
        if before:
            KEPT.note("placed ranges")
        return result

    return wrapped


def _run(call: Call) -> Call:
    def wrapped(side: Any) -> Any:
        before = len(side[0].notes.table(located_side.RUNS))
        result = call(side)
        if result is not None and len(side[0].notes.table(located_side.RUNS)) == before:
            KEPT.note("looked-up run")
        return result

    return wrapped
