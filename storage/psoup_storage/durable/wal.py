"""Whether SQLite has left out committed frames of a write-ahead log because they are damaged.

    header | frame 0 | frame 1 | frame 2 | frame 3 | older frames, of another salt
             commit              ^ bad     commit

At the first frame whose checksum is wrong SQLite takes the log to end: so ends one that a crash has cut off. If the
frame was whole once, everything from there on was acknowledged, and would be gone without a word. It was whole if

    the frame behind the next commit goes on from it    a commit is synced before the next frame is written; frames that
                                                        an older crash left there go on from something else
    it is one bit away from its checksum                no torn write looks like that

Nothing is repaired here. The checksums are SQLite's (https://sqlite.org/fileformat2.html, section 4.2).
"""

from __future__ import annotations

import operator
import struct
from pathlib import Path

import numpy as np

from psoup.columns import Array

_HEADER = 32
_FRAME = 24
_BIG_ENDIAN = 1
"""The last bit of the magic number: the byte order of the words that checksums add up."""


def damaged_frame(path: Path, valid: int) -> int | None:
    """The number of the first committed frame (from 0) that SQLite did not take, None if it took them all.

    `valid`: how many it took. -1 is the header of the file. O(the frames behind those).
    """
    content = path.read_bytes() if path.exists() else b""
    if len(content) < _HEADER + _FRAME:
        return None
    magic, _, page, *_ = struct.unpack_from(">4I", content)
    order = ">u4" if magic & _BIG_ENDIAN else "<u4"
    if _sum(content[:24], order, (0, 0)) != struct.unpack_from(">2I", content, 24):
        return -1
    size = _FRAME + page
    frames = np.frombuffer(content, np.uint8, offset=_HEADER)
    frames = frames[: len(frames) // size * size].reshape(-1, size)
    heads = np.ascontiguousarray(frames[valid:, :_FRAME]).view(">u4").astype(np.uint32)
    salts = np.frombuffer(content, ">u4", 2, 16).astype(np.uint32)
    away = np.bitwise_count(heads[:, 2:4] ^ salts).sum(axis=1)
    ours = np.flatnonzero(away <= 1)
    known = struct.unpack_from(">2I", content, _HEADER + (valid - 1) * size + 16 if valid else 24)

    def sums(at: int, before: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """What a frame adds up to after the one before, and what it says itself."""
        frame = frames[valid + at].tobytes()
        return _sum(frame[:8] + frame[_FRAME:], order, before), (int(heads[at, 4]), int(heads[at, 5]))

    for at in ours.tolist():
        found, stored = sums(at, known)
        if found == stored and not away[at]:
            known = found
            continue
        commits = ours[(ours >= at) & (heads[ours, 1] != 0)]
        end = int(commits[0]) if len(commits) else len(heads)
        followed = end + 1 in ours and operator.eq(*sums(end + 1, (int(heads[end, 4]), int(heads[end, 5]))))
        return valid + at if followed or _one_bit(found, stored, page) or (found == stored and away[at]) else None
    return None


def _sum(content: bytes, order: str, start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    words = iter(np.frombuffer(content, order).tolist())
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


def _one_bit(found: tuple[int, int], stored: tuple[int, int], page: int) -> bool:
    """Whether a single bit of the frame, or of its checksum, makes the difference. The sum is linear in its words."""
    shares = _shares((page + 8) // 8)
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    by_bit = shares[:, None, :] * bits[None, :, None]
    off = np.array([found[0] - stored[0], found[1] - stored[1]], np.int64).astype(np.uint32)
    return any(bool((by_bit == change).all(axis=2).any()) for change in (off, np.negative(off)))


def _shares(pairs: int) -> Array:
    """How each word of a frame counts in the two sums: uint32[2 * pairs + 2, 2]; the last two are the sums' own."""
    shares = [(1, 0), (0, 1)]
    first, second = (1, 1), (0, 1)
    for _ in range(pairs):
        shares += [first, second]
        first, second = _step(first), _step(second)
    return np.array(shares, np.uint32)


def _step(share: tuple[int, int]) -> tuple[int, int]:
    first = (share[0] + share[1]) & 0xFFFFFFFF
    return first, (share[1] + first) & 0xFFFFFFFF
