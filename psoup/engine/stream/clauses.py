"""The standing query clauses of one stream: their slots and SQC IDs; each is in the index or in the quarantine.

    place    names ─> slots, SQC IDs                     in the table: equal clauses are one
    admit    new clauses ─> the index; they wait for `take_new`, to be applied to the open chunk
                        └─> the quarantine, if they read an expression in quarantine
    raised   failures of an expression are counted; at a limit, all clauses that read it move to the quarantine
    remove   clauses are removed; the quarantine of an expression ends with the last clause that reads it

Only the engine's writer calls this module. It knows neither tuples nor results: `psoup.engine.stream.state` calls the
parts of a stream in the right order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from psoup.clauses.block import Clauses
from psoup.clauses.costs import CostTally
from psoup.clauses.factor_table import FactorTable
from psoup.clauses.idle_names import IdleNames
from psoup.clauses.index.combine import MergeResult
from psoup.clauses.quarantine import Quarantine, Reason, digest_of, reason_for
from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.sides import Subset
from psoup.clauses.table import ClauseTable
from psoup.config import EngineConfig
from psoup.engine.stream.attention import Attention
from psoup.expressions.tree import AttributeRef, Expr
from psoup.invariants import corrupt, ensure
from psoup.model import Schema
from psoup.plan.factors import Factor
from psoup.plan.standing_query import ClauseColumns
from psoup.published.records import ClauseRecord
from psoup.results.gaps import NO_GAPS, Gaps
from psoup.values.columns import Array

OOM = "the process ended twice while it was evaluated, probably for want of memory"
"""The reason for quarantine if the host forbids an evaluation; see `psoup.clauses.quarantine.Watch`."""

KEPT = "kept out since an earlier start: two processes ended while it was evaluated, or the operator took it out"
"""The reason for quarantine of expressions that are on the host's list from earlier starts, which has no reasons."""

News = tuple[Reason, Array]
"""The reason why clauses left the index, and their SQC IDs. The IDs are empty if no clause reads the expression now."""

_NONE: Array = np.zeros(0, np.int64)


class GoneClauses(NamedTuple):
    """Clauses of one stream that have lost their last query: their SQC IDs and slots, int64[k].

    `attributes`: the number of these clauses that read each attribute.
    """

    sqc_ids: Array
    slots: Array
    attributes: Mapping[int, int]


