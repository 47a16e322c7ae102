"""LIKE patterns whose regular expression has too many states: many `_` behind a character, behind a `%`.

    %a______________b     at each place RE2 must know of the last 14 characters which were an a: 2 ** 14 states

Here each part between two % is looked for where the one before ended, leftmost first, which is enough for LIKE. A part
without _ is found as a text; one with _ by comparing a block of places with its characters, one character after the
other: O(text * characters of the part) of vector operations, 64 KiB at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Token = tuple[str, bool]
Text = NDArray[np.uint8 | np.uint32]
"""The code points of a text."""

ANY, ONE = ("%", True), ("_", True)
_MOST_ONES = 12
"""`_` behind a character, behind a `%`: 4,096 states, which RE2 keeps; with 14 it needs a second for a MiB."""
_BLOCK = 65_536


def has_many_states(tokens: list[Token]) -> bool:
    """Whether the pattern takes RE2 time in proportion to its length times the text's, instead of the text's alone."""
    floating = behind = False
    ones = 0
    for token in tokens:
        if token == ANY:
            floating, behind, ones = True, False, 0
        elif token == ONE:
            ones += floating and behind
        else:
            behind = True
        if ones > _MOST_ONES:
            return True
    return False


def matches(text: str, tokens: list[Token]) -> bool:
    """Whether the whole of `text` is what the pattern says."""
    parts = _parts(tokens)
    points = _points(text)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(first) == len(text) and _is_at(points, first, 0)
    start, stop = len(first), len(text) - len(last)
    if start > stop or not (_is_at(points, first, 0) and _is_at(points, last, stop)):
        return False
    for part in parts[1:-1]:
        place = _find(text, points, part, start, stop)
        if place < 0:
            return False
        start = place + len(part)
    return True


def _parts(tokens: list[Token]) -> list[list[Token]]:
    """What stands between the %, one more than there are of these; the first and the last may be empty."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token == ANY:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _points(text: str) -> Text:
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _is_at(points: Text, part: list[Token], place: int) -> bool:
    """Whether the part, which does not reach beyond the text, stands there."""
    return all(token == ONE or points[place + k] == ord(token[0]) for k, token in enumerate(part))


def _find(text: str, points: Text, part: list[Token], start: int, stop: int) -> int:
    """The first place from `start` on where the part stands and ends by `stop`; -1 if there is none."""
    if ONE not in part:
        return text.find("".join(character for character, _ in part), start, stop)
    wanted = [(k, ord(token[0])) for k, token in enumerate(part) if token != ONE]
    end = stop - len(part) + 1
    for block in range(start, end, _BLOCK):
        count = min(_BLOCK, end - block)
        here = np.ones(count, np.bool_)
        for k, character in wanted:
            here &= points[block + k : block + k + count] == character
            if not here.any():
                break
        else:
            return block + int(np.argmax(here))
    return -1
