"""Regular expressions with constant patterns, by Arrow's RE2, in time bounded by the text and the pattern's size.

    regexp_matches(t, 'a(b|c)+')   ->   matches anywhere    `~`           regexp_extract    the text of a group, else ''
    regexp_full_match(t, 'a.*')    ->   the whole text      SIMILAR TO    regexp_replace    the first match, 'g': all

RE2 never backtracks, but for a pattern with many states it may have to keep them all:

    (a|b)*a(a|b){900}c     900 states at each character: 5 us a byte, where a{900}c takes a nanosecond

So a pattern has at most `MOST_STATES`, counted here with repetitions written out. The evaluator charges each byte of
text with one byte for every four states, as if it made texts of this size. So it cuts the rows into parts, or refuses
them.

Replacing all matches searches again after each match, and a search may read far beyond its match:

    a.*c|a      aaaaaaaa     each a is found after reading all others in search of a c: 10 minutes for a MiB

Patterns with this property are charged the square of a text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidInput
from psoup.expressions.frame import (
    Evaluator,
    Frame,
    booleans,
    finish,
    finish_text,
    null_column,
    room,
    text_bytes,
    to_large_string,
)
from psoup.expressions.texts.text import blank
from psoup.expressions.tree import Call, Literal
from psoup.kernels.texts.pieces import splice_texts
from psoup.model import BOOLEAN
from psoup.values.columns import Array, Column

MOST_STATES = 10_000
"""The most states of a pattern."""
MOST_BYTES = 16_384
"""The most bytes of a pattern; RE2 itself refuses patterns that need more than some megabytes."""
OPTIONS = "cilmnpsg"
"""The letters of options: c, i for case-sensitive or not, l for a literal, g for all matches.

With m, n or p the dot stops at line ends; with s it does not.
"""

_CLASS_STATES = 400
"""States of a Unicode class such as \\pL."""
_WIDE_STATES = 10
"""The states of an item that matches many characters, such as the dot. Such a character has up to four bytes."""
_SHARE = 4
"""The number of states for which each byte of text is charged with one byte."""
_AGAIN = 8
"""The number of bytes that a search reads again in the time for which one byte is charged."""
_REPEATED = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_NAMED = re.compile(r"\?P?<\w+>")
_FLAGS = re.compile(r"\?[imsU-]*([:)])")
_ESCAPED = re.compile(r"\\(\d|\\)")


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern that RE2 accepts. `flags`: its prefix of options, such as (?i).

    `groups`: for each group the position of its "(", and the position after its name.
    """

    pattern: str
    flags: str
    states: int
    groups: tuple[tuple[int, int], ...]
    looks_ahead: bool
    """Whether a search may read far beyond its match: the pattern has a repetition without an end, and branches."""

    @property
    def anywhere(self) -> str:
        """The pattern for a search."""
        return self.flags + self.pattern

    @property
    def whole(self) -> str:
        """The pattern for the whole text."""
        return rf"{self.flags}\A(?:{self.pattern})\z"

    def naming(self, *numbers: int) -> str:
        """The pattern in which only the groups of these numbers capture. Their names are g1, g2, ...; g0 is the whole
        match.
        """
        pieces, at = [], 0
        for number, (start, stop) in enumerate(self.groups, 1):
            pieces += [self.pattern[at:start], f"(?P<g{number}>" if number in numbers else "(?:"]
            at = stop
        inside = "".join([*pieces, self.pattern[at:]])
        return self.flags + (f"(?P<g0>{inside})" if 0 in numbers else inside)


