"""Arguments for every kernel, at random: `CASES[name](rng)` is a case of the kernel "module.name".

sizes small, keys with ties and extremes, lists that are empty, slots without an owner
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from psoup.clauses.index.bounds import int_bounds
from psoup.kernels.compile.lanes import LANES
from psoup.kernels.plain.arrive import codes as plain_codes
from psoup.kernels.plain.arrive import posting_lists as plain_postings
from psoup.kernels.plain.arrive.index_probe import plan as plain_plan
from psoup.kernels.plain.arrive.prefix_bitmaps import prefix_bitmaps as plain_prefix
from psoup.values.columns import new_array
from psoup_testing.kernel_cases import arithmetic as numbers
from psoup_testing.kernel_cases import (
    automaton,
    batch_body,
    clause_names,
    deltas,
    frame_extremes,
    group_states,
    key_index,
    match_pairs,
    pair_filter,
    parquet_deltas,
    pieces,
    postgres,
    range_pairs,
    segments,
    slot_runs,
    version_spans,
    versions,
)
from psoup_testing.kernel_cases.result_rows import LOCATING
from psoup_testing.kernel_cases.small_pairs import SHOWING

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _words(rng: Rng, *shape: int) -> Any:
    density = rng.choice([0.02, 0.5, 1.0])
    bits = rng.random((*shape[:-1], shape[-1] * 64)) < density
    return np.packbits(bits, axis=-1, bitorder="little").view(np.uint64)


def _mask_to_bits(rng: Rng) -> Arguments:
    return rng.integers(0, 2, int(rng.integers(0, 150))).astype(np.uint8), int(rng.integers(0, 100)), _words(rng, 4)


def _span(rng: Rng, bits: int) -> tuple[int, int]:
    low, high = sorted(rng.integers(0, bits + 1, 2).tolist())
    return (0, bits) if rng.random() < 0.2 else (low, high)


def _offset_range(rng: Rng) -> Arguments:
    offsets, (low, high) = np.sort(rng.permutation(70)[:40]).astype(np.uint16), _span(rng, 40)
    return offsets, low, high, *_span(rng, 65_536 if rng.random() < 0.3 else 80)


def _blocks(rng: Rng, rows: int, words: int) -> Any:
    """Rows of so many words, in one block or several."""
    size = int(rng.choice([size for size in (1, 2, words) if words % size == 0]))
    return _words(rng, words // size, rows, size)


def _before(rng: Rng, start: int, stop: int) -> Any:
    """70 rows of bits for `stop` tuples, set before `start` alone. They begin with a line of cache, or do not."""
    size = int(rng.choice([1, 2, 8, 16]))
    blocks = stop // (64 * size) + 1
    memory = new_array(blocks * 70 * size + 1, np.uint64)[int(rng.integers(0, 2)) :][: blocks * 70 * size]
    rows = memory.reshape(blocks, 70, size)
    bits = np.arange(blocks * size * 64) < start
    words = np.packbits(bits, bitorder="little").view(np.uint64).reshape(blocks, 1, size)
    rows[:] = rng.integers(0, 2**63, rows.shape).astype(np.uint64) & words
    return rows


def _rows_to_offsets(rng: Rng) -> Arguments:
    rows, which = _blocks(rng, 5, 6), rng.permutation(5)[:3].astype(np.int64)
    sizes = np.bitwise_count(rows[:, which]).sum(axis=(0, 2), dtype=np.int64)
    return rows, which, np.cumsum(sizes) - sizes, np.zeros(sizes.sum(), np.uint16)


def _gather_rows(rng: Rng) -> Arguments:
    return _blocks(rng, 5, 6), rng.permutation(5)[:3].astype(np.int64), np.ones((3, 6), np.uint64)


def _ints(rng: Rng) -> Arguments:
    bounds = np.unique(rng.integers(-20, 20, int(rng.integers(0, 12)))) * int(rng.choice([1, 10**12])) + int(
        rng.choice([0, 0, 10**18])
    )
    if rng.random() < 0.3:
        bounds = np.concatenate([[np.int64(-(2**63))], bounds, [np.int64(2**63 - 1)]])
    extremes = [-(2**63), 2**63 - 1, 0, -1]
    ties = rng.choice(bounds, 20) if len(bounds) else bounds
    keys = np.concatenate([rng.integers(-25, 25, 40), ties, np.array(extremes, np.int64)])
    numbers = int_bounds(bounds)
    return keys, bounds, numbers.table, numbers.shift, int(rng.integers(0, 9)), np.zeros(len(keys), np.int32)


def _coded(rng: Rng) -> tuple[Any, Any]:
    """Codes of three attributes with 1, 5 and 30 boundaries, and their bases."""
    sizes, rows = [1, 5, 30], int(rng.integers(1, rng.choice([150, 1500])))
    base = np.cumsum([0, *(s + 4 for s in sizes)]).astype(np.int64)
    codes = np.stack([base[a] + rng.integers(0, s + 3, rows) for a, s in enumerate(sizes)]).astype(np.int32)
    return codes, base


def _count_codes(rng: Rng) -> Arguments:
    codes, base = _coded(rng)
    return codes, base, np.zeros(base[-1], np.int32), np.zeros(base[-1], np.int32), np.zeros(4, np.int64)


def _counted(rng: Rng) -> Arguments:
    arguments = _count_codes(rng)
    plain_codes.count_codes(*arguments)
    return arguments


def _sort_tuples(rng: Rng) -> Arguments:
    codes, base, counts, _, _ = _counted(rng)
    use = rng.integers(0, 2, 3).astype(np.uint8)
    return codes, base, counts, use, np.full(len(counts), -7, np.int32), np.zeros(codes.shape, np.int32)


def _prefix_bitmaps(rng: Rng) -> Arguments:
    codes, _, _, ranks, starts = _counted(rng)
    shift = int(rng.integers(0, 64))
    prefix = np.zeros((starts[-1], (shift + codes.shape[1] + 63) >> 6), np.uint64)
    return codes, ranks, starts, rng.integers(0, 2, 3).astype(np.uint8), shift, prefix


def _clauses(rng: Rng, base: Any) -> tuple[Any, ...]:
    """clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr of some clauses; terms of a factor have different attributes."""
    clause_ptr, factor_ptr, low, high, attr = [0], [0], [], [], []
    for _ in range(30):
        for _ in range(rng.choice([0, 1, 1, 2, 3, 4, 5, 8, 9])):
            for a in sorted(rng.permutation(3)[: rng.choice([0, 1, 1, 1, 1, 2])].tolist()):
                edges = base[a] + np.sort(rng.permutation(base[a + 1] - base[a] - 1)[: 2 * rng.choice([1, 1, 2])])
                low.extend(edges[0:-1:2])
                high.extend(edges[1::2])
                attr.extend([a] * (len(edges) // 2))
            factor_ptr.append(len(low))
        clause_ptr.append(len(factor_ptr) - 1)
    return tuple(np.array(column, np.int32) for column in (clause_ptr, factor_ptr, low, high, attr))


def _plan(rng: Rng) -> Arguments:
    codes, base, counts, _, _ = _counted(rng)
    index = _clauses(rng, base)
    candidates = np.sort(rng.permutation(30)[:25]).astype(np.int32)
    alive = (rng.random(30) < 0.8).astype(np.uint8)
    n, limit = codes.shape[1], int(rng.choice([0, 5, 1000]))
    out = [np.zeros(25, np.int32), np.zeros(25, np.int32), np.zeros(26, np.int64)]
    return (
        candidates,
        alive,
        index,
        counts,
        n,
        int(rng.choice([0, 5, 1000])),
        limit,
        tuple(out),
        (np.zeros(3, np.uint8), np.zeros(3, np.uint8)),
    )


def _count_and_plan(rng: Rng) -> Arguments:
    codes, base, counts, ranks, starts = _count_codes(rng)
    candidates, alive, *_ = _plan(rng)
    rest = _plan(rng)[5:]
    return base, codes, ranks, starts, candidates, alive, _clauses(rng, base), counts, codes.shape[1], *rest


def _prepare_and_emit(rng: Rng) -> Arguments:
    base, arguments = _emitted(rng)
    order, prefix, every = arguments[5][4], arguments[6], np.ones(3, np.uint8)
    order[:], prefix[:] = 0, 0
    return base, (every, every), np.zeros(base[-1], np.int32), *arguments


def _emit(rng: Rng) -> Arguments:
    return _emitted(rng)[1]


def _emitted(rng: Rng) -> tuple[Any, Arguments]:
    """`base` of the codes, and the arguments of `emit`."""
    codes, base, counts, ranks, starts = _counted(rng)
    n, start, every = codes.shape[1], int(rng.integers(0, 100)), np.ones(3, np.uint8)
    order = np.zeros(codes.shape, np.int32)
    plain_codes.sort_tuples(codes, base, counts, every, np.zeros(len(counts), np.int32), order)
    prefix = np.zeros((starts[-1], ((start & 63) + n + 63) >> 6), np.uint64)
    plain_prefix(codes, ranks, starts, every, start & 63, prefix)
    index = _clauses(rng, base)
    work, walked, room = np.zeros(30, np.int32), np.zeros(30, np.int32), np.zeros(31, np.int64)
    limit = int(rng.choice([0, 5, 1000]))
    alive, flags = np.ones(30, np.uint8), (np.zeros(3, np.uint8), np.zeros(3, np.uint8))
    size = plain_plan(np.arange(30), alive, index, counts, n, limit, limit, (work, walked, room), flags)
    row_of_slot = np.where(rng.random(70) < 0.5, rng.permutation(70), -1).astype(np.int32)
    slots = np.sort(rng.permutation(70)[:30]).astype(np.uint32)
    out = np.zeros(room[size], np.uint32), np.zeros(room[size], np.uint16), np.zeros(30, np.int32)
    first = int(rng.integers(0, size + 1))
    piece, target = (codes, counts, ranks, starts, order), (row_of_slot, _before(rng, start, start + n))
    planned = (work, walked, room)
    return base, (first, size, planned, slots, index, piece, prefix, start, min(limit, 3), target, out)


def _listed(rng: Rng) -> tuple[Any, ...]:
    """Codes, base, clauses, and lists of their intervals: grids over attributes 1 and 2, two kinds of 2 and 0 tests."""
    codes, base, _, _, _ = _counted(rng)
    grid_attr, grid_shift = np.array([1, 2, 2], np.int32), np.array([0, 0, 2], np.int32)
    ends = np.cumsum(((np.diff(base)[grid_attr] - 1) >> grid_shift) + 1)
    grid_first = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    cell_ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 3, ends[-1]))]).astype(np.int32)
    sizes, group_kind = (
        rng.integers(1, rng.choice([9, 50]), cell_ptr[-1]),
        rng.integers(0, 2, cell_ptr[-1]).astype(np.int32),
    )
    group_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    group_test = np.concatenate([[0], np.cumsum(np.where(group_kind == 0, 4 * sizes, 0))]).astype(np.int64)
    kind_ptr, kind_attr = np.array([0, 2, 2], np.int32), np.array([0, 2], np.int32)
    flags = rng.integers(0, 4, 2).astype(np.uint8)
    entries = rng.integers(0, 30, group_ptr[-1] + LANES).astype(np.int32)
    tests = rng.integers(0, 30, group_test[-1] + LANES).astype(rng.choice(["uint16", "int32"]))
    grids, groups = (grid_attr, grid_shift, grid_first), (cell_ptr, group_ptr, group_kind)
    return codes, base, grids, groups, (group_test, kind_ptr, kind_attr), flags, entries, tests


def _reach(rng: Rng) -> Arguments:
    codes, base, grids, groups, _, flags, entries, _ = _listed(rng)
    size = 3 * codes.shape[1]
    seen, candidates = np.zeros(len(groups[0]), np.int32), np.zeros(len(entries), np.int32)
    out = candidates, np.zeros(size, np.int32), np.zeros(size, np.int32)
    return codes, base, grids, (*groups, flags, entries), int(rng.choice([0, 3, 1000])), seen, *out


def _match_lists(rng: Rng) -> Arguments:
    state = rng.bit_generator.state
    arguments = _reach(rng)
    _, matches, tested = plain_postings.reach(*arguments)
    rng.bit_generator.state = state
    codes, base, _, groups, more, flags, entries, tests = _listed(rng)
    order = rng.permutation(matches) if rng.random() < 0.5 else np.arange(matches)
    tuples, cells, bits = arguments[-2][order], arguments[-1][order], 8
    dtype = rng.choice(["uint32", "uint64"])
    return (
        tuples, cells, (*groups, flags, entries), (*more, tests), base, codes,
        _clauses(rng, base), bits, np.zeros(tested + LANES, dtype),
    )  # fmt: skip


def _keep_factors(rng: Rng) -> Arguments:
    codes, base = _coded(rng)
    clauses = _clauses(rng, base)
    places = rng.integers(-1, len(clauses[0]) - 1, 50)
    return places, rng.integers(0, codes.shape[1], 50), clauses, codes, rng.integers(0, 2, 50).astype(np.uint8)


def _count_some(rng: Rng) -> Arguments:
    codes, base = _coded(rng)
    keys = np.sort(codes.astype(np.uint64) << np.uint64(32) | np.arange(codes.shape[1], dtype=np.uint64), axis=1)
    clauses = np.sort(rng.permutation(30)[: rng.integers(0, 9)]).astype(np.int32)
    index = _clauses(rng, base)
    out = np.zeros(base[-1], np.int32), np.zeros(base[-1], np.int32), np.zeros(4, np.int64)
    return keys, clauses, index, *out, np.zeros(codes.shape, np.int32)


def _set_bits(rng: Rng) -> Arguments:
    return _blocks(rng, 5, 6), rng.integers(0, 5, 20).astype(np.int64), rng.integers(0, 384, 20).astype(np.uint16)


CASES: dict[str, Callable[[Rng], Arguments]] = {
    "rows.bitmaps.mask_to_bits": _mask_to_bits,
    "rows.bitmaps.count_bits": lambda rng: (_words(rng, 4), *_span(rng, 256)),
    "rows.bitmaps.bits_to_offsets": lambda rng: (_words(rng, 4), *_span(rng, 256), np.zeros(256, np.int64)),
    "rows.bitmaps.offsets_to_bits": lambda rng: (rng.integers(0, 192, 20).astype(np.uint16), _words(rng, 3)),
    "rows.bitmaps.offset_range": _offset_range,
    "rows.batch_body.text_bytes": batch_body.text_bytes,
    "rows.batch_body.has_nulls": batch_body.has_nulls,
    "rows.batch_body.gather_bits": batch_body.gather_bits,
    "rows.batch_body.gather": batch_body.gather,
    "rows.batch_body.lay_out": batch_body.lay_out,
    "rows.batch_body.take_texts": batch_body.take_texts,
    "rows.radix_sort.digit_pass": slot_runs.digit_pass,
    "rows.radix_sort.count_digits": slot_runs.count_digits,
    "rows.radix_sort.move_rows": slot_runs.move_rows,
    "rows.radix_sort.mark_changes": lambda rng: (
        rng.integers(0, 3, 40), rng.permutation(40).astype(np.uint32), rng.integers(0, 2, 40).astype(np.uint8),
    ),
    "rows.increasing_subsequence.longest_rising": slot_runs.longest_rising,
    "names.clause_names.mix_words": clause_names.mix_words,
    "names.clause_names.mix_texts": clause_names.mix_texts,
    "names.clause_names.look_up": clause_names.look_up,
    "names.clause_names.fill_table": clause_names.fill_table,
    "names.clause_names.take_out": clause_names.take_out,
    "names.newest_versions.put_newest": versions.put_newest,
    "names.newest_versions.find_newest": versions.find_newest,
    "names.newest_versions.leave_newest": versions.leave_newest,
    "names.newest_versions.move_newest": versions.move_newest,
    "names.version_links.link_versions": versions.link_versions,
    "search.open_versions.open_rows": versions.open_rows,
    "search.open_versions.latest_rows": versions.latest_rows,
    "search.open_versions.ever_open_rows": versions.ever_open_rows,
    "names.tag_runs.find_names": clause_names.find_names,
    "names.tag_runs.merge_names": clause_names.merge_names,
    "rows.bit_blocks.set_bits": _set_bits,
    "rows.bit_blocks.count_rows": lambda rng: (_blocks(rng, 5, 6), np.ones(int(rng.integers(0, 6)), np.int64)),
    "rows.bit_blocks.gather_rows": _gather_rows,
    "rows.bit_blocks.rows_to_offsets": _rows_to_offsets,
    "texts.pieces.reverse_texts": pieces.reverse_texts,
    "texts.pieces.first_letters": pieces.first_letters,
    "texts.pieces.find_pieces": pieces.find_pieces,
    "texts.pieces.splice_texts": pieces.splice_texts,
    "texts.pieces.padded_sizes": pieces.padded_sizes,
    "texts.pieces.pad_texts": pieces.pad_texts,
    "rows.arithmetic.signs": numbers.signs,
    "rows.arithmetic.thousands": numbers.thousands,
    "rows.arithmetic.span_seconds": numbers.span_seconds,
    "rows.arithmetic.differences": numbers.differences,
    "rows.double_math.power_float64": numbers.powers,
    "rows.double_math.atan2_float64": numbers.powers,
    "rows.double_math.math_float64": lambda rng: (int(rng.integers(0, 17)), numbers.powers(rng)[0], np.zeros(194)),
    "arrive.codes.encode_int64": _ints,
    "arrive.codes.prefix_keys": clause_names.prefix_keys,
    "arrive.codes.encode_text": clause_names.encode_text,
    "arrive.codes.mark_rows": lambda rng: (rng.integers(0, 2, 30).astype(np.uint8), 1, 77, np.zeros(30, np.int32)),
    "arrive.codes.count_codes": _count_codes,
    "arrive.codes.count_some": _count_some,
    "arrive.codes.sort_tuples": _sort_tuples,
    "arrive.prefix_bitmaps.prefix_bitmaps": _prefix_bitmaps,
    "search.row_masks.range_mask": lambda rng: (rng.integers(-5, 5, 40), -2, 3, np.zeros(40, np.uint8)),
    "search.row_masks.allowed_mask": lambda rng: (
        rng.integers(0, 5, 40).astype(np.int32), rng.integers(0, 2, 5).astype(np.uint8), np.zeros(40, np.uint8),
    ),
    **key_index.CASES,
    **parquet_deltas.CASES,
    **pair_filter.CASES,
    "arrive.work_counters.tally_work": lambda rng: (
        rng.permutation(20)[:9].astype(np.int32), rng.integers(-1, 3, 9).astype(np.int32),
        np.cumsum(rng.integers(0, 9, 10)), rng.permutation(30)[:20].astype(np.uint32), 77,
        np.zeros(30, np.int64), np.zeros(30, np.int64),
    ),
    "arrive.work_counters.tally_cells": lambda rng: (rng.integers(-5, 9, 40).astype(np.int32), np.zeros(9, np.int64)),
    "arrive.index_probe.plan": _plan,
    "arrive.index_probe.emit": _emit,
    "arrive.index_probe.count_and_plan": _count_and_plan,
    "arrive.index_probe.prepare_and_emit": _prepare_and_emit,
    "arrive.posting_lists.reach": _reach,
    "arrive.posting_lists.match_lists": _match_lists,
    "texts.automaton.grow_states": automaton.grow_states,
    "texts.automaton.search_texts": automaton.search_texts,
    "texts.patterns.hit_clauses": automaton.hit_clauses,
    "texts.patterns.keep_likes": automaton.keep_likes,
    "texts.patterns.keep_texts": automaton.keep_texts,
    "texts.patterns.keep_factors": _keep_factors,
    "rows.radix_sort.order_keys": slot_runs.order_keys,
    **group_states.CASES,
    "arrive.slot_runs.group_pairs": slot_runs.group_pairs,
    "arrive.slot_runs.group_keys": slot_runs.group_keys,
    "arrive.slot_runs.name_slots": slot_runs.name_slots,
    "arrive.slot_runs.find_pairs": slot_runs.find_pairs,
    "arrive.slot_runs.mark_pairs": slot_runs.mark_pairs,
    "arrive.slot_runs.count_pairs": slot_runs.count_pairs,
    "arrive.slot_runs.put_together": slot_runs.put_together,
    "arrive.slot_runs.busy_slots": slot_runs.busy_slots,
    "arrive.slot_runs.keys_to_rows": slot_runs.keys_to_rows,
    "arrive.slot_runs.split_keys": slot_runs.split_keys,
    "join.hash_buckets.fill_buckets": range_pairs.fill_buckets,
    "join.hash_buckets.find_buckets": range_pairs.find_buckets,
    "join.hash_buckets.mark_keys": range_pairs.mark_keys,
    "join.hash_buckets.keep_marked": range_pairs.keep_marked,
    "fold.frame_extremes.frame_extremes": frame_extremes.frames,
    **SHOWING,
    **LOCATING,
    "join.range_pairs.narrow_ranges": range_pairs.narrow_ranges,
    "join.range_pairs.emit_pairs": range_pairs.emit_pairs,
    "join.range_pairs.keep_pairs": range_pairs.keep_pairs,
    "join.set_pairs.pairs_of_sets": range_pairs.pairs_of_sets,
    "join.version_search.number_keys": version_spans.number_keys,
    "join.version_search.find_numbers": version_spans.find_numbers,
    "join.version_search.meet_versions": version_spans.meet_versions,
    **range_pairs.KEPT,
    "names.tuple_queries.count_offsets": slot_runs.count_offsets,
    "names.tuple_queries.place_by_offset": slot_runs.place_by_offset,
    "names.tuple_queries.count_bits": slot_runs.count_bits,
    "names.tuple_queries.place_bits": slot_runs.place_bits,
    "names.tuple_queries.write_out": slot_runs.write_out,
} | match_pairs.CASES | segments.CASES | postgres.CASES | deltas.CASES  # fmt: skip
