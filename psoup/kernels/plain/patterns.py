"""Twins of `psoup.kernels.patterns`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from psoup.kernels.plain import Array

_MIX, _MASK = 0x9E37_79B9_7F4A_7C15, (1 << 64) - 1


def _texts(offsets: Array, data: Array) -> list[bytes]:
    return [data[start:stop].tobytes() for start, stop in pairwise(offsets)]


def link_patterns(offsets: Array, data: Array, parent: Array, jump: Array) -> None:
    """See the kernel."""
    texts, depth = _texts(offsets, data), list[int]()
    for p, text in enumerate(texts):
        before = [q for q in range(p) if text.startswith(texts[q])]
        q = parent[p] = jump[p] = max(before, key=lambda own: (len(texts[own]), own), default=-1)
        depth.append(depth[q] + 1 if q >= 0 else 0)
        far = jump[q] if q >= 0 else -1
        if far >= 0 and jump[far] >= 0 and depth[q] - depth[far] == depth[far] - depth[jump[far]]:
            jump[p] = jump[far]


def filter_patterns(offsets: Array, data: Array, keys: Array, starts: Array, flags: Array, bits: Array) -> None:
    """See the kernel."""
    texts = _texts(offsets, data)
    twos = np.array([int.from_bytes(text[:2].ljust(2, b"\0"), "big") for text in texts], np.int64)
    starts[:] = np.searchsorted(twos, np.arange(len(starts)))
    for text, two in zip(texts, twos.tolist(), strict=True):
        flags[two : two + (256 if len(text) == 1 else 1)] |= 1 if len(text) < 4 else 2
        if len(text) >= 4:
            bits[(int.from_bytes(text[:4], "big") * _MIX & _MASK) >> 47] = 1


def search_texts(
    offsets: Array, data: Array, first: int, p_offsets: Array, p_data: Array, p_keys: Array, ends: Array,
    parent: Array, jump: Array, starts: Array, flags: Array, bits: Array, seen: Array, out_tuples: Array,
    out_patterns: Array,
) -> tuple[int, int]:  # fmt: skip
    """See the kernel."""
    texts, patterns, size = _texts(offsets, data), _texts(p_offsets, p_data), 0
    for t in range(first, len(texts)):
        if size > len(out_tuples) - len(patterns):
            return t, size
        for p, pattern in enumerate(patterns):
            if texts[t].endswith(pattern) if ends[p] else pattern in texts[t]:
                out_tuples[size], out_patterns[size], seen[p] = t, p, t + 1
                size += 1
    return len(texts), size


def keep_texts(
    clauses: Array, tuples: Array, offsets: Array, data: Array, pattern_ptr: Array, patterns: Array,
    p_offsets: Array, p_data: Array, ends: Array, keep: Array,
) -> None:  # fmt: skip
    """See the kernel."""
    texts, sought = _texts(offsets, data), _texts(p_offsets, p_data)
    for i, (clause, t) in enumerate(zip(clauses.tolist(), tuples.tolist(), strict=True)):
        own = patterns[pattern_ptr[clause] : pattern_ptr[clause + 1]].tolist()
        keep[i] &= all(texts[t].endswith(sought[p]) if ends[p] else sought[p] in texts[t] for p in own)


def keep_factors(
    clauses: Array, tuples: Array, clause_ptr: Array, factor_ptr: Array, iv_lo: Array, iv_hi: Array, iv_attr: Array,
    codes: Array, keep: Array,
) -> None:  # fmt: skip
    """See the kernel."""
    for i, (clause, t) in enumerate(zip(clauses.tolist(), tuples.tolist(), strict=True)):
        factors = range(clause_ptr[clause], clause_ptr[clause + 1]) if clause >= 0 else range(0)
        spans = [range(factor_ptr[factor], factor_ptr[factor + 1]) for factor in factors]
        keep[i] &= all(any(iv_lo[k] <= codes[iv_attr[k], t] < iv_hi[k] for k in own) for own in spans)
