"""The join of a piece of new tuples with all clauses of an index: plan, then emit.

    clause j     its factors             clause_ptr[j] up to clause_ptr[j + 1]         (none: matches every tuple)
    factor f     its intervals           factor_ptr[f] up to factor_ptr[f + 1]         (none: matches no tuple)
    interval i   rows of one attribute   iv_attr[i], iv_lo[i] <= row < iv_hi[i]

From prefix counts, plan knows for every clause how many tuples pass each factor, and writes a list of *work*: the
clauses that can match at all, each with the factor to *walk* (few tuples pass it: look at each) or with -1 (many:
AND the prefix bitmaps, 64 tuples at a time). Emit does the work; parts of the list can be emitted in parallel.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.arrive.arrays import AttributeUses, EmittedPairs, IndexArrays, PieceArrays, PlannedWork, SlotRows
from psoup.kernels.arrive.codes import count_codes, sort_tuples
from psoup.kernels.arrive.prefix_bitmaps import prefix_bitmaps
from psoup.kernels.compile.inner import inner
from psoup.kernels.compile.lanes import LINE, all_written, one_word, write_line
from psoup.kernels.rows.bit_blocks import _filled, _set_bit, _stretch
from psoup.kernels.rows.bitmaps import _popcount

_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_FEW = 4
"""Factors that are combined in one pass."""


@njit(cache=True, nogil=True, inline="always")
def _mark(flags, attributes, first, last):
    """Set the flags of some attributes, each once: writing a set flag again would take its line of cache from a thread
    that plans something else. Returns how many were not set."""
    new = 0
    for i in range(first, last):
        if flags[attributes[i]] == 0:
            flags[attributes[i]] = 1
            new += 1
    return new


@njit(cache=True, nogil=True, inline="always")
def _fewest(first, last, factor_ptr, iv_lo, iv_hi, counts, minimum):
    """The least of passed << 32 | factor over some factors, and of `minimum`: a minimum is found without branches."""
    for factor in range(first, last):  # unsigned: no place is counted from the end
        passed = np.int64(0)
        for i in range(np.uint64(factor_ptr[factor]), np.uint64(factor_ptr[factor + _ONE])):
            passed += counts[np.uint64(iv_hi[i])] - counts[np.uint64(iv_lo[i])]
        minimum = min(minimum, passed << 32 | np.int64(factor))
    return minimum


@njit(cache=True, nogil=True)
def plan(clauses, alive, index, counts, rows, walk, limit, work, uses):
    """Find the clauses that can match, and how to find their matches.

    clauses: int32[k], the candidates, ascending; alive: uint8[S], 0 = removed; index: `IndexArrays`;
    counts: int32[rows] (see `count_codes`); rows: tuples in the piece; walk: most tuples that are
    walked; limit: most pairs of a clause that is not walked. Read.
    work: `PlannedWork`, written: the clauses in order, k at most; for each the factor to walk or -1, and its room: the
    output of work j may take places room[j] up to room[j + 1].
    uses: `AttributeUses`, set to 1 for attributes whose tuples are walked, whose bitmaps are needed.
    Returns the length of work. O(k + intervals of the candidates).
    """
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = IndexArrays(*index)
    planned, walked, room = PlannedWork(*work)
    use_order, use_prefix = AttributeUses(*uses)
    size, room[0], unmarked = np.uint64(0), 0, np.count_nonzero(use_prefix == 0)
    for k in range(clauses.shape[0]):
        clause = np.uint64(clauses[k])
        if alive[clause] == 0:
            continue
        begin, end = np.uint64(clause_ptr[clause]), np.uint64(clause_ptr[clause + _ONE])
        minimum = _fewest(begin, end, factor_ptr, iv_lo, iv_hi, counts, (np.int64(rows) + 1) << 32)
        fewest, best = minimum >> 32, minimum & 0xFFFF_FFFF
        if fewest == 0:
            continue
        planned[size] = clause
        if fewest <= min(walk, rows):
            walked[size] = best
            _mark(use_order, iv_attr, factor_ptr[best], factor_ptr[best + 1])
        else:
            walked[size] = -1
            if unmarked:
                unmarked -= _mark(use_prefix, iv_attr, factor_ptr[begin], factor_ptr[end])
        room[size + _ONE] = room[size] + min(fewest, max(walk, limit))
        size += _ONE
    return np.int64(size)


@njit(cache=True, nogil=True)
def count_and_plan(base, codes, ranks, starts, clauses, alive, index, counts, rows, walk, limit, work, uses):
    """`count_codes`, then `plan`: see there. One call, as between two another thread may take the interpreter."""
    count_codes(codes, base, counts, ranks, starts)
    return plan(clauses, alive, index, counts, rows, walk, limit, work, uses)


@inner
def _holds(factor, index, codes, t):
    """Whether tuple t passes the factor."""
    for i in range(index.factor_ptr[factor], index.factor_ptr[factor + 1]):
        row = codes[index.iv_attr[i], t]
        if index.iv_lo[i] <= row and row < index.iv_hi[i]:
            return True
    return False


@inner
def _walk(clause, factor, index, piece, start, out_offsets, place):
    """Write the chunk offsets of the matches among the tuples that pass `factor`, ascending, from `place` on."""
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = index
    codes, counts, _, _, order = piece
    end = place
    first = factor_ptr[factor]
    several = iv_attr[first] != iv_attr[factor_ptr[factor + 1] - 1]
    for i in range(first, factor_ptr[factor + 1]):
        attr = iv_attr[i]
        for p in range(counts[iv_lo[i]], counts[iv_hi[i]]):
            t = order[attr, p]
            holds = True
            for other in range(clause_ptr[clause], clause_ptr[clause + 1]):
                if other != factor and not _holds(other, index, codes, t):
                    holds = False
                    break
            if holds and several:  # seen already in an interval of another attribute
                for e in range(first, i):
                    row = codes[iv_attr[e], t]
                    if iv_lo[e] <= row and row < iv_hi[e]:
                        holds = False
                        break
            if not holds:
                continue
            offset = np.uint16(start + t)
            k = end
            while k > place and out_offsets[k - 1] > offset:
                out_offsets[k] = out_offsets[k - 1]
                k -= 1
            out_offsets[k] = offset
            end += 1
    return end


@inner
def _and_factors(clause, clause_ptr, factor_ptr, iv_lo, iv_hi, ranks, prefix, bits, either):
    """AND the bitmaps of the clause's factors into `bits`, factors of one interval two at a time; returns the count."""
    words = bits.shape[0]
    factor, end = clause_ptr[clause], clause_ptr[clause + 1]
    while factor < end:
        first, last = factor_ptr[factor], factor_ptr[factor + 1]
        high, low = prefix[ranks[iv_hi[first]]], prefix[ranks[iv_lo[first]]]
        if factor + 1 < end and factor_ptr[factor + 2] == first + 2 and last == first + 1:
            high_2, low_2 = prefix[ranks[iv_hi[last]]], prefix[ranks[iv_lo[last]]]
            for w in range(words):
                bits[w] &= high[w] & ~low[w] & high_2[w] & ~low_2[w]
            factor += 2
            continue
        factor += 1
        if last == first + 1:
            for w in range(words):
                bits[w] &= high[w] & ~low[w]
            continue
        for w in range(words):
            either[w] = high[w] & ~low[w]
        for i in range(first + 1, last):
            high, low = prefix[ranks[iv_hi[i]]], prefix[ranks[iv_lo[i]]]
            for w in range(words):
                either[w] |= high[w] & ~low[w]
        for w in range(words):
            bits[w] &= either[w]
    matches = np.uint64(0)
    for w in range(words):
        matches += _popcount(bits[w])
    return np.int64(matches)


