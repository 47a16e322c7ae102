"""Digests of batches: a number that is sent again is a repeat if its payload is the same, and a conflict if not.

    15 bytes of XXH3 (128 bits)    since they are: 0.1 ms for 4 MiB, where BLAKE2b took 5
    16 bytes of BLAKE2b            in logs of before, next to which only the number of rows can be compared

No secret depends on them: who made two payloads with one digest would have his own retry taken for a repeat.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xxhash

from psoup.columns import Array

_BYTES, _EARLIER_BYTES = 15, 16


def digest_of(parts: Iterable[bytes | memoryview | Array]) -> bytes:
    """The digest of some bytes, however they are cut. O(bytes)."""
    state = xxhash.xxh3_128()
    for part in parts:
        state.update(np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else part)
    return state.digest()[:_BYTES]


def comparable(then: bytes, now: bytes) -> bool:
    """Whether two digests were made in the same way: if not, they say nothing of each other."""
    return (len(then), len(now)) != (_EARLIER_BYTES, _BYTES)
