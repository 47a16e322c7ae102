"""Arguments for the kernels of joined rows: sides of several chunks with and without NULLs, rooms of one pair."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from psoup.kernels.join.arrays import BatchPlaces, PairQuestion
from psoup.kernels.join.pair_columns import FLOAT
from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.kernels.plain.join import band_probe as plain_banded
from psoup.kernels.plain.join import code_columns as plain_coded
from psoup.kernels.plain.join import hash_buckets as plain_buckets
from psoup.kernels.plain.join import pair_columns as plain_joined
from psoup.kernels.plain.join import small_pairs as plain_paired
from psoup.kernels.plain.rows import batch_body as plain
from psoup.kernels.plain.search import result_rows as plain_located
from psoup.kernels.rows.batch_body import DECIMAL, NARROW, NUMBER, PARTS, TEXT, WIDE
from psoup_testing.kernel_cases import batch_body, multiway
from psoup_testing.kernel_cases import range_pairs as pairing
from psoup_testing.kernel_cases import result_rows as locating

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_KEPT: list[Any] = []
_NULL = np.zeros(4, np.int64)
"""Arrays that kernels are given by address. `_NULL`: the values and the validity of the null row."""


def _side(rng: Rng) -> tuple[Any, ...]:
    """columns, kinds, sources, stride, rows, stops of some columns without texts."""
    columns, kinds, sources, stride, rows, stops = batch_body.gathered(rng)
    some = kinds != TEXT
    if not some.any():
        return _side(rng)
    return columns[some], kinds[some], sources, stride, rows.astype(np.int32), stops


def gather_keys(rng: Rng) -> Arguments:
    """Integers, days, tuple IDs, and numbers of which some are infinite, not a number or a negative zero."""
    _, _, *where = _side(rng)
    kind, column = [(WIDE, 0), (NARROW, 1), (WIDE, 3), (NUMBER, -1), (WIDE, -2), (FLOAT, 0)][int(rng.integers(0, 6))]
    if kind == FLOAT:
        size = len(where[2])
        values = rng.choice([0.0, -0.0, 1.5, -1.5, np.nan, -np.nan, np.inf, -np.inf], size)
        _KEPT.append(values)
        sources = np.array([values.__array_interface__["data"][0], *[0] * (3 * PARTS - 1)], np.int64)
        where = [sources, len(sources), np.arange(size, dtype=np.int32), np.array([size])]
    count = len(where[2])
    return kind, column, *where, np.zeros(count, np.int64), np.zeros(count, np.int32)


def probe_buckets(rng: Rng) -> Arguments:
    """All driving rows or some; keys that are there, and others; from the beginning, or from inside a row."""
    filled = pairing.fill_buckets(rng)
    exact = filled[3] == 1 and filled[4] == 0
    wanted = np.zeros(0 if exact else len(filled[1]), np.int64)
    filled = (*filled[:7], wanted)
    plain_buckets.fill_buckets(*filled)
    keys = np.concatenate([filled[0], filled[0], np.array([-(2**63), 2**63 - 1, -4, 12])])
    rows = np.sort(rng.permutation(len(keys))[: int(rng.integers(1, 70))]).astype(np.int32)
    rows = rows if rng.random() < 0.5 else rows[:0]
    count = len(rows) or len(keys)
    ask = (keys, rows, *filled[2:6], filled[7], filled[6])
    at, inside, room = int(rng.integers(0, count + 1)), 0, int(rng.choice([1, 7, 400]))
    if at < count and rng.random() < 0.5:
        arrays = np.zeros(2, np.int32), np.zeros(2, np.int32)
        at, inside, *_ = plain_joined.probe_buckets(*ask, at, 0, 10, *arrays)
    limit = int(rng.choice([1, 30, 10_000]))
    return *ask, at, inside, limit, np.zeros(room, np.int32), np.zeros(room, np.int32)


def probe_banded(rng: Rng) -> Arguments:
    """As `probe_buckets`, with bounds as in `probe_ranges`; places of a bucket ascend."""
    keys, rows, *buckets, _, _, limit, left, right = probe_buckets(rng)
    starts, places = buckets[3], len(buckets[5])
    ordered = rng.integers(0, 20, places)
    for begin, end in itertools.pairwise(starts[:-1].tolist()):
        ordered[begin:end].sort()
    *_, lower, low, upper, high = probe_ranges(rng)[:8]
    bounds = lower, low // 3, upper, high // 3
    ask = keys, rows, tuple(buckets), rng.integers(0, 20, len(keys)), ordered, bounds
    at, inside = int(rng.integers(0, len(rows) or len(keys))), 0
    if rng.random() < 0.5:
        arrays = np.zeros(2, np.int32), np.zeros(2, np.int32)
        at, inside, *_ = plain_banded.probe_banded(*ask, at, 0, 10, *arrays)
    return *ask, at, inside, limit, left, right


def probe_ranges(rng: Rng) -> Arguments:
    """Driving keys that ascend, or in any order. Bounds on both sides, on one or on none; also empty intervals."""
    keys, ordered = rng.integers(0, 99, 40), np.sort(rng.integers(0, 99, int(rng.integers(1, 60))))
    keys = np.sort(keys) if rng.random() < 0.5 else keys
    rows = np.sort(rng.permutation(40)[: int(rng.integers(1, 40))]).astype(np.int32)
    rows = rows if rng.random() < 0.5 else rows[:0]
    places = np.sort(rng.permutation(200)[: len(ordered)]).astype(np.int32)
    lower, upper = bool(rng.random() < 0.8), bool(rng.random() < 0.8)
    low, high = (int(bound) for bound in np.sort(rng.integers(-30, 30, 2)))
    low, high = (high, low) if rng.random() < 0.1 else (low, high)
    ask = (keys, rows, ordered, places, lower, low, upper, high)
    count, inside, room = len(rows) or 40, 0, int(rng.choice([1, 7, 5_000]))
    at = int(rng.integers(0, count + 1))
    if at < count and rng.random() < 0.5:
        at, inside, *_ = plain_joined.probe_ranges(*ask, at, 0, 10, np.zeros(2, np.int32), np.zeros(2, np.int32))
    limit = int(rng.choice([1, 30, 10_000]))
    return *ask, at, inside, limit, np.zeros(room, np.int32), np.zeros(room, np.int32)


def gather_whole(rng: Rng) -> Arguments:
    """With validity, or without where no chunk has it."""
    columns, kinds, sources, stride, rows, stops = _side(rng)
    nullable = np.zeros(len(kinds), np.uint8)
    plain.has_nulls(columns, sources, stride, len(stops), nullable)
    valid = np.zeros((len(kinds), len(rows) if nullable.any() else 0), np.uint8)
    return kinds, columns, sources, stride, rows, stops, np.zeros((len(kinds), len(rows)), np.int64), valid


def gather_at(rng: Rng) -> Arguments:
    """Positions in any order, repeated; from chunks, or from columns that were put together."""
    columns, kinds, sources, stride, rows, stops = _side(rng)
    nullable, count = np.zeros(len(kinds), np.uint8), int(rng.integers(1, 60))
    plain.has_nulls(columns, sources, stride, len(stops), nullable)
    positions = rng.integers(0, len(rows), count).astype(rng.choice(["int32", "int64"]))
    places, buffers = np.zeros((len(kinds), 3), np.int64), np.zeros((2 * len(kinds), 2), np.int64)
    size = plain.lay_out(kinds, nullable, np.zeros(len(kinds), np.int64), count, places, buffers)
    if rng.random() < 0.5:
        values, valid = np.zeros((len(kinds), len(rows)), np.int64), np.zeros((len(kinds), len(rows)), np.uint8)
        plain_joined.gather_whole(kinds, columns, sources, stride, rows, stops, values, valid)
        _KEPT.extend([values, valid])
        sources = np.zeros((len(kinds), PARTS), np.int64)
        for w in range(len(kinds)):
            sources[w, 0] = values[w].__array_interface__["data"][0]
            sources[w, 1] = valid[w].__array_interface__["data"][0] if nullable[w] else 0
        kinds, columns, sources = np.where(kinds == NUMBER, WIDE, kinds), np.arange(len(kinds)), sources.reshape(-1)
        stride, stops, rows = len(sources), np.array([len(rows)]), rows[:0]
    which = np.arange(len(kinds))
    ask = (which, kinds, columns, sources, stride, rows, stops, positions, places)
    return *ask, np.zeros(size, np.uint8), np.full(len(kinds), 7, np.int64)


def choose_buckets(rng: Rng) -> Arguments:
    """Keys that lie close together, just not so, and as far apart as keys can."""
    count = int(rng.choice([1, 15, 16, 1_000, 9_000, 70_000]))
    span = max(2 * count, min(16 * count, 131_072))
    low = int(rng.choice([-(2**63), -7, 2**63 - 2 - span]))
    apart = int(rng.choice([0, 1, span, span + 1]))
    return (-(2**63), 2**63 - 1, count) if rng.random() < 0.1 else (low, low + apart, count)


def pair_small(rng: Rng) -> Arguments:
    """Keys of few values, with and without NULLs; at times with room for one pair where there are more."""
    (columns, kinds, *first), (_, _, *other) = _side(rng), _side(rng)
    wide = [int(column) for column, kind in zip(columns, kinds, strict=True) if kind == WIDE]
    extent = (wide[0], wide[-1]) if wide else (-2, -2)
    ask = (WIDE, WIDE), extent, *first, *other, 10_000
    room = np.zeros(len(first[2]) * len(other[2]), np.int32)
    if plain_paired.pair_small(*ask, room, np.zeros_like(room)) > 1 and rng.random() < 0.2:
        return *ask, np.zeros(1, np.int32), np.zeros(1, np.int32)
    return *ask, np.zeros_like(room), np.zeros_like(room)


def pair_keys(rng: Rng) -> Arguments:
    """Keys near one another, and far apart; none takes part, some or all; room for all pairs, or too little."""
    sizes = rng.integers(1, 80, 2).tolist()
    apart, base = int(rng.choice([3, 60, 10**15])), int(rng.choice([0, -(2**63), 2**63 - 60 * 10**15]))
    values = base + apart * rng.integers(0, 60, 60)
    keys, other = (rng.choice(values, size) for size in sizes)
    driving, others = (
        np.sort(rng.permutation(size)[: int(rng.choice([0, 1, size // 2, size, size]))]).astype(np.int32)
        for size in sizes
    )
    bounds = int(other.min()), int(other.max())
    pairs = int((keys[driving][:, None] == other[others]).sum())
    room = int(rng.choice([pairs, pairs + 1, pairs + 2, 7_000, max(pairs - 1, 0)]))
    return keys, driving, other, others, *bounds, 10_000, np.zeros(room, np.int32), np.zeros(room, np.int32)


_COLUMNS = ((WIDE, 0), (NUMBER, -2), (DECIMAL, 0), (WIDE, 1))
"""Kinds of columns that a located side may be asked for, and their places."""


def _located(rng: Rng, ascending: bool) -> tuple[Any, ...]:
    """A side by what was located in its chunks, with a column of keys and another, which may have NULLs."""
    located, chunks, slot, rows = locating.write_rows(rng)
    if not len(rows):
        return _located(rng, ascending)
    return located, chunks, slot, len(rows), *_columns(rng, chunks, ascending)


def _columns(rng: Rng, chunks: Any, ascending: bool) -> tuple[Any, int]:
    """The sources and the stride of two columns of some chunks."""
    keys = rng.integers(0, int(rng.choice([50, 10**6])), len(chunks) * locating.ROWS)
    keys = np.sort(keys) if ascending else keys
    sources = np.zeros((len(chunks), 4, PARTS), np.int64)
    columns = keys, rng.integers(-(2**63), 2**63 - 1, len(keys))
    for part in range(len(chunks)):
        for place, column in enumerate(columns):
            values = column.reshape(len(chunks), -1)[part]
            valid = (rng.random(len(values)) < 0.8).astype(np.uint8)
            _KEPT.extend([values, valid])
            sources[part, place, 0] = values.__array_interface__["data"][0]
            sources[part, place, 1] = valid.__array_interface__["data"][0] if rng.random() < 0.2 else 0
    return sources.reshape(-1), 4 * PARTS


def _asked(rng: Rng, ascending: bool) -> tuple[Any, ...]:
    """A side as `answer_located` asks, at times located before; it may have no row, or chunks that were not met."""
    *ask, located = locating.locate(rng)
    size = plain_located.locate(*ask, located) if rng.random() < 0.3 else -1
    return *ask, size, located, *_columns(rng, ask[0], ascending)


def answer_located(rng: Rng) -> Arguments:
    """Equalities and bands, of keys that ascend and others; at times they leave what fits; a column twice or never."""
    bounds = [int(rng.random() < 0.8), -3, int(rng.random() < 0.8), int(rng.integers(-4, 9))]
    sides = [_asked(rng, bool(rng.random() < 0.9)) for _ in range(2)]
    fitting = [-(2**63), int(rng.choice([40, 2**63 - 1, 2**63 - 1])), -(2**63), 2**63 - 1]
    asked = PairQuestion(WIDE, WIDE, 0, 0, int(rng.random() < 0.5), *bounds, *fitting)
    shown = np.array(
        [(side % 2, *_COLUMNS[int(rng.integers(0, len(_COLUMNS)))]) for side in range(int(rng.integers(1, 5)))]
    )
    room, columns = int(rng.choice([10, 2**20, 2**20])), len(shown)
    header, batch = np.arange(100, 104 + 6 * columns), BatchPlaces(0, 1, 2, 2 + 2 * columns, 2 * columns, 0)
    header.flags.writeable = False
    small, looked = int(rng.choice([20, 2**20, 2**20])), 2**20
    limits = small, looked, int(rng.choice([2, 2**20])), int(rng.choice([64, 2**20]))
    left, right = np.zeros(room, np.int32), np.zeros(room, np.int32)
    question = tuple(asked), shown, header, tuple(batch), limits
    return *sides, *question, left, right, np.full((columns, 3), 7, np.int64)


def answer_outer(rng: Rng) -> Arguments:
    """As `answer_located`, with a null row behind the chunks of the right side."""
    left_side, right_side, *wanted = answer_located(rng)
    *located, sources, stride = right_side
    null = np.array([[_NULL.ctypes.data, _NULL.ctypes.data, 0]] * (stride // PARTS), np.int64)
    null[-2:, 0] = 0  # the tuple ID is not read from an array
    return left_side, (*located, np.concatenate([sources, null.reshape(-1)]), stride), *wanted


def read_side(rng: Rng) -> Arguments:
    """With a chain and without; at times a key may be NULL, or there are more keys than places."""
    located, chunks, slot, size, sources, stride = _located(rng, False)
    heads, following = np.full(int(rng.choice([0, 50, 51, 60])), 7, np.int32), np.full(size + 1, 7, np.int32)
    rows, keys = np.zeros(size, np.int32), np.zeros(size, np.int64)
    return located, chunks, slot, sources, stride, WIDE, 0, rows, keys, heads, following if len(heads) else heads


def meet_chained(rng: Rng) -> Arguments:
    """Keys that the other side has, and others; some of the rows; at times with room for one pair less."""
    keys, other = rng.integers(-3, 60, int(rng.integers(1, 80))), rng.integers(0, 40, int(rng.integers(1, 80)))
    heads, following = np.zeros(40, np.int32), np.zeros(len(other) + 1, np.int32)
    for row in range(len(other) - 1, -1, -1):
        following[row + 1], heads[other[row]] = heads[other[row]], row + 1
    start, stop = sorted(rng.integers(0, len(keys) + 1, 2).tolist())
    pairs = int((keys[start:stop, None] == other).sum())
    room = int(rng.choice([max(pairs - 1, 0), pairs, pairs + 3]))
    return keys, start, stop, 0, heads, following, np.zeros(room, np.int32), np.zeros(room, np.int32)


def gather_pairs(rng: Rng) -> Arguments:
    """Columns of both sides, the keys among them, at positions of rows."""
    parts, (shown, sources, strides) = _shown(rng)
    columns = np.empty((sum(len(which) for which, *_ in shown), 3), np.int64)
    for side, (which, *side_columns) in enumerate(shown):
        columns[which] = np.stack([np.full(len(which), side), *side_columns], axis=1)
    nullable, places = np.zeros(len(columns), np.uint8), np.zeros((len(columns), 3), np.int64)
    plain_coded.may_be_null(shown, sources, strides, nullable)
    positions = [rng.integers(0, len(codes), 30).astype(np.int32) for codes in parts]
    keys_shown, sides = list[tuple[int, int]](), list[Any]()
    for side, (part, table, stride) in enumerate(zip(parts, sources, strides, strict=True)):
        wide = [row for row in columns.tolist() if row[:2] == [side, WIDE]]
        _, kind, column = wide[0] if wide else (side, WIDE, -2)
        keys_shown.append((kind, column))
        keys = np.zeros(len(part), np.int64)
        where, numbers = np.array([[0, 0, 0]]), np.zeros(1, np.int64)
        plain_coded.gather_coded(
            _only(side, kind, column), sources, strides, *parts, where, keys.view(np.uint8), numbers
        )
        sides.append((table, stride, part, keys))
    (kind, column), (other_kind, other_column) = keys_shown
    question = (kind, other_kind, column, other_column, *[-9] * 9)
    buffers, texts = np.zeros((2 * len(columns), 2), np.int64), np.zeros(len(columns), np.int64)
    size = plain.lay_out(columns[:, 1], nullable, texts, 30, places, buffers)
    return question, columns, *sides, *positions, places, np.zeros(size, np.uint8), np.full(len(columns), 7, np.int64)


def _only(side: int, kind: int, column: int) -> Any:
    """A single column of a side, in the form of `gather_coded`."""
    none: Any = tuple(np.zeros(0, np.int64) for _ in range(3))
    single = np.array([0]), np.array([kind]), np.array([column])
    return (none, single) if side else (single, none)


def _shown(rng: Rng) -> tuple[list[Any], Arguments]:
    """Columns of both sides, in turns in the batch, and the codes of some tuples."""
    sides = [_side(rng) for _ in range(2)]
    counts = [len(columns) for columns, *_ in sides]
    order = rng.permutation(sum(counts))
    which = order[: counts[0]], order[counts[0] :]
    shown = tuple((side_, kinds, columns) for side_, (columns, kinds, *_) in zip(which, sides, strict=True))
    rows, codes = int(rng.integers(1, 60)), []
    for _, _, _, _, offsets, stops in sides:
        parts = np.searchsorted(stops, np.arange(len(offsets)), "right")
        codes.append(rng.choice((parts << CODE_SHIFT) + offsets, rows).astype(np.int32))
    return codes, (shown, tuple(side_[2] for side_ in sides), tuple(side_[3] for side_ in sides))


def may_be_null(rng: Rng) -> Arguments:
    _, ask = _shown(rng)
    return *ask, np.full(sum(len(which) for which, *_ in ask[0]), 7, np.uint8)


def gather_coded(rng: Rng) -> Arguments:
    codes, ask = _shown(rng)
    kinds = np.empty(sum(len(which) for which, *_ in ask[0]), np.int64)
    for which, own, _ in ask[0]:
        kinds[which] = own
    nullable, places = np.zeros(len(kinds), np.uint8), np.zeros((len(kinds), 3), np.int64)
    plain_coded.may_be_null(*ask, nullable)
    buffers, texts = np.zeros((2 * len(kinds), 2), np.int64), np.zeros(len(kinds), np.int64)
    size = plain.lay_out(kinds, nullable, texts, len(codes[0]), places, buffers)
    return *ask, *codes, places, np.zeros(size, np.uint8), np.full(len(kinds), 7, np.int64)


SHOWING = {
    "join.small_pairs.choose_buckets": choose_buckets,
    "join.small_pairs.pair_keys": pair_keys,
    "join.small_pairs.pair_small": pair_small,
    "join.small_join.answer_located": answer_located,
    "join.small_outer.answer_outer": answer_outer,
    "join.parallel_pairs.read_side": read_side,
    "join.small_pairs.meet_chained": meet_chained,
    "join.parallel_pairs.gather_pairs": gather_pairs,
    "join.code_columns.may_be_null": may_be_null,
    "join.code_columns.gather_coded": gather_coded,
    "join.pair_columns.gather_keys": gather_keys,
    "join.pair_columns.probe_buckets": probe_buckets,
    "join.pair_columns.probe_ranges": probe_ranges,
    "join.band_probe.probe_banded": probe_banded,
    "join.pair_columns.gather_whole": gather_whole,
    "join.pair_columns.gather_at": gather_at,
    **multiway.CASES,
}
"""Part of `psoup_testing.kernel_cases.all_cases.CASES`."""
