"""Folds: the aggregate states of one clause over a span of closed chunks, kept for the next invocation.

    chunks   -17   -16 … -1   0 … 15   16   17        numbered in the order of the stream
    spans          └─ node ┘  └node┘                  16 aligned chunks, 256, …: floor division, of negative numbers too
    [-17, 18)  =  leaf -17, node -1, node 0, leaf 16, leaf 17

A closed chunk never changes and an SQC ID is never reused, so a fold stays true. If a span has no fold, the reader that
needs it makes it. A node serves only windows that contain all its chunks. Every fold may be dropped at any time.

With GROUP BY, a fold with more groups than half of its tuples saves no work, and is not kept. But for the latest
windows, the fold of all chunks is kept, however many groups it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from psoup.aggregates.fold_shelf import FoldShelf
from psoup.aggregates.kept import KeptBytes
from psoup.aggregates.key_tables import KeyTables
from psoup.aggregates.recipes import Fold, Recipe
from psoup.aggregates.refusals import FoldRefusals
from psoup.aggregates.spans import Span, cover, lacking, single
from psoup.aggregates.turns import NO_TURNS, Turns, turned_folds
from psoup.errors import PSoupError
from psoup.values.columns import Array
from psoup.work.read_budget import NOT_HELD, HeldBytes

_INNER = 4
"""The number of latest windows, for a clause and a recipe, whose whole chunks are kept as one fold."""
_FOLDS_BYTES = 500
"""Approximate bytes of the objects of a clause's folds, without their arrays."""
_COUNTED_ANEW = 1_024
"""The number of changes after which the bytes of all folds are counted again."""
_BURIED = 16
"""The least number of removed clauses for which a search for their folds begins."""
_SHARE = 4
"""The divisor of the limit for the fold of one window: it may take a fourth."""
LEAST_WORK = 1 << 20
"""Bytes that one fold may always take while a background task makes it ahead, even if little room is left."""

Leaf = Callable[[list[range]], list[Fold]]
"""Makes one fold for each run of chunks. The runs are ranges of chunk numbers, ascending."""

Join = Callable[[Iterable[Fold]], Fold]
"""Combines the folds of neighbouring spans into one. The folds come in the order of the stream."""


@dataclass(slots=True, eq=False)
class Folds:
    """The folds of one clause for one recipe. Any thread may use them, as spans come and go in single atomic steps."""

    recipe: Recipe
    tenant: str = ""
    tables: KeyTables = field(default_factory=KeyTables)
    """Key tables that folds of equal groups share, also across clauses."""
    spans: dict[Span, Fold] = field(default_factory=dict)
    inner: dict[tuple[int, int], Fold] = field(default_factory=dict)
    """The folds of the latest windows' whole chunks, by (first, stop)."""
    middles: dict[tuple[int, int], Fold | None] = field(default_factory=dict)
    """Folds of ranges of tuple IDs of the latest windows, by (low, high). The value is None after the first request.

    `psoup.execution.aggregate.window_middle` uses them.
    """
    nbytes: int = _FOLDS_BYTES
    used: bool = True
    oldest: int | None = None
    """The number of the stream's first chunk when `forget` last dropped spans."""
    stream: int = -1
    name: bytes | None = None
    """The name of these folds on disk. None if they must stay in memory."""
    shelved: set[Span] = field(default_factory=set)
    """Spans that no task needs to write: they are on disk, or the disk had no room for them."""
    turn: int = 0
    """The number of thinnings of the stream that these folds know."""
    beyond: range | None = None
    """The chunks of the latest window whose fold was too large to keep. None if the latest fold was kept."""

    def of(self, first: int, stop: int, fan: int, leaf: Leaf, join: Join, limit: int) -> tuple[Fold, int]:
        """The fold of the chunks [first, stop), and the bytes by which the kept folds grew. O(spans).

        `leaf` folds the chunks without a fold, and `join` combines folds. New folds of spans are kept if they pay. The
        fold of all chunks is kept if it takes at most `limit` bytes.
        """
        spans, made = dict(self.spans), dict[Span, Fold]()
        runs = {run: self.shared(fold) for run, fold in self._folded(lacking(spans, first, stop, fan), leaf).items()}
        made.update(((0, run.start), fold) for run, fold in runs.items() if len(run) == 1)
        others = {run.start: fold for run, fold in runs.items() if len(run) > 1}

        def parts_of(level: int, number: int) -> list[Fold]:
            """The folds that make up a span. The first chunk of a run returns the run's fold, its other chunks none."""
            fold = spans.get((level, number)) or made.get((level, number))
            if fold is None and level:
                children = range(number * fan, (number + 1) * fan)
                fold = made[level, number] = join([part for child in children for part in parts_of(level - 1, child)])
            if fold is None:
                return [others[number]] if number in others else []
            return [fold]

        whole = join([part for span in cover(first, stop, fan) for part in parts_of(*span)])
        if whole.keys:
            whole = self.tables.numbered(self.recipe.keys, whole)
        made = {span: self.shared(fold) for span, fold in made.items() if fold.pays}
        self.spans.update(made)
        size = sum(fold.nbytes for fold in made.values())
        self.beyond = range(first, stop) if whole.nbytes > limit else None
        if self.beyond is None:
            for old in list(self.inner)[: 1 - _INNER]:
                if (fold := self.inner.pop(old, None)) is not None:
                    size -= fold.nbytes
            self.inner[first, stop] = whole
            size += whole.nbytes
        self.nbytes += size
        return whole, size

    def too_large(self, first: int, stop: int) -> bool:
        """Whether the fold of the chunks [first, stop) is likely too large to keep.

        True if the latest fold that was too large had at most as many chunks, and begins before `stop`.
        """
        return self.beyond is not None and stop - first >= len(self.beyond) and first < self.beyond.stop

    def shared(self, fold: Fold) -> Fold:
        """The fold, with the key arrays of an earlier fold if one with equal groups exists."""
        return self.tables.shared(self.recipe.keys, fold) if fold.keys else fold

    def _folded(self, missing: list[range], leaf: Leaf) -> dict[range, Fold]:
        """Fold the `missing` runs of chunks. If the fold of the newest chunk pays, each chunk gets a fold.

        Otherwise each run gets one fold.
        """
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
        """Drop spans whose chunks all have numbers below `oldest`. Returns the bytes freed. O(spans)."""
        if oldest == self.oldest:
            return 0
        self.oldest, freed = oldest, 0
        for level, number in list(self.spans):
            if (number + 1) * fan**level <= oldest and (fold := self.spans.pop((level, number), None)) is not None:
                freed += fold.nbytes
                self.shelved.discard((level, number))
        self.nbytes -= freed
        return freed


