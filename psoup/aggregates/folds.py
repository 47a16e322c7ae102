"""Folds: what the matches of a clause in a span of closed chunks come to, kept for the next invocation.

    chunks   -17   -16 … -1   0 … 15   16   17        numbered in the order of the stream
    spans          └─ node ┘  └node┘                  16 aligned chunks, 256, …: floor division, of negative numbers too
    [-17, 18)  =  leaf -17, node -1, node 0, leaf 16, leaf 17

A closed chunk never changes and the number of a clause is never given again: a fold stays true as long as it is kept.
A span without a fold is not an empty one: the reader that misses it folds it. A node is made of all its chunks, and is
used only for windows that hold all of them. All of it may be dropped at any time.

With GROUP BY a fold that has more groups than half of its tuples saves nothing, and is not kept; but those of the
latest windows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from psoup.aggregates.kept import KeptBytes
from psoup.aggregates.key_tables import KeyTables
from psoup.aggregates.recipes import Fold, Recipe
from psoup.aggregates.refusals import Refusals
from psoup.aggregates.spans import Span, cover, lacking, single
from psoup.columns import Array
from psoup.errors import PSoupError
from psoup.reading import NOT_HELD, HeldBytes

_INNER = 4
"""Windows whose inner chunks are kept combined, of a clause and its measures."""
_FOLDS_BYTES = 500
"""Bytes of the objects of the folds of a clause, beside arrays: about."""
_COUNTED_ANEW = 1_024
_BURIED = 16
"""Clauses that are gone from which on it is looked for their folds."""
_SHARE = 4
"""The share of the room that the fold of one window may take: a fourth."""
LEAST_WORK = 1 << 20
"""Bytes that one fold may always hold while it is made ahead, however little room there is."""

Leaf = Callable[[list[range]], list[Fold]]
"""Folds runs of chunks, ascending, by their numbers: a fold for each run."""

Join = Callable[[Iterable[Fold]], Fold]
"""Makes one fold of those of neighbouring spans, given in the order of the stream."""


@dataclass(slots=True, eq=False)
class Folds:
    """The folds of one clause for one recipe. Any thread: spans come and go in single steps, and are never changed."""

    recipe: Recipe
    tenant: str = ""
    tables: KeyTables = field(default_factory=KeyTables)
    """Keys of groups that the folds of other clauses have too."""
    spans: dict[Span, Fold] = field(default_factory=dict)
    inner: dict[tuple[int, int], Fold] = field(default_factory=dict)
    """The folds of chunks [first, stop) of the latest windows."""
    middles: dict[tuple[int, int], Fold | None] = field(default_factory=dict)
    """Folds of tuple IDs [low, high) of the latest windows; None: needed once (see `window_middle`)."""
    nbytes: int = _FOLDS_BYTES
    used: bool = True
    oldest: int | None = None
    """The number of the first chunk that the stream had when spans were dropped."""
    stream: int = -1
    name: bytes | None = None
    """The name by which spans are known on disk; None: they stay in memory."""
    shelved: set[Span] = field(default_factory=set)
    """Spans that are on disk, or found no room there."""
    beyond: range | None = None
    """The chunks that came to a fold which was too large to keep."""

    def of(self, first: int, stop: int, fan: int, leaf: Leaf, join: Join, most: int) -> tuple[Fold, int]:
        """The fold of the chunks [first, stop), and the bytes that are kept now and were not. O(spans).

        What all chunks come to is kept if it has at most so many bytes.
        """
        known, made = dict(self.spans), dict[Span, Fold]()
        runs = {run: self.shared(fold) for run, fold in self._folded(lacking(known, first, stop, fan), leaf).items()}
        made.update(((0, run.start), fold) for run, fold in runs.items() if len(run) == 1)
        others = {run.start: fold for run, fold in runs.items() if len(run) > 1}

        def found(level: int, number: int) -> list[Fold]:
            """The folds that make up a span: of a run all of it with its first chunk, nothing with others."""
            fold = known.get((level, number)) or made.get((level, number))
            if fold is None and level:
                children = range(number * fan, (number + 1) * fan)
                fold = made[level, number] = join([part for child in children for part in found(level - 1, child)])
            if fold is None:
                return [others[number]] if number in others else []
            return [fold]

        whole = join([part for span in cover(first, stop, fan) for part in found(*span)])
        if whole.keys:
            whole = self.tables.numbered(self.recipe.keys, whole)
        made = {span: self.shared(fold) for span, fold in made.items() if fold.pays}
        self.spans.update(made)
        size = sum(fold.nbytes for fold in made.values())
        self.beyond = range(first, stop) if whole.nbytes > most else None
        if self.beyond is None:
            for old in list(self.inner)[: 1 - _INNER]:
                if (fold := self.inner.pop(old, None)) is not None:
                    size -= fold.nbytes
            self.inner[first, stop] = whole
            size += whole.nbytes
        self.nbytes += size
        return whole, size

    def too_large(self, first: int, stop: int) -> bool:
        """Whether the fold of the chunks [first, stop) is likely too large to keep: that of as many was, some of them
        the same."""
        return self.beyond is not None and stop - first >= len(self.beyond) and first < self.beyond.stop

    def shared(self, fold: Fold) -> Fold:
        """The fold, with the keys that others have too."""
        return self.tables.shared(self.recipe.keys, fold) if fold.keys else fold

    def _folded(self, missing: list[range], leaf: Leaf) -> dict[range, Fold]:
        """Fold runs of chunks: each chunk by itself, if a fold of the last one pays, else those of a run together."""
        if not missing:
            return {}
        newest = range(missing[-1].stop - 1, missing[-1].stop)
        rest = [run for run in (*missing[:-1], range(missing[-1].start, newest.start)) if run]
        if self.recipe.keys:
            (latest,) = leaf([newest])
            runs = rest if not latest.pays else single(rest)
            return dict(zip([*runs, newest], [*(leaf(runs) if runs else []), latest], strict=True))
        runs = single(missing)
        return dict(zip(runs, leaf(runs), strict=True))

    def forget(self, oldest: int, fan: int) -> int:
        """Drop spans all of whose chunks have a number below `oldest`; returns the bytes freed. O(spans)."""
        if oldest == self.oldest:
            return 0
        self.oldest, freed = oldest, 0
        for level, number in list(self.spans):
            if (number + 1) * fan**level <= oldest and (fold := self.spans.pop((level, number), None)) is not None:
                freed += fold.nbytes
                self.shelved.discard((level, number))
        self.nbytes -= freed
        return freed


class Shelf(Protocol):
    """Folds of chunks that are not in memory (`psoup.aggregates.shelved`)."""

    def fetch(self, folds: Folds, first: int, stop: int, fan: int, held: HeldBytes = NOT_HELD) -> int:
        """Take the spans that make up the chunks [first, stop) and are not kept; returns their bytes.

        They are charged to `held` before they are read.
        """
        ...

    def shelve(self, kept: Iterable[Folds], fan: int) -> None:
        """Take spans that are kept, and are not there."""
        ...


class FoldRoom:
    """The folds of all clauses. Any thread: counts may be a little behind. `limit`: bytes.

    `fan`: how many spans make a wider one; 1: matches are never folded by chunks. `kept`: of each tenant, with others.
    """

    def __init__(self, limit: int, fan: int, kept: KeptBytes | None = None) -> None:
        self.limit, self.fan = limit, fan
        self.kept_bytes = kept or KeptBytes()
        self.kept_bytes.add(self.held_by)
        self._kept: dict[tuple[int, Recipe], Folds] = {}
        self.refusals = Refusals()
        """Folds that could not be made ahead, by the clause's SQC ID and the recipe."""
        self._held = self._changes = 0
        self._of_tenant: dict[str, int] = {}
        self._tables = KeyTables()
        self._dead = list[Array]()
        """The SQC IDs of clauses that are gone, and may have folds: `_buried` of them."""
        self._buried = 0

    @property
    def held(self) -> int:
        """Bytes that are kept. O(1)."""
        return self._held

    def held_by(self, tenant: str) -> int:
        """Those of one tenant. O(1)."""
        return self._of_tenant.get(tenant, 0)

    def work_bytes(self, tenant: str) -> int:
        """The most bytes that one fold of a tenant may hold while it is made ahead; its result takes less."""
        return max(min(self.limit, self.kept_bytes.limit(tenant) or self.limit), LEAST_WORK)

    @property
    def spans(self) -> int:
        """The number of folds that are kept. O(clauses that were asked)."""
        return sum(len(folds.spans) for folds in list(self._kept.values()))

    def known(self, sqc_id: int, recipe: Recipe, tenant: str = "") -> Folds | None:
        """The folds of a tenant's clause; None if nobody has asked for the like before, which is noted."""
        folds = self._kept.get((sqc_id, recipe))
        if folds is None:
            self._kept[sqc_id, recipe] = Folds(recipe, tenant, self._tables)
            self._grow(_FOLDS_BYTES, tenant)
        return folds

    def middle(self, sqc_id: int, recipe: Recipe, ids: tuple[int, int]) -> Fold | None:
        """The fold of tuple IDs [low, high) of a clause, if it is kept. O(1)."""
        folds = self._kept.get((sqc_id, recipe))
        if folds is None or (fold := folds.middles.get(ids)) is None:
            return None
        folds.used = True
        return fold

    def noted(self, folds: Folds, ids: tuple[int, int]) -> bool:
        """Whether tuple IDs [low, high) of a clause were needed before, which is noted."""
        if ids in folds.middles:
            return True
        for old in list(folds.middles)[: 1 - _INNER]:
            if (fold := folds.middles.pop(old, None)) is not None:
                folds.nbytes -= fold.nbytes
                self._grow(-fold.nbytes, folds.tenant)
        folds.middles[ids] = None
        return False

    def keep_middle(self, folds: Folds, ids: tuple[int, int], fold: Fold) -> None:
        """Keep the fold of tuple IDs [low, high) of a clause. O(1)."""
        if folds.middles.get(ids) is None:
            folds.middles[ids] = fold
            folds.nbytes += fold.nbytes
            self._grow(fold.nbytes, folds.tenant)

    def kept(self) -> list[tuple[int, Recipe, Folds]]:
        """The folds of all clauses, after the clause's SQC ID and the recipe. O(clauses that were asked)."""
        return [(sqc_id, recipe, folds) for (sqc_id, recipe), folds in self._kept.copy().items()]

    def kept_of(self, sqc_id: int, recipe: Recipe) -> tuple[dict[Span, Fold], dict[tuple[int, int], Fold]]:
        """The folds of a clause that are kept, of spans and of windows; copied."""
        folds = self._kept.get((sqc_id, recipe))
        return ({}, {}) if folds is None else (dict(folds.spans), dict(folds.inner))

    def fold(
        self,
        folds: Folds,
        first: int,
        stop: int,
        oldest: int,
        leaf: Leaf,
        join: Join | None = None,
        shelf: Shelf | None = None,
        held: HeldBytes = NOT_HELD,
    ) -> Fold:
        """The fold of the chunks [first, stop), kept as far as there is room. `oldest`: the stream's first chunk.

        `leaf` is called if chunks are in no span that is kept, or lies on the `shelf`; `join` (the recipe's own, if
        None is given) to combine spans; `held` is charged for what the shelf gives. O(1) for a window whose inner
        chunks are those of another one before.
        """
        folds.used = True
        fold = folds.inner.get((first, stop))
        if fold is None:
            found = 0 if shelf is None else self._fetched(folds, shelf, (first, stop), held)
            most = self.limit // _SHARE
            fold, size = folds.of(first, stop, self.fan, leaf, join or folds.recipe.joined, most)
            self._grow(found + size - folds.forget(oldest, self.fan), folds.tenant)
            if shelf is not None:
                shelf.shelve([folds], self.fan)
        return fold

    def _fetched(self, folds: Folds, shelf: Shelf, inside: tuple[int, int], held: HeldBytes) -> int:
        """Take spans from a shelf; returns their bytes. What was taken before a refusal is counted."""
        before = folds.nbytes
        try:
            return shelf.fetch(folds, *inside, self.fan, held)
        except PSoupError:
            self._grow(folds.nbytes - before, folds.tenant)
            raise

    def put(self, folds: Folds, span: Span, fold: Fold) -> None:
        """Keep the fold of a span, if that pays. O(1)."""
        if fold.pays and span not in folds.spans:
            folds.spans[span] = fold = folds.shared(fold)
            folds.nbytes += fold.nbytes
            self._grow(fold.nbytes, folds.tenant)

    def lend(self, folds: Folds, span: Span, fold: Fold) -> None:
        """Keep a fold that was found elsewhere."""
        folds.spans[span] = fold
        folds.nbytes += fold.nbytes
        self._grow(fold.nbytes, folds.tenant)

    def bury(self, sqc_ids: Array) -> None:
        """Drop the folds of clauses (int64[k]) that are gone, many at once: an eighth of all, or some. One thread.

        Numbers of clauses are not given again, so nothing is wrong as long as they stay.
        """
        if self._kept:
            self._dead.append(sqc_ids)
            self._buried += len(sqc_ids)
        if self._buried >= max(_BURIED, len(self._kept) // 8):
            dead, names = np.sort(np.concatenate(self._dead)), list(self._kept)
            owners = np.array([sqc_id for sqc_id, _ in names], np.int64)
            places = np.minimum(np.searchsorted(dead, owners), len(dead) - 1)
            for at in np.flatnonzero(dead[places] == owners).tolist():
                self._drop(names[at])
            self._dead.clear()
            self._buried = 0

    def give_up(self, wanted: int) -> int:
        """Drop folds, of clauses in the order they were asked, until `wanted` bytes are free; returns those freed."""
        freed = 0
        for name in list(self._kept):
            if freed >= wanted:
                break
            freed += self._drop(name)
        return freed

    def _grow(self, size: int, tenant: str) -> None:
        """Count bytes, and drop folds that were not used of late as long as there are too many: first the tenant's."""
        self._held += size
        self._of_tenant[tenant] = self._of_tenant.get(tenant, 0) + size
        self._changes += 1
        if self._held > self.limit or not self._changes % _COUNTED_ANEW:
            self._count()
        if size > 0 and self.kept_bytes.over(tenant):
            self._count()  # folds that were dropped while a reader had them were counted on
        if size > 0 and (over := self.kept_bytes.over(tenant)):
            self._drop_unused(over + self.kept_bytes.limit(tenant) // 8, tenant)
        if self._held > self.limit:
            self._drop_unused(self._held - self.limit + self.limit // 8)

    def _count(self) -> None:
        """Count the bytes anew. O(clauses that were asked)."""
        held, of_tenant = 0, dict[str, int]()
        for folds in list(self._kept.values()):
            held += folds.nbytes
            of_tenant[folds.tenant] = of_tenant.get(folds.tenant, 0) + folds.nbytes
        self._held, self._of_tenant = held, of_tenant

    def _drop_unused(self, wanted: int, tenant: str | None = None) -> None:
        """Drop folds, of one tenant if it is given, that were not used of late, and then others, as far as wanted."""
        for name in 2 * list(self._kept):  # twice: of those that were used only the note of it goes at first
            folds = self._kept.get(name)
            if wanted <= 0:
                break
            if folds is None or (tenant is not None and folds.tenant != tenant):
                continue
            if folds.used:
                folds.used = False
                if (again := self._kept.pop(name, None)) is not None:
                    self._kept[name] = again
            else:
                wanted -= self._drop(name)

    def _drop(self, name: tuple[int, Recipe]) -> int:
        folds = self._kept.pop(name, None)
        if folds is None:
            return 0
        self._held -= folds.nbytes
        self._of_tenant[folds.tenant] = self._of_tenant.get(folds.tenant, 0) - folds.nbytes
        return folds.nbytes
