"""Twins of `psoup.kernels.join.pair_columns`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.pair_columns import FLOAT
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.hash_buckets import _hashes
from psoup.kernels.plain.rows.batch_body import _at, _flags, _parts, _values
from psoup.kernels.rows.batch_body import BITS, DECIMAL, NARROW, NUMBER, PARTS, WIDE


def _ordered(values: Array) -> Array:
    clean = values + 0.0
    clean[np.isnan(clean)] = np.nan
    bits = clean.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def gather_keys(
    kind: int, column: int, sources: Array, stride: int, rows: Array, stops: Array, keys: Array, valid_rows: Array
) -> tuple[int, int, int]:
    """See the kernel."""
    raw = kind if kind in (NARROW, NUMBER) else WIDE
    values = np.concatenate([_values(raw, *part) for part in _parts(column, sources, stride, rows, stops)])
    keys[:] = _ordered(values.view(np.float64)) if kind == FLOAT else values
    bounds = int(keys.min()), int(keys.max())
    if not sources.reshape(-1, stride // PARTS, PARTS)[:, column, 1].any():
        return len(rows), *bounds
    valid = np.flatnonzero(_flags(column, 1, sources, stride, rows, stops))
    valid_rows[: len(valid)] = valid
    return len(valid), *bounds


def _places_of(key: Array, base: np.uint64, factor: np.uint64, shift: np.uint64, starts: Array) -> Array:
    """The places of the bucket of a key (int64[1]); none without a bucket."""
    bucket = int(_hashes(key, base, factor, shift)[0])
    return np.arange(starts[bucket], starts[bucket + 1]) if bucket < len(starts) - 2 else np.zeros(0, np.int64)


def probe_buckets(
    keys: Array,
    rows: Array,
    base: np.uint64,
    factor: np.uint64,
    shift: np.uint64,
    starts: Array,
    place_keys: Array,
    place_rows: Array,
    at: int,
    inside: int,
    cap: int,
    left: Array,
    right: Array,
) -> tuple[int, int, int, int]:
    """See the kernel."""
    n = looked = 0
    driving = rows if len(rows) else np.arange(len(keys))
    while at < len(driving) and looked < cap:
        row = driving[at]
        places = _places_of(keys[row : row + 1], base, factor, shift, starts)[inside:]
        taken = places[: len(left) - n]
        if len(taken) < len(places) and n:
            break
        looked, cut = looked + len(taken), len(taken) < len(places)
        inside = inside + len(taken) if cut else 0
        if len(place_keys):
            taken = taken[place_keys[taken] == keys[row]]
        left[n : n + len(taken)], right[n : n + len(taken)] = row, place_rows[taken]
        n += len(taken)
        if cut:
            break
        at += 1
    return at, inside, n, looked


def probe_ranges(
    keys: Array,
    rows: Array,
    ordered: Array,
    place_rows: Array,
    lower: bool,
    low: int,
    upper: bool,
    high: int,
    at: int,
    inside: int,
    cap: int,
    left: Array,
    right: Array,
) -> tuple[int, int, int, int]:
    """See the kernel."""
    n = looked = 0
    driving = rows if len(rows) else np.arange(len(keys))
    while at < len(driving) and looked < cap:
        row = driving[at]
        begin = int(np.searchsorted(ordered, keys[row] + low)) if lower else 0
        end = int(np.searchsorted(ordered, keys[row] + high, "right")) if upper else len(ordered)
        places = np.arange(begin + inside, max(end, begin + inside))
        taken = places[: len(left) - n]
        if len(taken) < len(places) and n:
            break
        left[n : n + len(taken)], right[n : n + len(taken)] = row, place_rows[taken]
        n, looked = n + len(taken), looked + len(taken)
        if len(taken) < len(places):
            inside += len(taken)
            break
        at, inside = at + 1, 0
    return at, inside, n, looked


def gather_whole(
    kinds: Array, columns: Array, sources: Array, stride: int, rows: Array, stops: Array, values: Array, valid: Array
) -> None:
    """See the kernel."""
    for w, (kind, column) in enumerate(zip(kinds.tolist(), columns.tolist(), strict=True)):
        ask = (column, sources, stride, rows, stops)
        if kind == BITS:
            item = _flags(column, 0, *ask[1:]).view(np.uint8)
        else:
            item = np.concatenate([_values(WIDE if kind == DECIMAL else kind, *part) for part in _parts(*ask)])
        values[w].view(item.dtype)[: len(item)] = item
        if valid.shape[1]:
            valid[w] = _flags(column, 1, *ask[1:])


def gather_at(
    which: Array,
    kinds: Array,
    columns: Array,
    sources: Array,
    stride: int,
    rows: Array,
    stops: Array,
    positions: Array,
    places: Array,
    out: Array,
    nulls: Array,
) -> None:
    """See the kernel."""
    table = sources.reshape(-1, stride // PARTS, PARTS)
    parts = np.searchsorted(stops, positions, "right") if len(rows) else np.zeros(len(positions), np.int64)
    offsets = rows[positions] if len(rows) else positions
    bits, pairs = (len(positions) + 7) // 8, list(zip(parts.tolist(), offsets.tolist(), strict=True))
    for i, kind, column in zip(which.tolist(), kinds.tolist(), columns.tolist(), strict=True):

        def flags(field: int, part: Array = table[:, column]) -> Array:
            addresses = [(part[p, field], o) for p, o in pairs]
            return np.array([_at(a, o + 1, np.uint8)[o] != 0 if a else True for a, o in addresses], np.bool_)

        valid, start, _ = places[i]
        nulls[i] = 0
        if valid >= 0:
            out[valid : valid + bits] = np.packbits(flags(1), bitorder="little")
            nulls[i] = int((~flags(1)).sum())
        if kind == BITS:
            out[start : start + bits] = np.packbits(flags(0), bitorder="little")
        elif pairs:
            three = [(*table[p, column][:2], table[p, column, 2] if kind == NUMBER else 0) for p, _ in pairs]
            part = [_values(kind, np.array(t), np.array([o])) for t, (_, o) in zip(three, pairs, strict=True)]
            raw = np.concatenate(part).view(np.uint8)
            out[start : start + len(raw)] = raw