@lru_cache(4_096)
def regex_of(pattern: str, options: str = "") -> Regex:
    """The regular expression of a pattern. Raises InvalidInput with RE2's message, or for a pattern that is too
    large."""
    if len(pattern.encode()) > MOST_BYTES:
        raise InvalidInput(
            f"a regular expression has at most {MOST_BYTES:,} bytes, not {len(pattern.encode()):,}",
            reason="INVALID_VALUE",
        )
    flags = ""
    if "l" in options:
        pattern = re.escape(pattern)
    for option in options:
        if option in "ci":
            flags = flags.replace("i", "") + ("i" if option == "i" else "")
        elif option in "mnps":
            flags = flags.replace("s", "") + ("s" if option == "s" else "")
    flags = f"(?{flags})" if flags else ""
    try:
        pc.match_substring_regex(pa.array([""], pa.large_string()), pattern=flags + pattern)
    except pa.ArrowInvalid as problem:
        words = str(problem).removeprefix("Invalid regular expression: ")[:200]
        raise InvalidInput(f"{pattern[:80]!r} is not a regular expression: {words}", reason="INVALID_VALUE") from None
    reader = _PatternReader(pattern)
    states, groups = reader.read()
    if states > MOST_STATES:
        raise InvalidInput(
            f"a regular expression has at most {MOST_STATES:,} states, not about {states:,}: write fewer repetitions"
            " and classes",
            reason="INVALID_VALUE",
        )
    return Regex(pattern, flags, states, groups, reader.endless and reader.branches)


class _PatternReader:
    """A reader of a pattern that RE2 accepts. It counts the states of the pattern, and finds its groups."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._sizes = [0]
        """For each open group, from the outermost on: the states of all its items but the last."""
        self._last = [0]
        """For each open group: the states of its last item, to which a repetition applies."""
        self._groups: list[tuple[int, int]] = []
        self.endless = self.branches = False
        """`endless`: the pattern has * or + or {n,}. `branches`: it has | or a repetition of a group."""

    def read(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The number of states, and the groups. O(length)."""
        while self._at < len(self._pattern):
            self._next()
        return self._sizes[0] + self._last[0] + 1, tuple(self._groups)

    def _next(self) -> None:
        character, repeated = self._pattern[self._at], _REPEATED.match(self._pattern, self._at)
        self.endless |= character in "*+" or bool(repeated and repeated[2] == ",")
        if character == "\\":
            self._escape()
        elif character == "[":
            self._item(*self._class())
        elif character == "(":
            self._open()
        elif character == ")":
            inside = self._sizes.pop() + self._last.pop() + 2
            self._item(1, inside)
            self.branches |= self._pattern.startswith(("*", "+", "?", "{"), self._at)
        elif character == "{" and repeated:
            low, high = int(repeated[1]), int(repeated[3] or 0)
            self._last[-1] = (self._last[-1] + 1) * max(low, high, 1)
            self._at = repeated.end()
        else:
            self.branches |= character == "|"
            self._item(1, _WIDE_STATES if character == "." else len(character.encode()))

    def _item(self, length: int, states: int) -> None:
        """Count an item of `length` characters and `states` states, and move past it."""
        self._sizes[-1] += self._last[-1]
        self._last[-1] = states
        self._at += length

    def _escape(self) -> None:
        following = self._pattern[self._at + 1]
        if following == "Q":
            end = self._pattern.find("\\E", self._at)
            end = len(self._pattern) if end < 0 else end
            self._item(end + 2 - self._at, len(self._pattern[self._at : end].encode()))
        elif following == "x" and self._pattern.startswith("{", self._at + 2):
            self._item(self._pattern.index("}", self._at) + 1 - self._at, _WIDE_STATES)
        elif following in "pP":
            close = self._pattern.find("}", self._at) if self._pattern[self._at + 2] == "{" else self._at + 2
            self._item(close + 1 - self._at, _CLASS_STATES)
        else:
            self._item(2, _WIDE_STATES)

    def _class(self) -> tuple[int, int]:
        """The length of [...] and its states."""
        at = self._at + 1
        at += self._pattern[at] == "^"
        at += self._pattern[at] == "]"
        states = _WIDE_STATES
        while self._pattern[at] != "]":
            states += 1
            if self._pattern[at] == "\\":
                states += _CLASS_STATES * (self._pattern[at + 1] in "pP")
                at += 1
            elif self._pattern.startswith("[:", at) and ":]" in self._pattern[at:]:
                at = self._pattern.index(":]", at) + 1
            at += 1
        return at + 1 - self._at, states

    def _open(self) -> None:
        after = self._at + 1
        named, flags = _NAMED.match(self._pattern, after), _FLAGS.match(self._pattern, after)
        if flags and flags[1] == ")":
            self._at = flags.end()
            return
        stop = flags.end() if flags else named.end() if named else after
        if not flags:
            self._groups.append((self._at, stop))
        self._at = stop
        self._sizes.append(0)
        self._last.append(0)


