"""The results of the open chunk, to which tuples are still appended.

    rows   uint64[B, R, W]   one row of bits for each clause that matches often; a block of tuples after the other, in
                             each block row after row: `psoup.kernels.rows.bit_blocks`
    runs   `psoup.results.runs`      matches of the other clauses, in the order of the tuples; merged by size

A piece of tuples is written to one or two blocks, which are contiguous. Rows of the whole chunk would touch a page of
memory for each clause, and take twice the time. Sealing joins the blocks of a clause.

A clause's column is the union of its row and of its part of every run. The arrays name a clause by its *slot*, and they
only grow. So a view stays right for its tuples while the writer adds more tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from psoup.config import EngineConfig
from psoup.invariants import corrupt, ensure
from psoup.kernels.arrive.slot_runs import busy_slots, find_pairs
from psoup.kernels.rows.bit_blocks import count_rows, set_bits
from psoup.kernels.rows.bitmaps import bits_to_offsets, mask_to_bits, offsets_to_bits
from psoup.results.failures import NO_FAILURES, Failures
from psoup.results.gaps import NO_GAPS, Gaps
from psoup.results.room import RowRoom
from psoup.results.runs import MatchRun, grouped, together
from psoup.values.columns import Array

_FIRST_ROWS = 16
_EVERY_BIT = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class OpenView:
    """The open results when the chunk had `length` tuples.

    `sqc_of_slot`: int64, the clause in each slot. `count`: the number of `rows` in use. A match may be both in a row
    and in a run: sealing writes matches of runs to rows while readers read.
    """

    sqc_of_slot: Array
    row_of_slot: Array
    rows: Array
    count: int
    runs: tuple[MatchRun, ...]
    length: int
    room: RowRoom

    @property
    def spare(self) -> int:
        """The bytes of spare memory in the pool for rows, at the moment of the call."""
        return self.room.nbytes

    def offsets(self, slot: int, start: int, stop: int) -> Array:
        """Offsets in [start, stop) that the clause in `slot` matched, ascending, int64. O(result + words)."""
        parts, offsets = list[Array](), np.empty(max(stop - start, 0), np.int64)
        for run in self.runs:
            count = find_pairs(run.slots, run.offsets, run.starts, slot, start, stop, offsets)
            if count:
                parts.append(offsets[:count])
                offsets = np.empty(len(offsets), np.int64)
        row = int(self.row_of_slot[slot]) if slot < len(self.row_of_slot) else -1
        if not 0 <= row < self.count:
            return np.concatenate(parts) if parts else np.zeros(0, np.int64)
        blocks = self.rows[:, row]
        words = blocks.flatten() if parts else blocks.reshape(-1)
        for part in parts:  # a match may be in both, and in any order: bits sort matches and remove duplicates
            offsets_to_bits(part.astype(np.uint16), words)
        return offsets[: bits_to_offsets(words, start, stop, offsets)]

    def bits(self, slot: int) -> Array | None:
        """The matches of the clause in `slot` as read-only bits, uint64[words]. None if it has no row. O(words).

        Only the bits of the first `length` tuples are final. The writer may set later bits at any time.
        """
        row = int(self.row_of_slot[slot]) if slot < len(self.row_of_slot) else -1
        if not 0 <= row < self.count:
            return None
        blocks = self.rows[:, row]
        if not self.runs:
            return blocks.reshape(-1)
        counts = [run.count(slot) for run in self.runs]
        words = blocks.flatten() if any(counts) else blocks.reshape(-1)
        for run, count in zip(self.runs, counts, strict=True):
            if count:
                offsets = np.empty(count, np.int64)
                count_found = find_pairs(run.slots, run.offsets, run.starts, slot, 0, self.length, offsets)
                offsets_to_bits(offsets[:count_found].astype(np.uint16), words)
        return words

    def form(self, slot: int) -> str:
        """The form of the column of `slot`: `row`, `run`, `row+run` or `empty`."""
        row = slot < len(self.row_of_slot) and 0 <= self.row_of_slot[slot] < self.count
        run = any(run.count(slot) for run in self.runs)
        return "+".join(name for name, present in (("row", row), ("run", run)) if present) or "empty"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.rows.shape[0] * self.rows.shape[2] * 8

    def slots_of_rows(self) -> Array:
        """The slot of each row in use, uint32. O(slots)."""
        slots: Array = np.zeros(self.count, np.uint32)
        if self.count:
            with_row = np.flatnonzero(self.row_of_slot >= 0)
            slots[self.row_of_slot[with_row]] = with_row
        return slots

    def row_counts(self) -> Array:
        """The matches in each row in use, int64[count]. O(their bytes)."""
        counts = np.empty(self.count, np.int64)
        count_rows(self.rows, counts)
        return counts


class OpenResults:
    """The results of an open chunk as the writer keeps them. Any thread may read their views."""

    def __init__(self, config: EngineConfig, slots: int, room: RowRoom | None = None, *, grouped: bool = True) -> None:
        self._config = config
        self.grouped = grouped
        """Whether runs are grouped by slot, for look-ups of one clause. If not, the caller reads all pairs at once."""
        self._dense_from = max(1, config.chunk_rows // config.dense_share)
        self.row_of_slot: Array = np.full(max(slots, _FIRST_ROWS), -1, np.int32)
        self.room = RowRoom(config.chunk_rows // 64, config.block_words) if room is None else room
        self.rows: Array = self.room.take(0, 0)
        self._row_count = 0
        self.runs: list[MatchRun] = []
        self.errors: dict[int, int] = {}
        self.failures: Failures = NO_FAILURES
        """The failures of clauses, by slot."""
        self.gaps: Gaps = NO_GAPS
        """Clauses that were not evaluated over all tuples so far."""

    def reserve(self, slots: int) -> None:
        """Make room for slots below `slots`."""
        if slots > len(self.row_of_slot):
            grown: Array = np.full(max(slots, 2 * len(self.row_of_slot)), -1, np.int32)
            grown[: len(self.row_of_slot)] = self.row_of_slot
            self.row_of_slot = grown

    def ensure_rows(self, slots: Array) -> None:
        """Give a row to every slot of `slots` (distinct).

        The call may replace `rows`, so the caller must read it again afterwards.
        """
        new = slots[self.row_of_slot[slots] < 0]
        if not len(new):
            return
        needed = self._row_count + len(new)
        if needed > self.rows.shape[1]:
            # Spare room: many slots get a row at once, and one further slot must not cause a copy of all rows.
            grown = self.room.take(needed, max(needed + (needed >> 2), 2 * self.rows.shape[1], _FIRST_ROWS))
            grown[:, : self._row_count] = self.rows[:, : self._row_count]
            self.rows = grown
        self.row_of_slot[new] = np.arange(self._row_count, needed, dtype=np.int32)
        self._row_count = needed

    def add_range(self, slots: Array, start: int, stop: int) -> None:
        """Record in rows that all tuples in [start, stop), at least one, match slots (int64[k], distinct).

        O(k * words).
        """
        self.ensure_rows(slots)
        first, last, width = start >> 6, (stop - 1) >> 6, self.rows.shape[2]
        blocks = slice(first // width, last // width + 1)
        words: Array = np.zeros((blocks.stop - blocks.start) * width, np.uint64)
        inner = words[first - blocks.start * width : last + 1 - blocks.start * width]
        inner[:] = _EVERY_BIT
        inner[0] &= _EVERY_BIT << np.uint64(start & 63)
        inner[-1] &= _EVERY_BIT >> np.uint64(63 - (stop - 1 & 63))
        self.rows[blocks, self.row_of_slot[slots]] |= words.reshape(-1, 1, width)

    def append_run(self, run: MatchRun) -> None:
        """Add matches. Their tuples must come after all earlier matches of the same slots."""
        if not len(run.slots):
            return
        if not self.grouped:
            self.runs.append(run)
            return
        # Runs are merged before the append, so that the sealing task merges those of a chunk's last piece.
        tier, large = self._config.shape.tier, self._config.shape.large_run
        while len(self.runs) >= tier:
            last = len(self.runs[-1].slots)
            width = tier if last < large else 2 * tier
            if len(self.runs) < width or len(self.runs[-width].slots) > tier * last:
                break
            alike, self.runs[-width:] = self.runs[-width:], []
            merged = self._promote(together(alike))
            if len(merged.slots):
                self.runs.append(merged)
        self.runs.append(run)

    def _promote(self, run: MatchRun) -> MatchRun:
        """Give a row to each slot with many pairs and without a row, and move its pairs there. Returns the other pairs.

        A slot that has a row keeps its pairs in the run, because an earlier view would see them twice. O(pairs) if any
        are moved.
        """
        if len(run.slots) <= self._dense_from:
            return run
        busy = np.empty(len(run.slots) // self._dense_from, np.int64)
        busy = busy[: busy_slots(run.slots, run.starts, len(self.row_of_slot), self._dense_from, busy)]
        before = self._row_count
        self.ensure_rows(busy)
        if self._row_count == before:
            return run
        rows = self.row_of_slot[run.slots]
        moved = rows >= before
        set_bits(self.rows, rows[moved].astype(np.int64), run.offsets[moved])
        return grouped(run.slots[~moved], run.offsets[~moved])

    def clear(self) -> None:
        """Drop all results and keep the memory. No view may exist, because the writer will overwrite its rows."""
        if self._row_count:
            self.rows[:, : self._row_count] = 0
            self.row_of_slot[:] = -1
        self._row_count = 0
        self.runs = []
        self.errors = {}
        self.failures = NO_FAILURES
        self.gaps = NO_GAPS

    def add_errors(self, attribute: int, count: int) -> None:
        """Count evaluation errors of a derived attribute in this chunk."""
        if count:
            self.errors[attribute] = self.errors.get(attribute, 0) + count

    def add_failures(self, slots: Array, counts: Array) -> None:
        """Count failures of clauses (int64[k], distinct slots). O(k + slots with failures)."""
        self.failures = self.failures.plus(slots, counts)

    def add_mask(self, slot: int, mask: Array) -> None:
        """Set the matches of a slot that has none yet. O(n).

        `mask`: one byte for each tuple of the chunk, not 0 for a match.
        """
        count = int(np.count_nonzero(mask))
        if count > self._dense_from:
            self.ensure_rows(np.array([slot], np.int64))
            words: Array = np.zeros(self._config.chunk_rows // 64, np.uint64)
            mask_to_bits(mask, 0, words)
            self.rows[:, self.row_of_slot[slot]] = words.reshape(len(self.rows), -1)
        elif count:
            offsets = np.flatnonzero(mask).astype(np.uint16)
            self.append_run(grouped(np.full(count, slot, np.uint32), offsets))

    def view(self, length: int, sqc_of_slot: Array) -> OpenView:
        """The results of the first `length` tuples for readers. O(runs)."""
        rows = self.row_of_slot, self.rows, self._row_count
        return OpenView(sqc_of_slot, *rows, tuple(self.runs), length, self.room)

    def leave_out(self, sqc_ids: Array, offset: int) -> None:
        """Record that clauses (int64[k]) are not evaluated from `offset` on. O(k + exceptions)."""
        self.gaps = self.gaps.joined(sqc_ids, offset)

    def successor(self, slots: int, gaps: Gaps = NO_GAPS) -> OpenResults:
        """Empty results for the next chunk. `gaps`: the clauses that are not evaluated over it."""
        following = OpenResults(self._config, slots, self.room)
        following.gaps = gaps
        return following

    def without(self, slots: Array, used: int, errors: Mapping[int, int]) -> OpenResults:
        """A copy without the matches of `slots`. Readers keep the original. O(results).

        `used`: the number of slots for which the copy has room. `errors`: counts of attributes that are still used.
        """
        rebuilt = self.successor(used)
        dead: Array = np.zeros(len(self.row_of_slot), np.bool_)
        dead[slots] = True
        live = np.flatnonzero((self.row_of_slot >= 0) & ~dead)
        rebuilt.ensure_rows(live)
        rebuilt.rows[:, rebuilt.row_of_slot[live]] = self.rows[:, self.row_of_slot[live]]
        for run in self.runs:
            keep = ~dead[run.slots]
            rebuilt.append_run(grouped(run.slots[keep], run.offsets[keep]))
        rebuilt.errors, rebuilt.gaps = dict(errors), self.gaps
        rebuilt.failures = self.failures.without(slots)
        return rebuilt

    def matched(self, start: int, stop: int, left_out: Array | None = None) -> int:
        """The number of matches of the tuples at [start, stop), which must be the newest tuples.

        `left_out`: offsets of tuples that do not count, int64. O(rows * words + pairs of their runs).
        """
        count, first, last, width = 0, start >> 6, (stop - 1) >> 6, self.rows.shape[2]
        counted = None if left_out is None else self._bits_without(left_out)
        word = first
        while word <= last:
            block, at = divmod(word, width)
            words = self.rows[block, : self._row_count, at : min(width, at + last + 1 - word)]
            if counted is not None:
                words = words & counted[word : word + words.shape[1]]
            if word == first and start & 63:
                count -= int(np.bitwise_count(words[:, 0] & ~(_EVERY_BIT << np.uint64(start & 63))).sum())
            count += int(np.bitwise_count(words).sum(dtype=np.int64))
            word += words.shape[1]
        for run in reversed(self.runs):
            offsets = run.offsets[run.offsets >= start]
            if not len(offsets):
                break
            count += len(offsets) if left_out is None else int(np.count_nonzero(~np.isin(offsets, left_out)))
        return count

    def _bits_without(self, offsets: Array) -> Array:
        """A bit for each offset of the chunk, 0 at `offsets`: uint64[words]."""
        bits: Array = np.zeros(self._config.chunk_rows >> 6, np.uint64)
        offsets_to_bits(offsets.astype(np.uint16), bits)
        return ~bits

    @property
    def nbytes(self) -> int:
        """Bytes of rows in use, runs and the slot table."""
        runs = sum(run.nbytes for run in self.runs)
        rows = self._row_count * self._config.chunk_rows // 8
        return rows + runs + self.row_of_slot.nbytes + self.failures.nbytes

    def check_counts(self) -> None:
        """Check that rows in use have memory, and that the newest run is whole. O(1)."""
        if self._row_count > self.rows.shape[1]:
            raise corrupt(self, "more rows are in use than there are", count=self._row_count, rows=self.rows.shape[1])
        run = self.runs[-1] if self.runs else None
        if run is not None and not len(run.slots) == len(run.offsets) == run.starts[-1, -1]:
            raise corrupt(run, "a pair is in no block", slots=len(run.slots), offsets=len(run.offsets))

    def check(self, length: int) -> None:
        """Check that each row has one slot, and that no match lies at or past `length`. Checks all parts, too."""
        self.gaps.check(length)
        self.failures.check()
        self.room.check()
        owned = self.row_of_slot[self.row_of_slot >= 0]
        once = len(np.unique(owned)) == len(owned) == self._row_count
        ensure(once, self, "a row has two owners, or none", rows=owned, count=self._row_count)
        late = np.zeros(64, np.int64)
        for row in range(self._row_count):
            words, stop = self.rows[:, row].reshape(-1), min(self._config.chunk_rows, (length | 63) + 1)
            count = bits_to_offsets(words, length, stop, late) if stop > length else 0
            past = count or words[(length + 63) // 64 :].any()
            ensure(not past, self, "a bit lies past the tuples", row=row, length=length)
        for run in self.runs:
            run.check()
            ensure(run.offsets.max() < length, self, "a run holds an offset past the tuples", length=length)
