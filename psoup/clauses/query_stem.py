"""The Query SteM: the standing query clauses of one stream, ready to be joined with new tuples.

    add ──> delta ──freeze──> part n ──merge──> part 0, the main index      (PSoup, section 3; CACQ's grouped filters)
    remove ─> a flag in the clause's part            probe: one pass over all parts
    bar ────> an attribute is no longer computed     clauses that read it go to the quarantine

The delta is small, so the cost of `add` depends only on the clause's size. If it is full, `merge_task` freezes it, and
merges frozen parts with parts that are not much larger. So a clause is copied O(log n) times. Any thread computes the
task; the writer installs it, and finds clauses removed meanwhile by their flags. A *slot* is the number of a clause.
The Query SteM knows no queries, windows or old tuples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from psoup.clauses.attributes import Attributes, Waits
from psoup.clauses.block import block_part
from psoup.clauses.column_block import column_part
from psoup.clauses.costs import ClauseCosts
from psoup.clauses.describe import FactorDescription, clauses_to_arrow, describe_clause
from psoup.clauses.factor_table import FactorTable
from psoup.clauses.index.bounds import distinct
from psoup.clauses.index.combine import MergeResult, MergeTask, combine
from psoup.clauses.index.delta import Delta
from psoup.clauses.index.posting_lists import STANDARD, Layout
from psoup.clauses.index.predicate_index import Part, PartView
from psoup.clauses.scratch import Scratch
from psoup.clauses.sides import IndexView, Side, Subset, factors_at, with_plans
from psoup.clauses.text_search import LAYOUT, Searched, TextSearches
from psoup.config import EngineConfig
from psoup.invariants import corrupt, ensure
from psoup.model import Schema
from psoup.plan.factors import Factor
from psoup.plan.standing_query import ClauseColumns
from psoup.values.columns import Array


class QuerySteM:
    """The clauses of one stream, for the writer. Any thread may use the results of `merge_task` and `subset`."""

    def __init__(
        self, schema: Schema, config: EngineConfig, layout: Layout = STANDARD, within: QuerySteM | None = None
    ) -> None:
        self.schema = schema
        self._layout, self._within = layout, within
        self._config = config
        self._parts: list[Part] = []
        self._delta = Delta(self._layout)
        self.attributes: Attributes = Attributes() if within is None else within.attributes
        self.waits = Waits()
        self._scratch = Scratch()
        self.costs = ClauseCosts(self._parts)
        self._view: IndexView | None = None  # the last result of `view`; None after a change
        self._part_views: tuple[PartView, ...] | None = None  # views of all parts but the delta, which changes often
        self._routes = TextSearches()
        self.texts = QuerySteM(schema, config, LAYOUT, self) if within is None else None
        """The clauses that search for a text in a column."""

    def __len__(self) -> int:
        texts = 0 if self.texts is None else len(self.texts)
        return sum(part.live for part in self._parts) + len(self._delta) + texts

    # Clauses ---------------------------------------------------------------------------------------------

    def add(self, slot: int, factors: tuple[Factor, ...]) -> tuple[int, ...]:
        """Add the clause of `slot`, for later probes. Returns the IDs of its attributes, ascending.

        O(its size * log), amortised over freezes.
        """
        if slot in self._delta or any(part.find(slot) >= 0 for part in self._parts):
            raise corrupt(self, f"slot {slot} holds a clause already; remove it first")
        self._view = None
        if self.texts is not None and self._routes.takes(factors):
            self.costs.begin(np.array([slot]))
            return self.texts.add(slot, factors)
        resolved = [(factor, [self.attributes.id_of(term.attribute) for term in factor.terms]) for factor in factors]
        self.costs.recent(None)
        self.costs.begin(np.array([slot]))
        self._delta.add(slot, resolved)
        return tuple(sorted({attribute for _, attributes in resolved for attribute in attributes}))

    def add_many(
        self, clauses: Sequence[tuple[int, tuple[Factor, ...]]], table: FactorTable | None = None
    ) -> list[tuple[int, ...]]:
        """Add several clauses (slot, factors). Many clauses become one part of the index. O(n log n).

        `table`: the table of their factors, if the caller has it.
        """
        if len(clauses) <= self._config.delta_queries // 8:
            return [self.add(slot, factors) for slot, factors in clauses]
        slots = np.array([slot for slot, _ in clauses], np.int64)
        self._check_free(slots)
        self.costs.begin(slots)
        if self.texts is not None and (routed := self._routed(clauses, self.texts)) is not None:
            return routed
        return self._add_block(clauses, table or FactorTable.of(factors for _, factors in clauses))

    def _add_block(
        self, clauses: Sequence[tuple[int, tuple[Factor, ...]]], table: FactorTable
    ) -> list[tuple[int, ...]]:
        part, used = block_part(clauses, table, self.attributes.id_of, self._layout)
        self._append(part)
        return used

    def _routed(
        self, clauses: Sequence[tuple[int, tuple[Factor, ...]]], texts: QuerySteM
    ) -> list[tuple[int, ...]] | None:
        """Do `add_many` if some of the clauses search for texts. Otherwise return None."""
        flags = [self._routes.takes(factors) for _, factors in clauses]
        if not any(flags):
            return None
        self._view = None
        plain = [clause for clause, flag in zip(clauses, flags, strict=True) if not flag]
        self.costs.begin(np.array([slot for slot, _ in clauses], np.int64))
        given = [
            iter(self._add_block(plain, FactorTable.of(factors for _, factors in plain)) if plain else []),
            iter(texts.add_many([clause for clause, flag in zip(clauses, flags, strict=True) if flag])),
        ]
        return [next(given[flag]) for flag in flags]

    def add_columns(self, slots: Array, columns: ClauseColumns) -> tuple[int, ...]:
        """Add many clauses of a template, without a loop over clauses. Each must be able to match some tuple.

        `slots`: int64[n], the clauses' slots. Returns the attribute IDs that each clause uses. O(n log n).
        """
        self._check_free(slots)
        self.costs.begin(slots)
        part, used = column_part(slots, columns, self.attributes.id_of, self._layout)
        self._append(part)
        return used

    def _check_free(self, slots: Array) -> None:
        if any(part.holds(slots) for part in self._all_parts()) or len(distinct(slots)) < len(slots):
            raise corrupt(self, "a slot of the block holds a clause already; remove it first", slots=slots)

    def _append(self, part: Part) -> None:
        self._view = self._part_views = None
        self._parts.append(part)
        if len(self._parts) > 2 * self._config.shape.most_parts:  # maintenance has not kept up
            task = self.merge_task()
            self.install(task.compute())

    def remove(self, slots: Array) -> None:
        """Remove the clauses of some slots (int64[k], distinct), which must exist. O(k log n + their sizes)."""
        removed = self._remove_some(slots)
        if self.texts is not None and len(self.texts):
            self._routes.leave(self.texts._own_parts(), slots, self.attributes)
            removed += self.texts._remove_some(slots)
        ensure(removed == len(slots), self, "a slot holds no clause that could be removed", slots=slots)

    def _remove_some(self, slots: Array) -> int:
        """Remove those clauses of `slots` that this object has. Returns their number."""
        recent = [slot for slot in slots.tolist() if slot in self._delta] if len(self._delta) else []
        for slot in recent:
            self._delta.remove(slot)
        if len(slots) == 1:  # the usual case: takes a third of the time
            killed = int(not recent and any(part.kill(int(slots[0])) for part in self._parts))
        else:
            killed = sum(part.kill_all(slots) for part in self._parts)
        self._view, self._part_views = None, None if killed else self._part_views
        return len(recent) + killed

    def attributes_of(self, slot: int) -> Array:
        """The IDs of the attributes of a clause, int64, ascending."""
        part, position = self._find(slot)
        ids = {attribute for factor in part.index.factors(position) for attribute in factor}
        return np.array(sorted(ids), np.int64)

    def factors_of(self, slot: int) -> tuple[Factor, ...]:
        """The factors of a clause, in the order of the index. O(its size)."""
        part, position = self._find(slot)
        return factors_at(part.index, position, self.attributes)

    def plans(self) -> list[Searched]:
        """The search structures for text patterns that exist now. Any thread may call this."""
        parts = [] if self.texts is None else [*self.texts._parts, self.texts._delta.known()]
        return [plan for part in parts if part is not None and (plan := part.extra(Searched)) is not None]

    def describe(self, slot: int) -> list[FactorDescription]:
        """The factors of a clause as the index holds them. O(its size)."""
        part, position = self._find(slot)
        where = "main" if any(q._parts[0] is part for q in (self, self.texts) if q and q._parts) else "delta"
        return describe_clause(part.index, position, where, self.attributes)

    def _find(self, slot: int) -> tuple[Part, int]:
        for part in self._all_parts():
            position = part.find(slot)
            if position >= 0:
                return part, position
        raise corrupt(self, f"slot {slot} holds no clause")

    # Attributes that are no longer computed ---------------------------------------------------------------

    def bar(self, attribute: int) -> Array:
        """Forbid the computation of an attribute, and remove the clauses that read it. Returns their slots, int64.

        O(intervals), and a step for each clause of the delta.
        """
        slots = np.concatenate([part.readers([attribute]) for part in self._own_parts()] or [np.zeros(0, np.int64)])
        self._remove_some(slots)
        self.attributes.barred.add(attribute)
        return slots if self.texts is None else np.concatenate([slots, self.texts.bar(attribute)])

    def attributes_for(self, factors: Iterable[Factor]) -> list[int]:
        """The IDs of the attributes of some factors, each once, ascending. New attributes get an ID."""
        return sorted({self.attributes.id_of(term.attribute) for factor in factors for term in factor.terms})

    def readers(self, attributes: Collection[int]) -> Array:
        """The slots of the clauses that read one of some attributes, int64. O(intervals of all parts)."""
        return np.concatenate([np.zeros(0, np.int64), *(part.readers(attributes) for part in self._all_parts())])

    # The join --------------------------------------------------------------------------------------------

    def side(self, tuples: int) -> Side:
        """The clauses as a side of the join with new tuples. Adds the number `tuples` to the costs' count. O(1)."""
        parts = self._own_parts()
        self.costs.recent(parts[-1] if len(self._delta) else None)
        self.costs.tuples += tuples
        exprs = self.attributes
        searched = () if self.texts is None else self.texts._own_parts()
        texts = with_plans(searched, exprs) if searched else []
        return Side(parts, exprs, self._scratch, self._config, self.costs, exprs.barred, self.waits, texts)

    def view(self) -> IndexView:
        """The present clauses, for readers. The same object until a change. O(parts)."""
        if self._view is None:
            if self._part_views is None:
                self._part_views = tuple(part.view() for part in self._parts)
            recent = self._delta.view() if len(self._delta) else None
            texts = None if self.texts is None else self.texts.view()
            self._view = IndexView(self._part_views, recent, self.attributes, self._config, texts)
        return self._view

    def subset(self, slots: Array) -> Subset:
        """The live clauses among `slots` (int64[k], any order) as a separate index.

        O(k log n + the constants of the parts that have one of them).
        """
        part = self._picked(slots)
        texts = [] if self.texts is None else [source for source in [self.texts._picked(slots)] if len(source.index)]
        used = {a for source in (part, *texts) for a in source.index.attributes.tolist()}
        attributes = {a: self.attributes[a] for a in sorted(used)}
        return Subset([part], attributes, self._config, searched=texts)

    def _picked(self, slots: Array) -> Part:
        sources = []
        for part in self._parts:
            positions = part.index.find(slots)
            wanted: Array = np.zeros(len(part.index), np.bool_)
            wanted[positions[positions >= 0]] = True
            if wanted.any():
                sources.append((part.index, np.flatnonzero(wanted & (part.alive == 1))))
        wanted_slots = set(slots.tolist()) if len(self._delta) else set()
        recent = sorted(slot for slot in self._delta.slots() if slot in wanted_slots)
        if recent:
            sources.append((self._delta.pick(recent), np.arange(len(recent))))
        alone = recent and len(sources) == 1
        return Part.of(sources[0][0] if alone else combine(sources, self._layout))

    def _all_parts(self) -> list[Part]:
        return self._own_parts() if self.texts is None else [*self._own_parts(), *self.texts._own_parts()]

    def _own_parts(self) -> list[Part]:
        return [*self._parts, self._delta.part()] if len(self._delta) else self._parts

    # Maintenance -----------------------------------------------------------------------------------------

    def merge_due(self, everything: bool = False) -> bool:
        """Whether a merge is worth its cost now. With `everything`: whether there is anything to merge.

        The caller runs at most one merge task at a time.
        """
        if self.texts is not None and self.texts.merge_due(everything):
            return True
        if everything:
            return len(self._delta) > 0 or len(self._parts) > 1 or any(p.live < len(p.index) for p in self._parts)
        if len(self._delta) > self._config.delta_queries:
            return True
        return self._first_to_merge() < len(self._parts) - 1 or self._mostly_dead()

    def merge_task(self, everything: bool = False) -> MergeTask:
        """Freeze the delta, and choose the parts to merge. With `everything`, the merge leaves a single part.

        O(delta), and copies a byte for each merged clause.
        """
        if self.texts is not None and self.texts.merge_due(everything):
            task, expressions = self.texts.merge_task(everything), self.attributes.share()
            return replace(task, prepare=lambda part: with_plans([part], expressions, task.sources))
        if len(self._delta) and (len(self._parts) < self._config.shape.most_parts or everything):
            self._parts.append(self._delta.part())
            self._delta, self._part_views = Delta(self._layout), None
        first = 0 if everything or self._mostly_dead() else self._first_to_merge()
        sources = tuple(self._parts[first:])
        return MergeTask(sources, tuple(part.alive.copy() for part in sources), self._layout)

    def _first_to_merge(self) -> int:
        """The first part to merge; all later ones are merged, too. A part joins if it is not much larger than these."""
        first = max(len(self._parts) - 1, 0)
        if len(self._parts) >= self._config.shape.most_parts:
            first -= 1
        total = sum(len(part.index) for part in self._parts[first:])
        while first > 0 and len(self._parts[first - 1].index) <= self._config.shape.merge_ratio * total:
            first -= 1
            total += len(self._parts[first].index)
        return first

    def _mostly_dead(self) -> bool:
        live = sum(part.live for part in self._parts)
        return sum(len(part.index) for part in self._parts) > 2 * live

    def install(self, result: MergeResult) -> bool:
        """Put a merged part in the place of its sources. If these were replaced, changes nothing and returns False.

        Compares O(clauses of the sources) bytes.
        """
        if not result.sources:
            return True
        if self.texts is not None and any(part is result.sources[0] for part in self.texts._parts):
            self._view = None
            return self.texts.install(result) and self._forget()
        places = [k for k, part in enumerate(self._parts) if any(part is source for source in result.sources)]
        if len(places) != len(result.sources):
            return False
        for source, before in zip(result.sources, result.alive, strict=True):
            result.merged.kill_all(source.index.slots[np.flatnonzero(before & ~source.alive & 1)])
        self._view = self._part_views = None
        self.costs.leave(result.sources)
        self._parts[places[0] : places[-1] + 1] = [result.merged] if result.merged.live else []
        return self._within is not None or self._forget()

    def _forget(self) -> bool:
        """Remove attributes that no clause reads. Returns True."""
        self.attributes.forget(self._used() if self.texts is None else self._used() | self.texts._used())
        self.waits.forget(self.attributes)
        self.costs.forget(self.attributes.known)
        return True

    def _used(self) -> set[int]:
        return set(self._delta.attributes()).union(*(part.index.attributes.tolist() for part in self._parts))

    # What it holds ---------------------------------------------------------------------------------------

    def bill(self) -> dict[str, int]:
        """Bytes of each structure."""
        parts = [part.nbytes for part in [*self._parts]]
        return {
            "query_stem.main": sum(parts[:1]),
            "query_stem.delta": sum(parts[1:]) + self._delta.nbytes,
            "query_stem.scratch": self._scratch.nbytes,
        } | ({} if self.texts is None else {"query_stem.texts": self.texts.nbytes})

    @property
    def nbytes(self) -> int:
        """Bytes of all structures."""
        return sum(self.bill().values())

    @property
    def reclaimable(self) -> int:
        """The bytes of removed clauses, estimated by their share of each part. A merge frees them."""
        parts = [part for part in self._parts if len(part.index)]
        texts = 0 if self.texts is None else self.texts.reclaimable
        return texts + sum(part.index.nbytes * (len(part.index) - part.live) // len(part.index) for part in parts)

    def live_slots(self) -> Array:
        """The slots of all live clauses, int64, in no order. O(clauses)."""
        slots = [part.index.slots[part.alive == 1].astype(np.int64) for part in [*self._parts]]
        if self.texts is not None:
            slots.append(self.texts.live_slots())
        return np.concatenate([*slots, np.array(self._delta.slots(), np.int64)])

    def to_arrow(self) -> pa.Table:
        """A table of all live clauses, sorted by slot; see `psoup.clauses.describe.clauses_to_arrow`."""
        sources = [(part.index, np.flatnonzero(part.alive)) for part in self._all_parts()]
        return clauses_to_arrow(combine(sources), self.attributes)

    def check(self) -> None:
        """Check the invariants. Raises Corrupt. O(size)."""
        seen: set[int] = set()
        for part in self._all_parts():
            part.index.check()
            live = part.index.slots[np.flatnonzero(part.alive)].tolist()
            right = len(live) == part.live
            ensure(right, self, "the live clauses of a part are miscounted", counted=part.live, found=live)
            twice = sorted(seen & set(live))  # it would match twice
            ensure(not twice, self, "slots are alive in two parts", slots=twice)
            seen |= set(live)
            unknown = set(part.index.attributes.tolist()) - set(self.attributes)
            ensure(not unknown, self, "a part uses an unknown attribute", attributes=unknown)
        for stem in (self,) if self.texts is None else (self, self.texts):
            stem._delta.check()
            shown = [(id(view.seen), view.deaths) for view in stem._part_views or ()]
            current = stem._part_views is None or shown == [(id(part), len(part.deaths)) for part in stem._parts]
            ensure(current, stem, "readers see other parts than there are, or clauses that are gone", parts=stem._parts)
        self.attributes.check()
        self.costs.check()
