"""Results of a chunk that tuples are still appended to.

    rows   uint64[R, chunk_rows/64]   one bitmap row for each clause that matches often
    runs   (slots, offsets) sorted    what the other clauses matched, in the order the tuples came; merged by size

A clause's column is the union of its row and of its part of every run. Clauses are named by *slot*. The arrays only
grow: a view taken at a length stays right for the tuples below that length while the writer goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.columns import Array
from psoup.config import EngineConfig
from psoup.kernels.columns import bits_to_offsets, mask_to_bits, offset_range, slot_range, sort_by_slot
from psoup.kernels.pack import set_bits
from psoup.results.gaps import NO_GAPS, Gaps
from psoup.results.room import RowRoom

_FIRST_ROWS = 16
_TIER = 16
"""Runs of like size that are merged at once, a power of two. Merging two by two cost more than the join itself."""
_LARGE_RUN = 4_096
"""Pairs of a run from which on twice as many are kept side by side: shards make two or more of a piece, and all runs
of a chunk are merged at once when it is sealed, by whoever does that."""
_SPARSE_SLOTS = 8
"""Slots for each pair, from which on sorting the pairs beats a pass over all slots."""


def merge_all(runs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Some runs (at least one, none empty) as one; those of a slot must not go back. O(pairs + slots) at most."""
    if len(runs) == 1:
        return runs[0]
    slots, offsets = np.concatenate([run for run, _ in runs]), np.concatenate([run for _, run in runs])
    first, last = min(int(run[0]) for run, _ in runs), max(int(run[-1]) for run, _ in runs)
    if last - first > _SPARSE_SLOTS * len(slots):
        pairs = slots.astype(np.uint64) << np.uint64(16) | offsets
        pairs.sort()
        return (pairs >> np.uint64(16)).astype(np.uint32), pairs.astype(np.uint16)
    merged = np.empty(len(slots), np.uint32), np.empty(len(slots), np.uint16)
    sort_by_slot(slots, offsets, first, last, *merged)
    return merged


@dataclass(frozen=True, slots=True)
class OpenView:
    """The open results as they were when the chunk had `length` tuples. `sqc_of_slot`: int64, who owns each slot.

    A match may be in the row and in a run too: sealing writes those of the runs to the rows, while others read.
    """

    sqc_of_slot: Array
    row_of_slot: Array
    rows: Array
    runs: tuple[tuple[Array, Array], ...]
    length: int
    spare: int = 0
    """Bytes of room for rows that nobody uses."""

    def offsets(self, slot: int, start: int, stop: int) -> Array:
        """Offsets in [start, stop) that the clause in `slot` matched, ascending, int64. O(result + words)."""
        parts = []
        row = int(self.row_of_slot[slot]) if slot < len(self.row_of_slot) else -1
        if 0 <= row < len(self.rows):
            found = np.empty(stop - start, np.int64)
            count = bits_to_offsets(self.rows[row], start, stop, found)
            parts.append(found[:count])
        for slots, offsets in self.runs:
            low, high = slot_range(slots, slot)
            if low < high:
                low, high = offset_range(offsets, low, high, start, stop)
                parts.append(offsets[low:high].astype(np.int64))
        if not parts:
            return np.zeros(0, np.int64)
        if len(parts) == 1:
            return parts[0]
        found = np.concatenate(parts)
        found.sort()
        new = found[1:] != found[:-1]
        return found if new.all() else found[np.concatenate([[True], new])]

    def sqc_ids_at(self, offset: int) -> Array:
        """The SQC IDs that matched the tuple at `offset`, int64, in no order. O(slots + runs)."""
        rows = self.row_of_slot
        with_row = np.flatnonzero((rows >= 0) & (rows < len(self.rows)))
        bit = (self.rows[rows[with_row], offset >> 6] >> np.uint64(offset & 63)) & np.uint64(1)
        parts = [with_row[bit.astype(np.bool_)]]
        parts.extend(slots[offsets == offset].astype(np.int64) for slots, offsets in self.runs)
        return self.sqc_of_slot[np.unique(np.concatenate(parts))]

    def form(self, slot: int) -> str:
        """`row`, `run`, `row+run` or `empty`: how the column of `slot` is kept."""
        row = slot < len(self.row_of_slot) and 0 <= self.row_of_slot[slot] < len(self.rows)
        run = any(low < high for low, high in (slot_range(slots, slot) for slots, _ in self.runs))
        return "+".join(name for name, there in (("row", row), ("run", run)) if there) or "empty"


