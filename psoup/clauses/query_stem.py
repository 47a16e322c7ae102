"""The Query SteM: the standing query clauses of one stream, ready to be joined with new tuples.

    add ──> delta ──freeze──> part n ──merge──> part 0, the main index      (PSoup, section 3; CACQ's grouped filters)
    remove ─> a flag where the clause is            probe: one pass over all parts
    bar ────> an attribute is computed no more      clauses that read it go to the quarantine

The delta is small, so clauses are in it at the cost of the change. When it is full, `merge_task` freezes it and
merges frozen parts with those not much larger (so a clause is copied O(log n) times); any thread computes the task,
the writer installs it. Removals in the meantime are found by comparing flags. A clause is named by its *slot*.
It does not know queries, windows or old tuples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa

from psoup.clauses.attributes import Attributes, Waits
from psoup.clauses.block import block_part
from psoup.clauses.bounds import distinct
from psoup.clauses.column_block import column_part
from psoup.clauses.combine import MergeResult, MergeTask, combine
from psoup.clauses.costs import ClauseCosts
from psoup.clauses.delta import Delta
from psoup.clauses.describe import FactorDescription, clauses_to_arrow, describe_clause
from psoup.clauses.factor_table import FactorTable
from psoup.clauses.posting_lists import STANDARD, Layout
from psoup.clauses.predicate_index import Part, PartView
from psoup.clauses.scratch import Scratch
from psoup.clauses.sides import IndexView, Side, Subset, factors_at
from psoup.columns import Array
from psoup.config import EngineConfig
from psoup.invariants import corrupt, ensure
from psoup.model import Schema
from psoup.plan.factors import Factor
from psoup.plan.standing import ClauseColumns


class QuerySteM:
    """The clauses of one stream. All methods are the writer's; `merge_task` and `subset` give values for any thread."""

    def __init__(self, schema: Schema, config: EngineConfig, layout: Layout = STANDARD) -> None:
        self.schema = schema
        self._layout = layout
        self._config = config
        self._parts: list[Part] = []
        self._delta = Delta(self._layout)
        self.attributes = Attributes()
        self.waits = Waits()
        self._scratch = Scratch()
        self.costs = ClauseCosts(self._parts)
        self._view: IndexView | None = None  # as the clauses are now

    def __len__(self) -> int:
        return sum(part.live for part in self._parts) + len(self._delta)

    # Clauses ---------------------------------------------------------------------------------------------

    def add(self, slot: int, factors: tuple[Factor, ...]) -> tuple[int, ...]:
        """Let the clause of `slot` take part in probes from now on; returns the IDs of its attributes, ascending.

        O(its size * log), amortised over freezes.
        """
        if slot in self._delta or any(part.find(slot) >= 0 for part in self._parts):
            raise corrupt(self, f"slot {slot} holds a clause already; remove it first")
        resolved = [(factor, [self.attributes.id_of(term.attribute) for term in factor.terms]) for factor in factors]
        self._view = None
        self.costs.recent(None)
        self.costs.begin(np.array([slot]))
        self._delta.add(slot, resolved)
        return tuple(sorted({attribute for _, attributes in resolved for attribute in attributes}))

    def add_many(
        self, clauses: Sequence[tuple[int, tuple[Factor, ...]]], table: FactorTable | None = None
    ) -> list[tuple[int, ...]]:
        """`add` for some clauses (slot, factors) at once. O(n log n): many of them become a part of the index.

        `table`: has their factors, if it was made before.
        """
        if len(clauses) <= self._config.delta_queries // 8:
            return [self.add(slot, factors) for slot, factors in clauses]
        slots = np.array([slot for slot, _ in clauses], np.int64)
        self._check_free(slots)
        self.costs.begin(slots)
        table = table or FactorTable.of(factors for _, factors in clauses)
        part, used = block_part(clauses, table, self.attributes.id_of, self._layout)
        self._append(part)
        return used

    def add_columns(self, slots: Array, columns: ClauseColumns) -> tuple[int, ...]:
        """`add` for clauses of one form that some tuple can satisfy: a part of the index, without a loop over them.

        slots: int64[n], those of the clauses. Returns the attribute IDs that each of them uses. O(n log n).
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
        self._view = None
        self._parts.append(part)
        if len(self._parts) > 2 * self._config.shape.most_parts:  # maintenance has not kept up
            task = self.merge_task()
            self.install(task.compute())

    def remove(self, slot: int) -> None:
        """Let the clause of `slot` match nothing from now on; it must be there. O(its size * log)."""
        self._view = None
        if slot in self._delta:
            self._delta.remove(slot)
        elif not any(part.kill(slot) for part in self._parts):
            raise corrupt(self, f"slot {slot} holds no clause that could be removed")

    def attributes_of(self, slot: int) -> Array:
        """The IDs of the attributes of a clause, int64, ascending."""
        part, position = self._find(slot)
        ids = {attribute for factor in part.index.factors(position) for attribute in factor}
        return np.array(sorted(ids), np.int64)

    def factors_of(self, slot: int) -> tuple[Factor, ...]:
        """The factors of a clause, in the order of the index. O(its size)."""
        part, position = self._find(slot)
        return factors_at(part.index, position, self.attributes)

    def describe(self, slot: int) -> list[FactorDescription]:
        """The factors of a clause as the index holds them. O(its size)."""
        part, position = self._find(slot)
        where = "main" if self._parts and part is self._parts[0] else "delta"
        return describe_clause(part.index, position, where, self.attributes)

    def _find(self, slot: int) -> tuple[Part, int]:
        for part in self._all_parts():
            position = part.find(slot)
            if position >= 0:
                return part, position
        raise corrupt(self, f"slot {slot} holds no clause")

    # Expressions that are computed no more ----------------------------------------------------------------

    def bar(self, attribute: int) -> Array:
        """Never compute an attribute again, and remove the clauses that read it; returns their slots, int64.

        O(intervals), and a step for each clause of the delta.
        """
        slots = np.concatenate([part.readers([attribute]) for part in self._all_parts()] or [np.zeros(0, np.int64)])
        self._view = None
        for part in self._parts:
            part.kill_all(slots)
        for slot in [slot for slot in slots.tolist() if slot in self._delta]:
            self._delta.remove(slot)
        self.attributes.barred.add(attribute)
        return slots

    def attributes_for(self, factors: Iterable[Factor]) -> list[int]:
        """The IDs of the attributes that a clause of such factors reads, each once, ascending; new ones get an ID."""
        return sorted({self.attributes.id_of(term.attribute) for factor in factors for term in factor.terms})

    def readers(self, attributes: Collection[int]) -> Array:
        """The slots of the clauses that read one of some attributes, int64. O(intervals) for each of few parts."""
        return np.concatenate([np.zeros(0, np.int64), *(part.readers(attributes) for part in self._all_parts())])

    # The join --------------------------------------------------------------------------------------------

    def side(self, tuples: int) -> Side:
        """The clauses as a side of the join with some new tuples, which are counted here (`psoup.matching`). O(1)."""
        parts = self._all_parts()
        self.costs.recent(parts[-1] if len(self._delta) else None)
        self.costs.tuples += tuples
        return Side(parts, self.attributes, self._scratch, self._config, self.costs, self.attributes.barred, self.waits)

    def view(self) -> IndexView:
        """All clauses for readers, as they are now; the same object while they are. O(parts)."""
        if self._view is None:
            recent = [self._delta.view()] if len(self._delta) else []
            parts = [PartView(part, len(part.deaths)) for part in self._parts]
            self._view = IndexView([*parts, *recent], self.attributes, self._config)
        return self._view

    def subset(self, slots: Array) -> Subset:
        """The live clauses among `slots` (int64[k], any order) as an index of their own.

        O(k log n), and constants of the parts that hold one of them.
        """
        sources = []
        for part in self._parts:
            positions = part.index.find(slots)
            wanted: Array = np.zeros(len(part.index), np.bool_)
            wanted[positions[positions >= 0]] = True
            if wanted.any():
                sources.append((part.index, np.flatnonzero(wanted & (part.alive == 1))))
        asked = set(slots.tolist()) if len(self._delta) else set()
        recent = sorted(slot for slot in self._delta.slots() if slot in asked)
        if recent:
            sources.append((self._delta.pick(recent), np.arange(len(recent))))
        alone = recent and len(sources) == 1
        part = Part.of(sources[0][0] if alone else combine(sources, self._layout))
        attributes = {int(a): self.attributes[int(a)] for a in part.index.attributes}
        return Subset([part], attributes, self._config)

    def _all_parts(self) -> list[Part]:
        if not len(self._delta):
            return self._parts
        return [*self._parts, self._delta.part()]

    # Maintenance -----------------------------------------------------------------------------------------

    def merge_due(self, everything: bool = False) -> bool:
        """Whether a merge would help now; with `everything`, whether there is anything at all to merge.

        The caller has one task under way at most.
        """
        if everything:
            return len(self._delta) > 0 or len(self._parts) > 1 or any(p.live < len(p.index) for p in self._parts)
        if len(self._delta) > self._config.delta_queries:
            return True
        return self._first_to_merge() < len(self._parts) - 1 or self._mostly_dead()

    def merge_task(self, everything: bool = False) -> MergeTask:
        """Freeze the delta, and choose what to merge; `everything` leaves one part without removed clauses.

        O(delta), and a byte copied for each clause that is merged.
        """
        if len(self._delta) and (len(self._parts) < self._config.shape.most_parts or everything):
            self._parts.append(self._delta.part())
            self._delta = Delta(self._layout)
        first = 0 if everything or self._mostly_dead() else self._first_to_merge()
        sources = tuple(self._parts[first:])
        return MergeTask(sources, tuple(part.alive.copy() for part in sources), self._layout)

    def _first_to_merge(self) -> int:
        """The first part to merge, with all later ones: each is at most some times larger than those after it."""
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
        """Put a merged part in the place of its sources; False (and no change) if they have changed since.

        O(clauses of the sources) bytes compared.
        """
        if not result.sources:
            return True
        places = [k for k, part in enumerate(self._parts) if any(part is source for source in result.sources)]
        if len(places) != len(result.sources):
            return False
        for source, before in zip(result.sources, result.alive, strict=True):
            for position in np.flatnonzero(before & ~source.alive & 1):
                result.merged.kill(int(source.index.slots[position]))
        self._view = None
        self.costs.leave(result.sources)
        self._parts[places[0] : places[-1] + 1] = [result.merged] if result.merged.live else []
        self.attributes.forget(
            set(self._delta.attributes()).union(*(part.index.attributes.tolist() for part in self._parts))
        )
        self.waits.forget(self.attributes)
        return True

    # What it holds ---------------------------------------------------------------------------------------

    def bill(self) -> dict[str, int]:
        """Bytes of each structure."""
        parts = [part.index.nbytes + part.alive.nbytes + 4 * len(part.deaths) for part in self._parts]
        return {
            "query_stem.main": sum(parts[:1]),
            "query_stem.delta": sum(parts[1:]) + self._delta.nbytes,
            "query_stem.scratch": self._scratch.nbytes,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all structures."""
        return sum(self.bill().values())

    @property
    def reclaimable(self) -> int:
        """Bytes of clauses that are gone: their share of each part, until a merge leaves them out."""
        parts = [part for part in [*self._parts] if len(part.index)]
        return sum(part.index.nbytes * (len(part.index) - part.live) // len(part.index) for part in parts)

    def live_slots(self) -> Array:
        """The slots of the standing clauses, int64, in no order. O(clauses)."""
        parts = [part.index.slots[part.alive == 1].astype(np.int64) for part in [*self._parts]]
        return np.concatenate([*parts, np.array(self._delta.slots(), np.int64)])

    def to_arrow(self) -> pa.Table:
        """All live clauses as rows, sorted by slot; see `psoup.clauses.describe.clauses_to_arrow`."""
        sources = [(part.index, np.flatnonzero(part.alive)) for part in self._all_parts()]
        return clauses_to_arrow(combine(sources), self.attributes)

    def check(self) -> None:
        """Check the invariants; raises Corrupt. O(size)."""
        seen: set[int] = set()
        for part in self._all_parts():
            part.index.check()
            live = part.index.slots[np.flatnonzero(part.alive)].tolist()
            ensure(
                len(live) == part.live, self, "the live clauses of a part are miscounted", counted=part.live, found=live
            )
            twice = sorted(seen & set(live))  # would be emitted twice
            ensure(not twice, self, "slots are alive in two parts", slots=twice)
            seen |= set(live)
            unknown = set(part.index.attributes.tolist()) - set(self.attributes)
            ensure(not unknown, self, "a part uses an unknown attribute", attributes=unknown)
        self._delta.check()
        self.attributes.check()
        self.costs.check()
