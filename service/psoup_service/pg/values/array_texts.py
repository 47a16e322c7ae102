"""Arrays that clients send, in text and in binary format.

{1,2,NULL}   {"a b",c}   {{1,2},{3,4}}
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from psoup.errors import ResourceExhausted

_MOST_DEPTH = 6
_MOST_VALUES = 100_000
"""The most values of an array. Each takes up to a hundred bytes of memory."""


def read_array(text: str, element: Callable[[str], Any], wrong: Callable[[], Exception]) -> list[Any]:
    """The values of an array in text format. `element` reads one value; `wrong` makes the error for a bad text."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        raise wrong()
    values, end = _read(stripped, 1, 1, element, wrong)
    if end != len(stripped):
        raise wrong()
    return values


def _read(
    text: str, at: int, depth: int, element: Callable[[str], Any], wrong: Callable[[], Exception]
) -> tuple[list[Any], int]:
    values = list[Any]()
    if depth > _MOST_DEPTH:
        raise wrong()
    if depth == 1 and text.count(",") >= _MOST_VALUES:
        raise _too_many(text.count(",") + 1)
    at = _skipped(text, at)
    if text[at : at + 1] == "}":
        return values, at + 1
    while True:
        at = _skipped(text, at)
        if text[at : at + 1] == "{":
            value: Any
            value, at = _read(text, at + 1, depth + 1, element, wrong)
        else:
            word, quoted, at = _word(text, at, wrong)
            value = None if not quoted and word.upper() == "NULL" else element(word)
        values.append(value)
        at = _skipped(text, at)
        mark = text[at : at + 1]
        if mark not in (",", "}"):
            raise wrong()
        at += 1
        if mark == "}":
            return values, at


def _skipped(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _word(text: str, at: int, wrong: Callable[[], Exception]) -> tuple[str, bool, int]:
    """A value at a place: its text, whether it is quoted, and the place behind it."""
    letters, quoted = list[str](), text[at : at + 1] == '"'
    at += quoted
    while at < len(text):
        letter = text[at]
        if letter == "\\" and at + 1 < len(text):
            letters.append(text[at + 1])
            at += 2
            continue
        if quoted and letter == '"':
            return "".join(letters), True, at + 1
        if not quoted and letter in ",}":
            word = "".join(letters).strip()
            if not word:
                break
            return word, False, at
        if not quoted and letter in '{"':
            break
        letters.append(letter)
        at += 1
    raise wrong()


def read_binary_array(raw: bytes, element: Callable[[bytes], Any]) -> list[Any]:
    """The values of an array in binary format. Raises struct.error for bytes that are not one."""
    dimensions, _, _ = struct.unpack_from("!iiI", raw)
    if not 0 <= dimensions <= _MOST_DEPTH:
        raise struct.error
    sizes = [struct.unpack_from("!i", raw, 12 + 8 * place)[0] for place in range(dimensions)]
    at, values = 12 + 8 * dimensions, list[Any]()
    while at < len(raw):
        if len(values) == _MOST_VALUES:
            raise _too_many(_MOST_VALUES + 1)
        size = struct.unpack_from("!i", raw, at)[0]
        at += 4
        if size > len(raw) - at:
            raise struct.error
        values.append(None if size < 0 else element(raw[at : at + size]))
        at += max(size, 0)
    for size in reversed(sizes[1:]):
        if size <= 0 or len(values) % size:
            raise struct.error
        values = [values[start : start + size] for start in range(0, len(values), size)]
    if (sizes[0] if sizes else 0) != len(values):
        raise struct.error
    return values


def _too_many(count: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"an array has {count:,} values or more; at most {_MOST_VALUES:,} are taken", reason="MESSAGE_TOO_LARGE"
    )