def _of(call: Call, place: int = 1) -> tuple[Regex, str] | None:
    """The regular expression of a call, and its options. Returns None for NULL. The typing rule has checked the
    constants.
    """
    pattern, options = call.args[1], call.args[-1] if len(call.args) > place + 1 else Literal(call.args[1].type, "")
    assert isinstance(pattern, Literal)
    assert isinstance(options, Literal)
    return None if pattern.value is None else (regex_of(str(pattern.value), str(options.value)), str(options.value))


def _charge(frame: Frame, column: Column, regex: Regex) -> None:
    """Check that searching these texts does not take too long."""
    frame.sizes.borrow(text_bytes(column) * (1 + regex.states // _SHARE))


def _match(whole: bool) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        regex_and_options = _of(call)
        if regex_and_options is None:
            return null_column(BOOLEAN, frame.rows)
        column, regex = frame.column(call.args[0]), regex_and_options[0]
        _charge(frame, column, regex)
        pattern = regex.whole if whole else regex.anywhere
        matched = pc.match_substring_regex(to_large_string(column), pattern=pattern)
        return finish(BOOLEAN, booleans(matched), [column])

    return evaluator


def extract(call: Call, frame: Frame) -> Column:
    """Compute regexp_extract(text, pattern, group, options). Without a match, or without such a group, the result is
    ''.
    """
    regex_and_options = _of(call, 2)
    if regex_and_options is None:
        return null_column(call.type, frame.rows)
    group = call.args[2]
    assert isinstance(group, Literal)
    column, regex = frame.column(call.args[0]), regex_and_options[0]
    texts = to_large_string(column)
    number = None if group.value is None else int(group.value)
    if number is None or number > len(regex.groups):
        return finish_text(pc.if_else(pc.is_valid(texts), _EMPTY, texts), [column])
    _charge(frame, column, regex)
    frame.sizes.borrow(2 * text_bytes(column))
    parts = pc.extract_regex(texts, pattern=regex.naming(number))
    return finish_text(pc.fill_null(pc.struct_field(parts, f"g{number}"), ""), [column])


_EMPTY = pa.scalar("", pa.large_string())


def replace(call: Call, frame: Frame) -> Column:
    r"""Compute regexp_replace(text, pattern, replacement, options): replace the first match, or all with option g.

    In the replacement, \1 stands for the text of group 1.
    """
    regex_and_options, replacement = _of(call, 2), call.args[2]
    assert isinstance(replacement, Literal)
    if regex_and_options is None or replacement.value is None:
        return null_column(call.type, frame.rows)
    column, (regex, options) = frame.column(call.args[0]), regex_and_options
    _charge(frame, column, regex)
    new = str(replacement.value)
    return _every(column, regex, new, frame) if "g" in options else _first(column, regex, new, frame)


def _first(column: Column, regex: Regex, replacement: str, frame: Frame) -> Column:
    """The texts in which the first match is replaced. Arrow finds it once; a kernel then writes the results."""
    constants, groups = _pieces(replacement)
    spans = pc.extract_regex_span(to_large_string(column), pattern=regex.naming(0, *groups))
    begins, stops = np.empty((2, 1 + len(groups), frame.rows), np.int64)
    for place, number in enumerate((0, *groups)):
        pairs = pc.struct_field(spans, f"g{number}").values.fill_null(0).to_numpy(zero_copy_only=False)
        begins[place] = pairs[0::2]
        np.add(begins[place], pairs[1::2], out=stops[place])
    has_match = booleans(spans.is_valid())
    grown = sum(map(len, constants)) + (stops[1:] - begins[1:]).sum(axis=0) - (stops[0] - begins[0])
    sizes = np.diff(column.values) + np.where(has_match, grown, 0)
    begins[0] = np.where(has_match, begins[0], -1)
    replaced = room(sizes, [column], frame.sizes.check(sizes))
    between = np.cumsum([0, *map(len, constants)])
    parts = np.frombuffer(b"".join(constants), np.uint8)
    splice_texts(column.values, column.data, begins, stops, between, parts, replaced.values, replaced.data)
    return replaced


def _pieces(replacement: str) -> tuple[list[bytes], list[int]]:
    """The constants of a replacement, and the numbers of the groups between them."""
    constants, groups, at = [""], [], 0
    for match in _ESCAPED.finditer(replacement):
        constants[-1] += replacement[at : match.start()]
        at = match.end()
        if match[1] == "\\":
            constants[-1] += "\\"
        else:
            groups.append(int(match[1]))
            constants.append("")
    constants[-1] += replacement[at:]
    return [constant.encode() for constant in constants], groups


def _every(column: Column, regex: Regex, new: str, frame: Frame) -> Column:
    """Texts in which all matches are replaced."""
    texts, pattern, lengths, over = to_large_string(column), regex.anywhere, np.diff(column.values), None
    if regex.looks_ahead:
        frame.sizes.borrow(int(np.square(lengths, dtype=np.float64).sum()) // _AGAIN * (1 + regex.states // _SHARE))
    references = Counter(match[1] for match in _ESCAPED.finditer(new) if match[1] != "\\")
    size_limit = lengths * (1 + references.total()) + (lengths + 1) * len(new.encode())
    sizes = frame.sizes
    if size_limit.max(initial=0) > sizes.limits.value or sizes.kept + int(size_limit.sum()) > sizes.most:
        sizes.borrow(2 * text_bytes(column) + frame.rows)
        over = sizes.check(_lengths(texts, pattern, new, references))
        texts = texts if over is None else blank(texts, over)
    return finish_text(pc.replace_substring_regex(texts, pattern=pattern, replacement=new), [column], over)


def _lengths(texts: pa.Array, pattern: str, new: str, references: Counter[str]) -> Array:
    """The bytes of texts after a replacement: int64[n].

    The replacement itself is not made. The lengths follow from replacing by nothing, by a dot, and by each group that
    the replacement names. A match is never longer than the text.
    """

    def made(replacement: str) -> Array:
        replaced = pc.replace_substring_regex(texts, pattern=pattern, replacement=replacement)
        lengths: Array = pc.binary_length(replaced).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths

    without = made("")
    lengths = without + (made(".") - without) * len(_ESCAPED.sub(_plain_bytes, new).encode())
    for group, times in references.items():
        lengths += (made(f"\\{group}") - without) * times
    return lengths


def _plain_bytes(escaped: re.Match[str]) -> str:
    """The text that an escape adds to every replacement: a backslash, or nothing for a group."""
    return "." if escaped[1] == "\\" else ""


def check_replacement(regex: Regex, replacement: str) -> None:
    """Raise InvalidInput, with RE2's message, for a replacement that does not fit the pattern."""
    try:
        pc.replace_substring_regex(pa.array([""], pa.large_string()), pattern=regex.anywhere, replacement=replacement)
    except pa.ArrowInvalid as problem:
        words = str(problem).removeprefix("Invalid replacement string: ")[:200]
        raise InvalidInput(f"{replacement[:80]!r} is not a replacement: {words}", reason="INVALID_VALUE") from None


EVALUATORS: dict[str, Evaluator] = {
    "regexp_matches": _match(whole=False),
    "regexp_full_match": _match(whole=True),
    "regexp_extract": extract,
    "regexp_replace": replace,
}