class StreamClauses:
    """The clauses of one stream; see the module."""

    def __init__(
        self, schema: Schema, config: EngineConfig, attention: Attention, next_sqc: int, digests: frozenset[str]
    ) -> None:
        self._config = config
        self._attention = attention
        self.index = QuerySteM(schema, config)
        self.table = ClauseTable(next_sqc)
        self.idle_names = IdleNames()
        """The names of the idle clauses of active queries."""
        self.quarantine = Quarantine()
        self.met = next_sqc
        """Clauses with smaller SQC IDs were evaluated over the open chunk, or are in quarantine."""
        self.queries = 0
        """The number of queries of all clauses."""
        self._digests_at_start = digests
        """Digests of expressions that go into quarantine as soon as a clause reads them."""
        self.kept: set[str] = set()
        """Digests of expressions that must be in quarantine at the next start. They stay without a clause, too, as the
        replay of the log may register one."""
        self._uses: Counter[int] = Counter()
        """The number of clauses that use each attribute, in the index or in the quarantine."""
        self._new: list[Array] = []
        """Slots of clauses that were not evaluated over the open chunk yet. Some of them may have been removed."""
        self._late: list[Array] = []
        """SQC IDs of new clauses that went into quarantine without having been in the index."""
        self._gaps = NO_GAPS
        self._news: list[News] = []
        """Clauses that have left the index, and that the engine has not fetched yet."""
        self._announced: list[Reason] = []
        """The reasons for expressions in quarantine whose first clause is not in the quarantine yet."""
        self._subset: tuple[Array, Subset] | None = None

    # Names and slots ---------------------------------------------------------------------------------------

    def place(self, names: Array, first_sqc: int) -> tuple[Array, Array]:
        """Find or give the slots of clauses with these names. Returns the slots, int64[n], and the rows of new clauses.

        The rows are int64[m]; the caller must admit these clauses. They get the SQC IDs from `first_sqc` on, in order.
        """
        slots, fresh = self.table.place(names, first_sqc)
        if len(fresh):
            self._tell()
        return slots, fresh

    def name_idle(self, names: Array, sqc_ids: Array) -> None:
        """Record the names of new idle clauses, uint64[n, 2], with their SQC IDs, int64[n]."""
        self.idle_names.add(names, sqc_ids)

    def count_queries(self, more: int) -> None:
        """Add `more` to the number of queries. A negative number stands for removed queries."""
        self.queries += more
        self._attention.changed()

    def admit(self, clauses: Clauses, table: FactorTable | None = None) -> list[tuple[int, ...]]:
        """Admit new clauses (slot, factors). Returns the attribute IDs of each. Many clauses are indexed in one step.

        `table`: their factors as columns, if the caller has made them already.
        """
        attributes = self._admit_some(clauses, table) if self._strict else self._to_index(clauses, table)
        self._uses.update(chain.from_iterable(attributes))
        return attributes

    def admit_columns(
        self, slots: Array, columns: ClauseColumns, factors: Callable[[int], tuple[Factor, ...]]
    ) -> tuple[int, ...]:
        """Admit the clauses of a template's block. Returns the attribute IDs that all clauses with matches read.

        Clauses that can match no tuple read no attribute. `factors` returns the factors of a row; it is called for few
        rows.
        """
        never = _NONE if columns.never is None else np.flatnonzero(columns.never)
        possible = np.arange(len(slots)) if columns.never is None else np.flatnonzero(~columns.never)
        if len(possible) <= self._config.delta_queries // 8:
            attributes = self.admit([(int(slots[row]), factors(row)) for row in range(len(slots))])
            return attributes[possible[0]] if len(possible) else ()
        terms = [*(term.attribute for term in columns.terms), *(t.attribute for f in columns.fixed for t in f.terms)]
        if self._strict and self.quarantine.holds(used := self._known(terms)):
            self._to_quarantine(slots[possible])
        else:
            used = self.index.add_columns(slots[possible], columns.take(possible))
            self._new.append(slots[possible])
        self._uses.update(dict.fromkeys(used, len(possible)))
        self.admit([(int(slots[row]), factors(row)) for row in never.tolist()])
        return used

    def take_new(self) -> Array:
        """Return the slots of clauses admitted since the last call, int64, and count these clauses as `met`. Some of
        them may have been removed."""
        new, self._new = self._new, []
        self.met = self.table.next_sqc
        return np.concatenate(new) if new else _NONE

    def take_late(self) -> Array:
        """Return the SQC IDs of new clauses that went into quarantine since the last call, int64."""
        late, self._late = self._late, []
        return np.concatenate(late) if late else _NONE

    def remove(self, gone: GoneClauses) -> None:
        """Remove clauses without queries. End the quarantine of expressions that no other clause reads."""
        self._tell()
        slots = gone.slots[self.quarantine.drop(gone.sqc_ids)] if len(self.quarantine) else gone.slots
        if len(slots):
            self.index.remove(slots)
        self.table.remove(gone.sqc_ids)
        for attribute, count in gone.attributes.items():
            self._uses[attribute] -= count
            if not self._uses[attribute]:
                del self._uses[attribute]
                self.index.attributes.unbar(attribute)
                reason = self.quarantine.forget(attribute)
                if reason is not None and not reason.kept:
                    self._news.append((reason, _NONE))

    def used(self, errors: Mapping[int, int]) -> dict[int, int]:
        """The counts of `errors` for the attributes that a clause still uses."""
        return {attribute: count for attribute, count in errors.items() if attribute in self._uses}

    # What cannot be evaluated ----------------------------------------------------------------------------

    def raised(self, failed: Mapping[int, str]) -> Array:
        """Count a failure of each attribute, given with its reason. At the limit, the clauses that read it leave the
        index. Returns their slots."""
        attributes = [a for a in failed if a in self._uses and a in self.index.attributes]  # the index may have changed
        out = [attribute for attribute in attributes if self.quarantine.counts(attribute)]
        return self.put_out({attribute: failed[attribute] for attribute in out})

    def put_out(self, why: Mapping[int, str], *, persistent: bool = False) -> Array:
        """Take all clauses that read these attributes out of the index. Returns their slots, int64.

        `why`: the reason for each attribute. `persistent`: the next start must keep the expressions out, too.
        """
        left = [_NONE]
        if why:
            self._tell()
        for attribute, text in why.items():
            reason = reason_for(self.index.attributes[attribute], text, persistent=persistent)
            self.kept.update([reason.digest] if persistent else [])
            slots = self.index.bar(attribute)
            ids = self.table.sqc_of_slot[slots]
            self.quarantine.put_out(attribute, reason)
            self.quarantine.take(ids, slots)
            if len(ids):
                self._news.append((reason, ids))
            else:
                self._announced.append(reason)
            left.append(slots)
        return np.concatenate(left)

    def put_out_by_hand(self, clause: ClauseRecord, why: str) -> Array:
        """Put the expressions of a clause into quarantine, or the clause alone if it computes none. Returns the slots
        of all clauses that leave the index."""
        if self._is_out(clause):
            return _NONE
        derived = [a for a in clause.attributes if not isinstance(self.index.attributes[a], AttributeRef)]
        return (
            self.put_out(dict.fromkeys(derived, why), persistent=True) if derived else self._put_out_alone(clause, why)
        )

    def put_out_dear(self, clause: ClauseRecord, exprs: Collection[Expr], why: str) -> Array:
        """Put all `exprs` that a clause computes into quarantine, or the clause alone if it computes none. Returns the
        slots of all clauses that leave the index."""
        if not self._stands(clause) or self._is_out(clause):
            return _NONE
        dear = [a for a in clause.attributes if self.index.attributes[a] in exprs]
        return self.put_out(dict.fromkeys(dear, why)) if dear else self._put_out_alone(clause, why)

    def _put_out_alone(self, clause: ClauseRecord, why: str) -> Array:
        ids, slots = np.array([clause.sqc_id], np.int64), np.array([clause.slot], np.int64)
        self._tell()
        self.index.remove(slots)
        reason = Reason("", why)
        self.quarantine.take(ids, slots, reason)
        self._news.append((reason, ids))
        return slots

    def _stands(self, clause: ClauseRecord) -> bool:
        ids, slots = self.table.since(clause.sqc_id, 1)
        return [*ids.tolist(), *slots.tolist()] == [clause.sqc_id, clause.slot]

    def _is_out(self, clause: ClauseRecord) -> bool:
        return len(self.quarantine.among(clause.sqc_id, clause.sqc_id + 1)) > 0

    @property
    def has_news(self) -> bool:
        """Whether clauses have left the index, and the engine has not fetched them yet."""
        return bool(self._news)

    def take_news(self) -> list[News]:
        """Return the clauses that left the index since the last call, with reasons."""
        news, self._news = self._news, []
        return news

    def gaps(self) -> Gaps:
        """The exceptions from coverage of a new open chunk: all clauses in quarantine. The same object until these
        change."""
        ids = self.quarantine.ids
        if self._gaps.ids is not ids:
            self._gaps = Gaps(ids, np.zeros(len(ids), np.int32)) if len(ids) else NO_GAPS
        return self._gaps

    # Maintenance -----------------------------------------------------------------------------------------

    def install_merge(self, result: MergeResult) -> bool:
        """Replace the merged parts of the index by one part. Returns False if they were replaced since."""
        self._tell()
        return self.index.install(result)

    def install_tally(self, tally: CostTally) -> None:
        """Add the summed counters of dropped chunks and index parts to the clauses' costs."""
        self.index.costs.install(tally, self.table.sqc_of_slot)

    def subset(self, sqc_ids: Array, slots: Array) -> Subset:
        """An index of some clauses, to cover a chunk. The last one is kept, as the next chunk often lacks the same."""
        if self._subset is None or not np.array_equal(self._subset[0], sqc_ids):
            self._subset = (sqc_ids, self.index.subset(slots))
        return self._subset[1]

    def forget_subset(self) -> None:
        """Drop the index that `subset` keeps, as no chunk needs covering at present."""
        self._subset = None

    def bill(self) -> dict[str, int]:
        """The bytes of each structure by name. `reclaimable_slots`: the number of slots of removed clauses."""
        table, names = self.table, self.table.nbytes + self.idle_names.nbytes
        return {"reclaimable_slots": table.dead_count, "clause_names_bytes": names, **self.index.bill()}

    # Inside ----------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._attention.changed()
        self._attention.look_after()

    @property
    def _strict(self) -> bool:
        """Whether new clauses must be checked: an expression is in quarantine, or on the host's list."""
        return bool(self._digests_at_start or self.quarantine.outside.attributes)

    def _admit_some(self, clauses: Clauses, table: FactorTable | None) -> list[tuple[int, ...]]:
        """Admit new clauses to the index, or to the quarantine if they read an expression in quarantine."""
        attributes = [self._known([t.attribute for f in factors for t in f.terms]) for _, factors in clauses]
        out = [self.quarantine.holds(used) for used in attributes]
        self._to_index([clause for clause, is_out in zip(clauses, out, strict=True) if not is_out], table)
        slots = [slot for (slot, _), is_out in zip(clauses, out, strict=True) if is_out]
        self._to_quarantine(np.array(slots, np.int64))
        return attributes

    def _to_index(self, clauses: Clauses, table: FactorTable | None) -> list[tuple[int, ...]]:
        if not clauses:
            return []
        self._new.append(np.array([slot for slot, _ in clauses], np.int64))
        return self.index.add_many(clauses, table)

    def _to_quarantine(self, slots: Array) -> None:
        if len(slots):
            ids = self.table.sqc_of_slot[slots]
            self.index.costs.begin(slots)
            self.quarantine.take(ids, slots)
            self._late.append(ids)
            self._news += [(reason, ids) for reason in self._announced]
            self._announced = []

    def _known(self, exprs: Sequence[Expr]) -> tuple[int, ...]:
        """The attribute IDs of a clause's expressions, ascending. Expressions on the host's list go into quarantine."""
        used = sorted({self.index.attributes.id_of(expr) for expr in exprs})
        for attribute in used:
            expr = self.index.attributes[attribute]
            if isinstance(expr, AttributeRef) or self.quarantine.holds([attribute]):
                continue
            if self._digests_at_start and digest_of(expr) in self._digests_at_start:
                self.put_out({attribute: KEPT}, persistent=True)
        return tuple(used)

    def check_counts(self) -> None:
        """Check that the table has as many clauses as the index plus the quarantine. O(parts of the index)."""
        self.table.check_counts()
        index, out = len(self.index), len(self.quarantine)
        if index + out != len(self.table):
            raise corrupt(
                self, "the index has other clauses than there are", table=len(self.table), index=index, out=out
            )

    def check(self, clauses: Sequence[ClauseRecord]) -> None:
        """Check that table, index and quarantine have exactly these `clauses`. Raises Corrupt."""
        for part in (self.index, self.quarantine):
            part.check()
        self.table.check([(clause.sqc_id, clause.slot) for clause in clauses])
        used = Counter(attribute for clause in clauses for attribute in clause.attributes)
        ensure(self._uses == used, self, "the uses of attributes are miscounted", counted=self._uses, found=used)
        standing = np.sort(np.concatenate([self.index.live_slots(), self.quarantine.slots]))
        wanted = np.sort(np.array([clause.slot for clause in clauses], np.int64))
        same = np.array_equal(standing, wanted)
        ensure(same, self, "index and quarantine have not the clauses there are", standing=standing, wanted=wanted)
        for clause in clauses:
            out = len(self.quarantine.among(clause.sqc_id, clause.sqc_id + 1)) > 0
            reasons = self.quarantine.outside.reasons(clause.sqc_id, clause.attributes)
            as_told = out == bool(reasons)
            ensure(
                as_told, self, "a clause is out without a reason, or has one and is not", clause=clause.sqc_id, out=out
            )