@inner
def _list_bits(bits, filled, word_0, out_offsets, place):
    """Write the offsets of the set bits, ascending, from `place` on; bit 0 is the first bit of word `word_0`. filled:
    int64[words + 1], scratch."""
    for w in filled[: _filled(bits, filled)]:
        word = bits[w]
        while word != 0:
            bit = np.int64(_popcount((word & (~word + _ONE)) - _ONE))
            out_offsets[place] = ((word_0 + w) << 6) + bit
            place += 1
            word &= word - _ONE


@njit(cache=True, nogil=True, inline="always")
def _edges(interval, iv_lo, iv_hi, ranks, words):
    """The places where bitmaps of an interval begin: of its end, of its beginning. Unsigned: an index below 0 would
    count from the end, and a loop that may do so is not vectorised."""
    size = np.uint64(words)
    return np.uint64(ranks[iv_hi[interval]]) * size, np.uint64(ranks[iv_lo[interval]]) * size


@njit(cache=True, nogil=True, inline="always")
def _two(first, count, iv_lo, iv_hi, ranks, words):
    """The edges of `count` intervals (1 or 2) from `first` on, as two edges; an interval may come twice."""
    return _edges(first, iv_lo, iv_hi, ranks, words), _edges(first + count - 1, iv_lo, iv_hi, ranks, words)


