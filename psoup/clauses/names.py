"""The names of clauses, 128 bits each, which are equal for equal clauses. A hash table maps names to slots.

    price > 3 AND sym = 'a'      name of (price in [4, ..]) + name of (sym in 'a')      in any order
    columns of many clauses      the same names, computed for all clauses at once

Equal clauses have equal names. Two different clauses have equal names with a probability of 1 in 2^128. The names
depend on a secret of the process, Python's hash seed. So no client can search for a collision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from psoup.expressions.tree import Expr
from psoup.invariants import ensure
from psoup.kernels.names import clause_names as kernels
from psoup.model import BOOLEAN, Kind
from psoup.plan.canonical import expr_text, factor_text
from psoup.plan.factors import Factor, Interval
from psoup.plan.standing_query import ClauseColumns, TermColumn
from psoup.values.columns import Array
from psoup.values.kinds import ends

_FIRST = 64
_ROOMY = 16
"""If the table has more than this number of places for each clause, it is made smaller."""

_MASK = 2**64 - 1
_LOW_OPEN = 1
_LOW_PAST = 2
_HIGH_OPEN = 4
_HIGH_PAST = 8


class ClauseNames:
    """The names of the registered clauses, and a hash table from names to slots. Only the writer changes the table."""

    def __init__(self) -> None:
        self._seeds: Array = np.array([hash(("psoup", lane)) & _MASK for lane in ("one", "two")], np.uint64)
        self._key = self._seeds.tobytes()
        self._attributes: dict[Expr, Array] = {}
        self._lanes: Array = np.zeros((_FIRST, 2), np.uint64)
        self._table: Array = np.full(2 * _FIRST, -1, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the table and of the names."""
        return self._lanes.nbytes + self._table.nbytes

    # Names -----------------------------------------------------------------------------------------------

    def of_clause(self, factors: Iterable[Factor]) -> Array:
        """The name of one clause, uint64[1, 2]. Some microseconds for each factor."""
        total: Array = np.zeros((1, 2), np.uint64)
        for factor in factors:
            self._add_factor(factor, total)
        return total

    def of_columns(self, columns: ClauseColumns) -> Array:
        """The names of many clauses of one template, uint64[n, 2]. O(n)."""
        total: Array = np.zeros((columns.count, 2), np.uint64)
        total += self.of_clause(columns.fixed)
        for term in columns.terms:
            kernels.mix_words(self._words(term, columns.count), self._seeds, total)
        if columns.never is not None:
            total[columns.never] = self.of_clause([Factor(())])
        return total

    def _add_factor(self, factor: Factor, total: Array) -> None:
        if len(factor.terms) == 1:
            (term,) = factor.terms
            if len(term.intervals) == 1 and not term.nulls and term.attribute.type != BOOLEAN:
                words = [*self._tag(term.attribute).tolist(), *self._words_of(term.attribute, term.intervals[0])]
                kernels.mix_words(np.array([words], np.uint64), self._seeds, total)
                return
        total += np.frombuffer(self._digest(factor_text(factor)), np.uint64)

    def _words_of(self, attribute: Expr, interval: Interval) -> list[int]:
        """The words of one interval of an attribute, as in `_words`, but without the words of the attribute."""
        low, high = interval.low, interval.high
        if attribute.type.kind is not Kind.TEXT:
            first, beyond = ends(attribute.type)
            lowest, above = first if low is None else low, beyond if high is None else high
            assert isinstance(lowest, int) and isinstance(above, int)
            return [lowest & _MASK, (above - 1) & _MASK]
        words, flags = list[int](), 0
        for end, opened, past in ((low, _LOW_OPEN, _LOW_PAST), (high, _HIGH_OPEN, _HIGH_PAST)):
            if not isinstance(end, bytes):
                words += [0, 0]
                flags |= opened
                continue
            text = end.removesuffix(b"\0")
            flags |= past * (len(text) < len(end))
            out: Array = np.zeros((1, 2), np.uint64)
            offsets = np.array([0, len(text)], np.int64)
            kernels.mix_texts(offsets, np.frombuffer(text or b"\0", np.uint8), self._seeds, out)
            words += out[0].tolist()
        return [*words, flags]

    def _tag(self, attribute: Expr) -> Array:
        """The words that stand for an attribute, uint64[2]."""
        tag = self._attributes.get(attribute)
        if tag is None:
            digest = self._digest(f"{expr_text(attribute)} {attribute.type}")
            tag = self._attributes[attribute] = np.frombuffer(digest, np.uint64)
        return tag

    def _words(self, term: TermColumn, count: int) -> Array:
        """The words of a factor that are mixed into the name of each clause: its attribute, its ends, and flags.

        For texts, the flags say which ends are open, and which are just past their key.
        """
        text = term.attribute.type.kind is Kind.TEXT
        words: Array = np.zeros((count, 7 if text else 4), np.uint64)
        words[:, :2] = self._tag(term.attribute)
        if not text:
            assert term.low is not None and term.high is not None
            words[:, 2], words[:, 3] = term.low.keys.view(np.uint64), term.high.keys.view(np.uint64)
            return words
        for place, edges, opened, past in (
            (2, term.low, _LOW_OPEN, _LOW_PAST),
            (4, term.high, _HIGH_OPEN, _HIGH_PAST),
        ):
            if edges is None:
                words[:, 6] |= np.uint64(opened)
                continue
            words[:, place : place + 2] = self._texts(edges.keys)
            words[:, 6] |= np.where(edges.open, opened, past * edges.past).astype(np.uint64)
            words[edges.open, place : place + 2] = 0
        return words

    def _texts(self, keys: pa.LargeBinaryArray) -> Array:
        out: Array = np.zeros((len(keys), 2), np.uint64)
        _, offsets, data = keys.buffers()
        if len(keys):
            ends = np.frombuffer(offsets, np.int64, len(keys) + 1, 8 * keys.offset)
            kernels.mix_texts(ends, np.frombuffer(data or b"\0", np.uint8), self._seeds, out)
        return out

    def _digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key).digest()

    # The table -------------------------------------------------------------------------------------------

    def assign(self, names: Array, allocate: Callable[[int], Array]) -> tuple[Array, Array]:
        """Find the slots of clauses by their names (uint64[n, 2]), and add new names to the table.

        `allocate(m)` returns slots for m new names, in the order of their rows. Returns the slots, int64[n], and the
        first row of each new name, int64[m]. O(n), and O(clauses) when the table grows.
        """
        if 2 * (self._count + len(names)) > len(self._table):
            self._grow(self._count + len(names))
        slot_of_name, places = np.empty(len(names), np.int64), np.empty(len(names), np.int64)
        kernels.look_up(names, self._table, self._lanes, slot_of_name, places)
        fresh = np.flatnonzero(slot_of_name == -2 - np.arange(len(names)))
        if not len(fresh):
            return slot_of_name, fresh
        slots = allocate(len(fresh))
        self._reserve(int(slots.max()) + 1)
        self._lanes[slots] = names[fresh]
        self._table[places[fresh]] = slots
        self._count += len(fresh)
        new = slot_of_name < 0
        slot_of_name[new] = slots[np.searchsorted(fresh, -2 - slot_of_name[new])]
        return slot_of_name, fresh

    def find(self, names: Array) -> Array:
        """The slot of each name (uint64[n, 2]), or -1 for a name that is not in the table: int64[n]. O(n)."""
        slots, places = np.full(len(names), -1, np.int64), np.empty(len(names), np.int64)
        if not self._count:
            return slots
        table = self._table
        if 2 * (self._count + len(names)) > len(table):
            self._grow(self._count + len(names))
        kernels.look_up(names, self._table, self._lanes, slots, places)
        taken = np.flatnonzero(slots == -2 - np.arange(len(names)))
        self._table[places[taken]] = -1  # the places that `look_up` has taken for new names
        self._table = table  # its content is as before
        slots[slots < 0] = -1
        return slots

    def forget(self, slots: Array) -> None:
        """Remove the clauses of some slots (int64[k], distinct), which must exist.

        Amortised O(k), as a table that has become too large is made smaller.
        """
        taken = kernels.take_out(slots, self._lanes, self._table)
        ensure(taken == len(slots), self, "a slot has no name", slots=slots)
        self._count -= len(slots)
        roomy = len(self._table) > 2 * _FIRST and _ROOMY * self._count < len(self._table)
        if roomy or (not self._count and len(self._lanes) > _FIRST):
            slots = self._table[self._table >= 0]
            self._lanes = self._lanes[: max(int(slots.max(initial=-1)) + 1, _FIRST)].copy()
            self._grow(max(self._count, _FIRST // 2))

    def _reserve(self, slots: int) -> None:
        if slots > len(self._lanes):
            grown: Array = np.zeros((slots + slots // 4, 2), np.uint64)
            grown[: len(self._lanes)] = self._lanes
            self._lanes = grown

    def _grow(self, count: int) -> None:
        slots = self._table[self._table >= 0].astype(np.int64)
        self._table = np.full(1 << (2 * count).bit_length(), -1, np.int32)
        kernels.fill_table(slots, self._lanes, self._table)

    def check(self, slots: Array) -> None:
        """Check that the table holds exactly these slots (int64[k])."""
        in_table = np.sort(self._table[self._table >= 0])
        ensure(len(in_table) == self._count, self, "names are miscounted", counted=self._count, slots=in_table)
        ensure(
            np.array_equal(in_table, np.sort(slots)),
            self,
            "the names are not those of the clauses",
            names=in_table,
            live=slots,
        )