class OpenResults:
    """The writer's side. Not safe for two writers; views are safe for any reader."""

    def __init__(self, config: EngineConfig, slots: int, room: RowRoom | None = None) -> None:
        self._config = config
        self._words = config.chunk_rows // 64
        self._dense_from = max(1, config.chunk_rows // config.dense_share)
        self.row_of_slot: Array = np.full(max(slots, _FIRST_ROWS), -1, np.int32)
        self.room = RowRoom(self._words) if room is None else room
        self.rows: Array = np.zeros((0, self._words), np.uint64)
        self._row_count = 0
        self.runs: list[tuple[Array, Array]] = []
        self.errors: dict[int, int] = {}
        self.gaps: Gaps = NO_GAPS
        """Clauses that were not evaluated over all of the tuples so far."""

    def reserve(self, slots: int) -> None:
        """Make room for slots below `slots`."""
        if slots > len(self.row_of_slot):
            grown: Array = np.full(max(slots, 2 * len(self.row_of_slot)), -1, np.int32)
            grown[: len(self.row_of_slot)] = self.row_of_slot
            self.row_of_slot = grown

    def ensure_rows(self, slots: Array) -> None:
        """Give every slot of `slots` (distinct) a row; `rows` and `row_of_slot` must be read again afterwards."""
        new = slots[self.row_of_slot[slots] < 0]
        if not len(new):
            return
        needed = self._row_count + len(new)
        if needed > len(self.rows):
            # Room to spare from the start: rows come in crowds, and one late-comer must not move them all.
            grown = self.room.take(needed, max(needed + (needed >> 2), 2 * len(self.rows), _FIRST_ROWS))
            grown[: self._row_count] = self.rows[: self._row_count]
            self.rows = grown
        self.row_of_slot[new] = np.arange(self._row_count, needed, dtype=np.int32)
        self._row_count = needed

    def append_run(self, slots: Array, offsets: Array) -> None:
        """Add matches, uint32 slots and uint16 offsets, sorted by (slot, offset).

        They are later than all other matches of their slots.
        """
        if not len(slots):
            return
        # Before, not after: the last piece of a chunk leaves its runs to be merged by whoever seals the chunk.
        while len(self.runs) >= _TIER:
            last = len(self.runs[-1][0])
            width = _TIER if last < _LARGE_RUN else 2 * _TIER
            if len(self.runs) < width or len(self.runs[-width][0]) > _TIER * last:
                break
            tier, self.runs[-width:] = self.runs[-width:], []
            merged = self._promote(*merge_all(tier))
            if len(merged[0]):
                self.runs.append(merged)
        self.runs.append((slots, offsets))

    def _promote(self, slots: Array, offsets: Array) -> tuple[Array, Array]:
        """Move the pairs of slots that have many here, and no row, to rows of their own; returns the others.

        A slot that has a row keeps its pairs: a view taken before would see them twice. O(pairs) if there are any.
        """
        if len(slots) <= self._dense_from:
            return slots, offsets
        starts = np.flatnonzero(slots[self._dense_from :] == slots[: -self._dense_from])
        many = np.unique(slots[starts]).astype(np.int64) if len(starts) else starts
        many = many[self.row_of_slot[many] < 0]
        if not len(many):
            return slots, offsets
        self.ensure_rows(many)
        moved = np.isin(slots, many)
        set_bits(self.rows, self.row_of_slot[slots[moved]].astype(np.int64), offsets[moved])
        return slots[~moved], offsets[~moved]

    def clear(self) -> None:
        """Hold nothing, with room for as much as before; what was sealed may have kept the rows."""
        size = len(self.rows)
        self.rows = np.zeros((0, self._words), np.uint64)  # the memory of before may be what is taken now
        self.rows = self.room.take(size, size)
        self.row_of_slot[:] = -1
        self._row_count = 0
        self.runs = []
        self.errors = {}
        self.gaps = NO_GAPS

    def add_errors(self, attribute: int, count: int) -> None:
        """Count evaluation errors of a derived attribute in this chunk."""
        if count:
            self.errors[attribute] = self.errors.get(attribute, 0) + count

    def add_mask(self, slot: int, mask: Array) -> None:
        """Set the column of a slot that has none yet, from one byte per tuple of the chunk so far. O(n)."""
        count = int(np.count_nonzero(mask))
        if count > self._dense_from:
            self.ensure_rows(np.array([slot], np.int64))
            mask_to_bits(mask, 0, self.rows[self.row_of_slot[slot]])
        elif count:
            offsets = np.flatnonzero(mask).astype(np.uint16)
            self.append_run(np.full(count, slot, np.uint32), offsets)

    def view(self, length: int, sqc_of_slot: Array) -> OpenView:
        """What readers see of the first `length` tuples. O(runs)."""
        rows, spare = self.rows[: self._row_count], self.room.nbytes
        return OpenView(sqc_of_slot, self.row_of_slot, rows, tuple(self.runs), length, spare)

    def successor(self, slots: int) -> OpenResults:
        """Nothing yet, of the chunk that follows."""
        return OpenResults(self._config, slots, self.room)

    def without(self, slots: Array, used: int) -> OpenResults:
        """A copy that names none of `slots`, and only slots below `used`; the original stays for its readers.

        O(results).
        """
        kept = self.successor(used)
        dead: Array = np.zeros(len(self.row_of_slot), np.bool_)
        dead[slots] = True
        live = np.flatnonzero((self.row_of_slot >= 0) & ~dead)
        kept.ensure_rows(live)
        kept.rows[kept.row_of_slot[live]] = self.rows[self.row_of_slot[live]]
        for run_slots, offsets in self.runs:
            keep = ~dead[run_slots]
            kept.append_run(run_slots[keep], offsets[keep])
        kept.errors, kept.gaps = dict(self.errors), self.gaps
        return kept

    @property
    def nbytes(self) -> int:
        """Bytes of rows in use, runs and the slot table."""
        runs = sum(slots.nbytes + offsets.nbytes for slots, offsets in self.runs)
        return self._row_count * self._words * 8 + runs + self.row_of_slot.nbytes

    def check(self, length: int) -> None:
        """Rows are owned once, no bit lies at or past `length`, runs are sorted and shrink, exceptions are sound."""
        self.gaps.check(length)
        owned = self.row_of_slot[self.row_of_slot >= 0]
        assert len(np.unique(owned)) == len(owned) == self._row_count, "a row has two owners, or none"
        late = np.zeros(length % 64 + 64, np.int64)
        for row in self.rows[: self._row_count]:
            stop = min(64 * self._words, (length | 63) + 1)
            found = bits_to_offsets(row, length, stop, late) if stop > length else 0
            assert not found and not row[(length + 63) // 64 :].any(), f"a bit past the {length} tuples"
        for slots, offsets in self.runs:
            keys = slots.astype(np.int64) << 16 | offsets
            assert (np.diff(keys) > 0).all(), "a run is not sorted, or holds a match twice"
            assert offsets.max() < length, "a run holds an offset past the tuples"