@njit(cache=True, nogil=True, inline="always")
def _four(first, count, iv_lo, iv_hi, ranks, words):
    """The edges of `count` intervals (1 to 4) from `first` on, as four edges; some may come twice."""
    half = min(count, 2)
    begin, end = first, first + count - half
    return _two(begin, half, iv_lo, iv_hi, ranks, words) + _two(end, half, iv_lo, iv_hi, ranks, words)


@inner
def _write_row(edges, prefix, shift, words, rows, flat, even, row, word_0):
    """Write the tuples that lie in all intervals of `edges` to `words` words of a row, from `word_0` on.

    Only tuples before these have bits there: in the first word, if there is a shift. So nothing but that word is read:
    an OR took twice as long. flat: `rows` as one dimension; even: whether it begins with a line of cache. Both are
    made once by the caller: each counts a reference, and that waits until all is written.
    """
    done = 0
    while done < words:
        at, size = _stretch(rows, row, word_0 + done, words - done)
        shared = shift != 0 and done == 0
        if even and size >= LINE and at % LINE == 0 and not shared:
            size -= size % LINE
            for w in range(0, size, LINE):
                write_line(prefix, edges, np.uint64(done + w), flat, np.uint64(at + w))
        else:
            size = min(size, LINE - at % LINE) if even else size
            if shared:
                flat[at] |= one_word(prefix, edges, np.uint64(0))
            for w in range(np.uint64(shared), np.uint64(size)):
                flat[np.uint64(at) + w] = one_word(prefix, edges, np.uint64(done) + w)
        done += size


@inner
def _write_few(first, count, iv_lo, iv_hi, ranks, prefix, shift, words, rows, flat, even, row, word_0):
    """`_write_row` of the tuples that lie in `count` intervals (1 to 8), from `first` on.

    One pass, with nothing written in between: twice as fast as a factor at a time.
    """
    if count <= _FEW // 2:
        _write_row(_two(first, count, iv_lo, iv_hi, ranks, words), prefix, shift, words, rows, flat, even, row, word_0)
    elif count <= _FEW:
        _write_row(_four(first, count, iv_lo, iv_hi, ranks, words), prefix, shift, words, rows, flat, even, row, word_0)
    else:
        edges = _four(first, _FEW, iv_lo, iv_hi, ranks, words)
        more = _four(first + _FEW, count - _FEW, iv_lo, iv_hi, ranks, words)
        _write_row(edges + more, prefix, shift, words, rows, flat, even, row, word_0)


@inner
def _or_bits(bits, rows, row, word_0):
    """OR `bits` into a row, from its word `word_0` on."""
    flat, done = rows.reshape(-1), 0
    while done < bits.shape[0]:
        at, size = _stretch(rows, row, word_0 + done, bits.shape[0] - done)
        for w in range(size):
            flat[at + w] |= bits[done + w]
        done += size


@inner
def _select_few(first, count, iv_lo, iv_hi, ranks, prefix, bits):
    """bits = the tuples that lie in `count` intervals (1 to 8), from `first` on; returns how many."""
    edges = _four(first, min(count, _FEW), iv_lo, iv_hi, ranks, bits.shape[0])
    matches = np.uint64(0)
    for w in range(np.uint64(bits.shape[0])):
        bits[w] = one_word(prefix, edges, w)
        matches += _popcount(bits[w])
    if count > _FEW and matches != 0:
        edges = _four(first + _FEW, count - _FEW, iv_lo, iv_hi, ranks, bits.shape[0])
        matches = np.uint64(0)
        for w in range(np.uint64(bits.shape[0])):
            bits[w] &= one_word(prefix, edges, w)
            matches += _popcount(bits[w])
    return np.int64(matches)