class FoldRoom:
    """The cache of the folds of all clauses, of at most `limit` bytes. Any thread may use it; counts may lag a little.

    `fan`: the number of spans that make up the next wider one. 1: no fold of chunks is kept. `tenant_bytes`: counts the
    bytes of each tenant in all caches.
    """

    def __init__(self, limit: int, fan: int, tenant_bytes: KeptBytes | None = None) -> None:
        self.limit = limit
        self.fan = fan
        self.kept_bytes = tenant_bytes or KeptBytes()
        self.kept_bytes.add(self.held_by)
        self._kept: dict[tuple[int, Recipe], Folds] = {}
        self.refusals = FoldRefusals()
        """The refusals of folds that a background task could not make ahead, by SQC ID and recipe."""
        self._held = self._changes = 0
        self._of_tenant: dict[str, int] = {}
        self._tables = KeyTables()
        self._dead = list[Array]()
        """The SQC IDs of removed clauses that may have folds. `_buried` is their number."""
        self._buried = 0

    @property
    def held(self) -> int:
        """Bytes of all folds. O(1)."""
        return self._held

    def held_by(self, tenant: str) -> int:
        """Bytes of the folds of one tenant. O(1)."""
        return self._of_tenant.get(tenant, 0)

    def work_bytes(self, tenant: str) -> int:
        """The most bytes that one fold of a tenant may take while a background task makes it ahead."""
        return max(min(self.limit, self.kept_bytes.limit(tenant) or self.limit), LEAST_WORK)

    @property
    def spans(self) -> int:
        """The number of kept folds. O(clauses that were invoked)."""
        return sum(len(folds.spans) for folds in list(self._kept.values()))

    def known(self, sqc_id: int, recipe: Recipe, tenant: str = "", turns: Turns = NO_TURNS) -> Folds | None:
        """The folds of a tenant's clause. The first request only records the clause, and returns None.

        `turns`: the thinnings of the caller's snapshot. Folds of chunks that were thinned since are dropped. Returns
        None if the kept folds know later thinnings than the caller.
        """
        folds = self._kept.get((sqc_id, recipe))
        if folds is None:
            self._kept[sqc_id, recipe] = Folds(recipe, tenant, self._tables, turn=turns[0])
            self._grow(_FOLDS_BYTES, tenant)
        elif folds.turn < turns[0]:
            before, folds = folds, turned_folds(folds, turns, self.fan, _FOLDS_BYTES)
            self._kept[sqc_id, recipe] = folds
            self._grow(folds.nbytes - before.nbytes, tenant)
        elif folds.turn > turns[0]:
            return None
        return folds

    def middle(self, sqc_id: int, recipe: Recipe, ids: tuple[int, int], turn: int = 0) -> Fold | None:
        """The kept fold of the tuple IDs [low, high) of a clause, or None. `turn`: the number of thinnings. O(1)."""
        folds = self._kept.get((sqc_id, recipe))
        if folds is None or folds.turn != turn or (fold := folds.middles.get(ids)) is None:
            return None
        folds.used = True
        return fold

    def noted(self, folds: Folds, ids: tuple[int, int]) -> bool:
        """Record a request for the tuple IDs [low, high) of a clause. Returns whether it is not the first."""
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
        """All folds, as triples of SQC ID, recipe and folds. O(clauses that were invoked)."""
        return [(sqc_id, recipe, folds) for (sqc_id, recipe), folds in self._kept.copy().items()]

    def kept_of(
        self, sqc_id: int, recipe: Recipe, turn: int = 0
    ) -> tuple[dict[Span, Fold], dict[tuple[int, int], Fold]]:
        """Copies of the kept folds of a clause, by span and by window. `turn`: the number of thinnings."""
        folds = self._kept.get((sqc_id, recipe))
        if folds is None or folds.turn != turn:
            return {}, {}
        return dict(folds.spans), dict(folds.inner)

    def fold(
        self,
        folds: Folds,
        first: int,
        stop: int,
        oldest: int,
        leaf: Leaf,
        join: Join | None = None,
        shelf: FoldShelf | None = None,
        budget: HeldBytes = NOT_HELD,
    ) -> Fold:
        """The fold of the chunks [first, stop). Keeps it if there is room. `oldest`: the number of the first chunk.

        `leaf` folds the chunks that have no fold in memory or on the `shelf`. `join` combines folds; the default is the
        recipe's own function. `budget` is charged for folds read from the shelf. O(1) if one of the latest windows had
        the same chunks.
        """
        folds.used = True
        fold = folds.inner.get((first, stop))
        if fold is None:
            fetched = 0 if shelf is None else self._fetched(folds, shelf, (first, stop), budget)
            limit = self.limit // _SHARE
            fold, size = folds.of(first, stop, self.fan, leaf, join or folds.recipe.joined, limit)
            self._grow(fetched + size - folds.forget(oldest, self.fan), folds.tenant)
            if shelf is not None:
                shelf.shelve([folds], self.fan)
        return fold

    def _fetched(self, folds: Folds, shelf: FoldShelf, inside: tuple[int, int], budget: HeldBytes) -> int:
        """Read folds from a shelf. Returns their bytes. If the budget refuses, the folds read so far are counted."""
        before = folds.nbytes
        try:
            return shelf.fetch(folds, *inside, self.fan, budget)
        except PSoupError:
            self._grow(folds.nbytes - before, folds.tenant)
            raise

    def put(self, folds: Folds, span: Span, fold: Fold) -> None:
        """Keep the fold of a span, if it pays. O(1)."""
        if fold.pays and span not in folds.spans:
            folds.spans[span] = fold = folds.shared(fold)
            folds.nbytes += fold.nbytes
            self._grow(fold.nbytes, folds.tenant)

    def lend(self, folds: Folds, span: Span, fold: Fold) -> None:
        """Keep the fold of a span that the caller has taken from a fold pack. O(1)."""
        folds.spans[span] = fold
        folds.nbytes += fold.nbytes
        self._grow(fold.nbytes, folds.tenant)

    def bury(self, sqc_ids: Array) -> None:
        """Drop the folds of removed clauses (int64[k]). Only the writer calls this.

        The removed clauses wait until they are at least an eighth of the clauses with folds. Their folds do no harm, as
        SQC IDs are not reused.
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
        """Drop the folds of one clause after the other, until `wanted` bytes are free. Returns the bytes freed.

        The clause that was requested first comes first.
        """
        freed = 0
        for name in list(self._kept):
            if freed >= wanted:
                break
            freed += self._drop(name)
        return freed

    def _grow(self, size: int, tenant: str) -> None:
        """Add `size` bytes to the counts of the room and the tenant. Above a limit, drop folds that were not used.

        If the tenant is above its limit, only its folds are dropped.
        """
        self._held += size
        self._of_tenant[tenant] = self._of_tenant.get(tenant, 0) + size
        self._changes += 1
        if self._held > self.limit or not self._changes % _COUNTED_ANEW:
            self._count()
        if size > 0 and self.kept_bytes.over(tenant):
            self._count()  # a reader that still holds dropped folds may have added their bytes to the counts
        if size > 0 and (over := self.kept_bytes.over(tenant)):
            self._drop_unused(over + self.kept_bytes.limit(tenant) // 8, tenant)
        if self._held > self.limit:
            self._drop_unused(self._held - self.limit + self.limit // 8)

    def _count(self) -> None:
        """Count the bytes of all folds again. O(clauses that were invoked)."""
        total, of_tenant = 0, dict[str, int]()
        for folds in list(self._kept.values()):
            total += folds.nbytes
            of_tenant[folds.tenant] = of_tenant.get(folds.tenant, 0) + folds.nbytes
        self._held = total
        self._of_tenant = of_tenant

    def _drop_unused(self, wanted: int, tenant: str | None = None) -> None:
        """Drop folds until `wanted` bytes are free, folds that were not used since the last call first.

        `tenant`: drop only folds of this tenant.
        """
        for name in 2 * list(self._kept):  # twice: the first pass only clears the mark of folds that were used
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
