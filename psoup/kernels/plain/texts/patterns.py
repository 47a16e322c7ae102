"""Twins of `psoup.kernels.texts.patterns`."""

from __future__ import annotations

import re
from itertools import pairwise

from psoup.kernels.arrive.arrays import IndexArrays
from psoup.kernels.plain import Array


def _texts(offsets: Array, data: Array) -> list[bytes]:
    return [data[start:stop].tobytes() for start, stop in pairwise(offsets)]


def hit_clauses(
    tuples: Array, hit_patterns: Array, driven_ptr: Array, driven: Array, pattern_ptr: Array, patterns: Array, wanted:
    Array, seen: Array, out_clauses: Array, out_tuples: Array,
) -> int:  # fmt: skip
    """See the kernel."""
    size, hits = 0, dict[int, list[int]]()
    for t, p in zip(tuples.tolist(), hit_patterns.tolist(), strict=True):
        hits.setdefault(t, []).append(p)
    for t, part in hits.items():
        seen[part] = t + 1
        for clause in [clause for p in part for clause in driven[driven_ptr[p] : driven_ptr[p + 1]].tolist()]:
            if wanted[clause] and set(patterns[pattern_ptr[clause] : pattern_ptr[clause + 1]].tolist()) <= set(part):
                out_clauses[size], out_tuples[size] = clause, t
                size += 1
    return size


def keep_texts(
    clauses: Array, tuples: Array, offsets: Array, data: Array, pattern_ptr: Array, patterns: Array,
    p_offsets: Array, p_data: Array, ends: Array, keep: Array,
) -> None:  # fmt: skip
    """See the kernel."""
    texts, sought = _texts(offsets, data), _texts(p_offsets, p_data)
    for i, (clause, t) in enumerate(zip(clauses.tolist(), tuples.tolist(), strict=True)):
        part = patterns[pattern_ptr[clause] : pattern_ptr[clause + 1]].tolist()
        keep[i] &= all(texts[t].endswith(sought[p]) if ends[p] else sought[p] in texts[t] for p in part)


def keep_likes(
    clauses: Array, tuples: Array, offsets: Array, data: Array, pattern_ptr: Array, patterns: Array,
    p_offsets: Array, p_data: Array, keep: Array,
) -> None:  # fmt: skip
    """See the kernel, which leaves open what takes it long."""
    texts, wholes = _texts(offsets, data), _texts(p_offsets, p_data)
    for i, (clause, t) in enumerate(zip(clauses.tolist(), tuples.tolist(), strict=True)):
        part = patterns[pattern_ptr[clause] : pattern_ptr[clause + 1]].tolist()
        keep[i] *= all(re.fullmatch(_regex(wholes[p]), texts[t].decode(), re.DOTALL) for p in part if wholes[p])


def _regex(whole: bytes) -> str:
    special = {0xFF: ".*", 0xFE: "."}
    parts = re.split(rb"([\xfe\xff])", whole)
    return "".join(special[part[0]] if part[:1] in (b"\xfe", b"\xff") else re.escape(part.decode()) for part in parts)


def keep_factors(
    clauses: Array, tuples: Array, index: IndexArrays, codes: Array, keep: Array
) -> None:  # fmt: skip
    """See the kernel."""
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = index
    for i, (clause, t) in enumerate(zip(clauses.tolist(), tuples.tolist(), strict=True)):
        factors = range(clause_ptr[clause], clause_ptr[clause + 1]) if clause >= 0 else range(0)
        spans = [range(factor_ptr[factor], factor_ptr[factor + 1]) for factor in factors]
        keep[i] &= all(any(iv_lo[k] <= codes[iv_attr[k], t] < iv_hi[k] for k in part) for part in spans)