@njit(cache=True, nogil=True)
def emit(first, last, work, slots, index, piece, prefix, start, cap, target, out):
    """Find the matches of work first to last; write them into the slot's row of bits, or as pairs.

    work: `PlannedWork` of `plan`. slots: uint32[S], ascending. index: `IndexArrays`. piece: `PieceArrays`; prefix: see
    `prefix_bitmaps`. start: the bit of tuple 0 in rows. All read.
    target: `SlotRows`, whose rows are written; no bit of a tuple from `start` on is set before. out: `EmittedPairs`.
    Its slots and offsets are written from room[first] on: the matches of slots without a row, side by side for each
    slot, ascending. Its needs are written from `first` on: positions of work with more than `cap` matches, found by
    bitmaps, and no row; nothing of them is written: emit them again when they have one.
    Returns (pairs written, needs written). O(tuples walked * factors + bitmap words of dense work).
    """
    index, piece = IndexArrays(*index), PieceArrays(*piece)
    clauses, walked, room = PlannedWork(*work)
    row_of_slot, rows = SlotRows(*target)
    out_slots, out_offsets, needs = EmittedPairs(*out)
    clause_ptr, factor_ptr, iv_lo, iv_hi, _ = index
    codes, _, ranks, _, _ = piece
    shift, word_0, n = start & 63, start >> 6, codes.shape[1]
    words, flat, all_bits = (shift + n + 63) >> 6, prefix.reshape(-1), rows.reshape(-1)
    place, needed, even = room[first], 0, all_bits.ctypes.data % (8 * LINE) == 0
    bits, either, filled = np.empty(words, np.uint64), np.empty(words, np.uint64), np.empty(words + 1, np.int64)
    for j in range(first, last):
        clause = clauses[j]
        slot = slots[clause]
        row = row_of_slot[slot]
        if walked[j] >= 0:
            end = _walk(clause, walked[j], index, piece, start, out_offsets, place)
            if row >= 0:
                for k in range(place, end):
                    _set_bit(rows, row, np.int64(out_offsets[k]))
                continue
            out_slots[place:end] = slot
            place = end
            continue
        interval, factors = factor_ptr[clause_ptr[clause]], clause_ptr[clause + 1] - clause_ptr[clause]
        plain = 0 < factors <= 2 * _FEW and factor_ptr[clause_ptr[clause + 1]] - interval == factors
        if plain and row >= 0:
            _write_few(interval, factors, iv_lo, iv_hi, ranks, flat, shift, words, rows, all_bits, even, row, word_0)
            continue
        if plain:
            matches = _select_few(interval, factors, iv_lo, iv_hi, ranks, flat, bits)
        else:
            bits[:] = _ALL
            bits[0] &= _ALL << np.uint64(shift)
            if (shift + n) & 63:
                bits[words - 1] &= ~(_ALL << np.uint64((shift + n) & 63))
            matches = _and_factors(clause, clause_ptr, factor_ptr, iv_lo, iv_hi, ranks, prefix, bits, either)
        if row >= 0:
            _or_bits(bits, rows, row, word_0)
        elif matches > cap:
            needs[first + needed] = j
            needed += 1
        elif matches:
            end = place + matches
            out_slots[place:end] = slot
            _list_bits(bits, filled, word_0, out_offsets, place)
            place = end
    all_written()
    return place - room[first], needed


@njit(cache=True, nogil=True)
def prepare_and_emit(
    base, uses, cursor, first, last, work, slots, index, piece, prefix, start, cap, target, out
):  # fmt: skip
    """`sort_tuples` and `prefix_bitmaps`, then `emit`: see there. One call, as `count_and_plan` is."""
    codes, counts, ranks, starts, order = PieceArrays(*piece)
    use_order, use_prefix = AttributeUses(*uses)
    sort_tuples(codes, base, counts, use_order, cursor, order)
    prefix_bitmaps(codes, ranks, starts, use_prefix, start & 63, prefix)
    return emit(first, last, work, slots, index, piece, prefix, start, cap, target, out)
