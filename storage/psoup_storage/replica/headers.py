"""The check of the header of a numbered object, which may come from anyone with access to the storage.

    a line of JSON ── bytes, elements ──> facts ── type and range of each ──> the header

Sizes are checked before the JSON is read, because what is made of it takes many times its bytes. Later versions may
add facts; facts that this version does not know are left alone.
"""

from __future__ import annotations

import json
import re
from typing import Any

from psoup.phrases import counted

MOST_FILES = 250_000
"""The most files of a base image."""
HEADER_BYTES = 64 * 1024 * 1024
"""The most bytes of a header. A file takes up to 200."""
MOST_NUMBER = 10**15 - 1
"""The last number, since names have fifteen digits."""
MOST_PROMOTIONS = 255
"""The number of the last promotion, because IDs have no further ranges."""
_MOST_ELEMENTS = 7 * MOST_FILES
_MOST = 2**63 - 1
_LAST_TIME = 253_402_300_799_999_999
"""The end of the year 9999, in microseconds."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PREVIOUS = re.compile(r"([0-9a-f]{64})?")
_INCARNATION = re.compile(r"[0-9A-Za-z_-]{1,64}")


def read_header(line: bytes, number: int) -> dict[str, Any]:
    """The header of the object of that number. O(bytes). Raises ValueError with the reason if it is not a header."""
    if line.count(b",") > _MOST_ELEMENTS:
        raise ValueError(f"its header has more than {_MOST_ELEMENTS:,} elements")
    try:
        facts = json.loads(line)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    except ValueError as problem:
        raise ValueError(f"its header is not JSON: {problem}") from None
    if not isinstance(facts, dict):
        raise ValueError("its header is not a JSON object")
    if facts.get("number") != number:
        raise ValueError(f"it was written as number {str(facts.get('number'))[:20]}")
    check = _Facts(facts)
    check.text("incarnation", _INCARNATION)
    check.text("previous", _PREVIOUS)
    match facts.get("kind"):
        case "events":
            _check_events(check, number)
        case "base":
            _check_base(check, number)
        case "fence":
            check.whole("epoch", number, number)
            check.whole("time", 0, _LAST_TIME)
            if "writer" in facts:
                check.text("writer", _INCARNATION)
                check.whole("promotion", 1, MOST_PROMOTIONS)
        case kind:
            raise ValueError(f"its kind is {str(kind)[:20]!r}, which this version of PSoup does not know")
    return facts


def is_incarnation(text: str) -> bool:
    """Whether a text has the form of an incarnation."""
    return _INCARNATION.fullmatch(text) is not None


class _Facts:
    """The facts of a header, which are checked one by one. Raises ValueError."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def whole(self, name: str, low: int, high: int) -> int:
        """A fact that is a whole number."""
        value = self._facts.get(name)
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"its header has {_shown(value)} as {name}, and {low} to {high} are possible")
        return value

    def text(self, name: str, form: re.Pattern[str]) -> None:
        """A fact that is a text of a form."""
        value = self._facts.get(name)
        if not isinstance(value, str) or form.fullmatch(value) is None:
            raise ValueError(f"its header has {_shown(value)} as {name}")

    def files(self) -> None:
        """The list of the files of an image; see `objects`. `image_files` checks their names."""
        files = self._facts.get("files")
        if not isinstance(files, list) or len(files) > MOST_FILES:
            raise ValueError(f"its header has no list of at most {counted(MOST_FILES, 'file')}")
        for file in files:
            if not _is_file(file):
                raise ValueError(f"its header has {_shown(file)} as a file")


def _shown(value: object) -> str:
    if isinstance(value, str | int | float | None):
        return repr(value)[:40]
    return f"a {type(value).__name__}"


def _is_file(file: object) -> bool:
    match file:
        case [str() as name, str() as digest, int() as size, "" | "zstd" as compression, int() as content, *epochs]:
            if len(epochs) > 1 or not all(type(epoch) is int and 0 <= epoch <= MOST_NUMBER for epoch in epochs):
                return False
            sizes = 0 <= size <= _MOST and 0 <= content <= _MOST and (bool(compression) or size == content)
            return len(name) <= 100 and _DIGEST.fullmatch(digest) is not None and sizes
    return False


def _check_common(check: _Facts, number: int) -> None:
    check.whole("epoch", 0, number - 1)
    check.whole("base", 0, number - 1)
    check.whole("reach", -1, _MOST)
    check.whole("format", 1, _MOST)
    check.whole("time", 0, _LAST_TIME)


def _check_events(check: _Facts, number: int) -> None:
    _check_common(check, number)
    first = check.whole("first", check.whole("after", 0, _MOST - 1) + 1, _MOST)
    check.whole("last", first, _MOST)


def _check_base(check: _Facts, number: int) -> None:
    _check_common(check, number)
    check.whole("sequence", 0, _MOST)
    check.whole("after", 0, number - 1)
    check.files()
