r"""LIKE: `%` stands for any text, `_` for one code point. The time is linear in the text for every pattern.

    'abc'       equal           '%abc%'     contains        all others: a regular expression for RE2, which keeps
    'abc%'      starts with     '%abc'      ends with       sets of states instead of trying one after the other

A few patterns would have too many states: those with many `_` after a character that follows a `%`.

    %a______________b     at each place RE2 must know which of the last 14 characters were an a: 2 ** 14 states

Such patterns are matched text by text. Each part between two % is searched after the part before it, leftmost first,
which is enough for LIKE. A part without _ is searched as a text. A part with _ is found by comparing a block of places
with each of its characters: O(text * characters of the part) in vector operations of 64 KiB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from psoup.expressions.frame import Evaluator, Frame, booleans, finish, null_column, to_large_string
from psoup.expressions.texts.text import by_distinct
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.model import BOOLEAN, TEXT
from psoup.values.columns import Column

ANY_BYTE = 0xFF
"""The wildcard % in a pattern of bytes; UTF-8 does not use this byte."""
ONE_BYTE = 0xFE
"""The wildcard _ in a pattern of bytes; UTF-8 does not use this byte."""
_LEAST_PIECE = 2
"""The fewest bytes of a piece that is searched."""
_LONGEST_PIECE = 512
"""The most bytes of a piece that is searched; each byte takes 13 bytes of memory."""
_LONGEST_WHOLE = 512
"""The most bytes of a pattern with inner wildcards that is compared where its piece is found."""

Token = tuple[str, bool]
Text = NDArray[np.uint8 | np.uint32]
"""The code points of a text."""

ANY = ("%", True)
"""The wildcard that stands for any text."""
ONE = ("_", True)
"""The wildcard that stands for a single character."""
_SPECIAL = {ANY: bytes([ANY_BYTE]), ONE: bytes([ONE_BYTE])}
_MAX_ONES = 12
"""The most `_` after a character that follows a `%`. RE2 then keeps 4,096 states. With 14 it needs a second
for a MiB.
"""
_BLOCK = 65_536


def has_many_states(tokens: list[Token]) -> bool:
    """Whether RE2 would need time in proportion to pattern length times text length, not to text length alone."""
    floating = behind = False
    ones = 0
    for token in tokens:
        if token == ANY:
            floating, behind, ones = True, False, 0
        elif token == ONE:
            ones += floating and behind
        else:
            behind = True
        if ones > _MAX_ONES:
            return True
    return False


def matches(text: str, tokens: list[Token]) -> bool:
    """Whether the whole of `text` matches the pattern."""
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
    """The parts between the %; the first and the last may be empty."""
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
    """Whether the part, which must end within the text, is at `place`."""
    return all(token == ONE or points[place + k] == ord(token[0]) for k, token in enumerate(part))


def _find(text: str, points: Text, part: list[Token], start: int, stop: int) -> int:
    """The first place from `start` on where the part begins and also ends by `stop`. Returns -1 if there is none."""
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


_REPEAT = 500
"""The most repetitions in one item of a regular expression that `to_regex` writes. RE2 allows 1,000."""
_NO_ESCAPE = Literal(TEXT, "")
MOST_TOKENS = 1_000
"""The most tokens of a pattern that becomes a regular expression. RE2 may take time of pattern length times text
length.
"""


def like(call: Call, frame: Frame) -> Column:
    """Compute x LIKE pattern [ESCAPE constant]."""
    subject, pattern = call.args[:2]
    escape = ""
    if len(call.args) == 3:
        assert isinstance(call.args[2], Literal)
        escape = str(call.args[2].value)
    if isinstance(pattern, Literal):
        if pattern.value is None:
            return null_column(BOOLEAN, frame.rows)
        column = frame.column(subject)
        return finish(BOOLEAN, booleans(_match(to_large_string(column), str(pattern.value), escape)), [column])
    columns = [frame.column(subject), frame.column(pattern)]
    matched = by_distinct(columns, lambda text, key: _match(text, key[0], escape), pa.bool_(), frame)
    undecided = pc.is_null(matched).to_numpy(zero_copy_only=False)
    return finish(BOOLEAN, booleans(matched), columns, undecided)


def _match(text: pa.Array, pattern: str, escape: str) -> pa.Array:
    """Whether each text matches. All results are NULL if the pattern is malformed or too long."""
    tokens = tokenize(pattern, escape)
    if tokens is None or too_long(tokens):
        return pa.nulls(len(text), pa.bool_())
    if has_many_states(tokens):
        values = (value.as_py() for value in text)
        return pa.array([None if value is None else matches(value, tokens) for value in values], pa.bool_())
    if not is_plain(tokens):
        return pc.match_substring_regex(text, pattern=to_regex(tokens))
    plain = "".join(character for character, special in tokens if not special)
    shape = [token == ANY for token in tokens]
    if not any(shape):
        return pc.equal(text, pa.scalar(plain, pa.large_string()))
    if shape == [True] * len(shape):
        return pc.is_valid(text)
    ends = (shape[0], shape[-1])
    if sum(shape) == 1 and ends == (False, True):
        return pc.starts_with(text, pattern=plain)
    if sum(shape) == 1 and ends == (True, False):
        return pc.ends_with(text, pattern=plain)
    return pc.match_substring(text, pattern=plain)


def matching(texts: pa.Array, expr: Expr) -> NDArray[np.bool_]:
    """For each text, whether it matches the constant pattern of an expression with a `sought_text`. bool[n].

    No text may be NULL.
    """
    assert isinstance(expr, Call)
    if expr.name != "like":
        assert isinstance(expr.args[1], Literal)
        compare = pc.match_substring if expr.name == "contains" else pc.ends_with
        return np.asarray(compare(texts, str(expr.args[1].value)).to_numpy(zero_copy_only=False))
    pattern, escape = (*expr.args[1:], _NO_ESCAPE)[:2]
    assert isinstance(pattern, Literal) and isinstance(escape, Literal)
    flags: NDArray[np.bool_] = _match(texts, str(pattern.value), str(escape.value or "")).to_numpy(zero_copy_only=False)
    return flags


def is_plain(tokens: list[Token]) -> bool:
    """Whether only % at the ends is special, so that no regular expression is needed."""
    return all(not special for _, special in tokens[1:-1]) and all(token != ONE for token in tokens)


def too_long(tokens: list[Token]) -> bool:
    """Whether matching the pattern would take too long."""
    return len(tokens) > MOST_TOKENS and not is_plain(tokens)


def tokenize(pattern: str, escape: str) -> list[Token] | None:
    """The tokens of a pattern in order: (character, whether it is a wildcard). A run of % is one token.

    Returns None if the pattern ends with the escape.
    """
    tokens: list[Token] = []
    escaped = False
    for character in pattern:
        if escaped:
            tokens.append((character, False))
            escaped = False
        elif character == escape:
            escaped = True
        elif character in "%_":
            if not (character == "%" and tokens and tokens[-1] == ANY):
                tokens.append((character, True))
        else:
            tokens.append((character, False))
    return None if escaped else tokens


def to_regex(tokens: list[Token]) -> str:
    """The pattern in RE2's syntax, anchored at both ends; dots match line ends too."""
    parts = [r"(?s)\A"]
    ones = 0
    for token in [*tokens, None]:
        if token == ONE:
            ones += 1
            continue
        while ones:
            run = min(ones, _REPEAT)
            parts.append("." if run == 1 else f".{{{run}}}")
            ones -= run
        if token is not None:
            parts.append(".*" if token == ANY else re.escape(token[0]))
    return "".join(parts) + r"\z"


@dataclass(frozen=True, slots=True)
class SoughtText:
    """A text that is searched in the texts of a column, anywhere or only at their ends.

    `column`: the index of the column; ~index stands for the column in lower case. `whole`: empty if finding the text
    decides. Otherwise a row that has the text may match. Then `whole` is the full pattern, in UTF-8 with ANY_BYTE and
    ONE_BYTE, and the text is a piece of it.
    """

    column: int
    text: bytes
    at_end: bool
    whole: bytes = b""


@lru_cache(65_536)
def sought_text(expr: Expr) -> SoughtText | None:
    """The text that a condition on a column searches, or None.

    The conditions are `column LIKE '%text%'`, `column LIKE '%text'`, `contains`, `ends_with(column, 'text')`, and the
    same on lower(column), as in ILIKE. For other LIKE patterns it is the longest piece without wildcards, if it has at
    least two bytes.
    """
    if not isinstance(expr, Call) or expr.name not in ("like", "contains", "ends_with"):
        return None
    subject, pattern, *rest = expr.args
    column = _column(subject)
    if column is None or not isinstance(pattern, Literal) or pattern.value is None:
        return None
    if expr.name != "like":
        return _sought(column, str(pattern.value).encode(), expr.name == "ends_with")
    escape = rest[0] if rest else _NO_ESCAPE
    tokens = tokenize(str(pattern.value), str(escape.value or "")) if isinstance(escape, Literal) else None
    if not tokens:
        return None
    at_end = tokens[-1] not in (ANY, ONE)
    if tokens[0] == ANY and tokens[-1] != ONE and is_plain(tokens):
        text = "".join(character for character, special in tokens if not special)
        return _sought(column, text.encode(), at_end)
    whole = b"".join(_SPECIAL[token] if token[1] else token[0].encode() for token in tokens)
    pieces = re.split(b"[\xfe\xff]+", whole)
    longest = max(range(len(pieces)), key=lambda number: len(pieces[number]))
    if len(pieces[longest]) < _LEAST_PIECE or len(whole) > _LONGEST_WHOLE:
        return None
    return _sought(column, pieces[longest], at_end and longest == len(pieces) - 1, whole)


def _sought(column: int, text: bytes, at_end: bool, whole: bytes = b"") -> SoughtText:
    """The search for a text. Of a long text only the beginning is searched; the whole text is compared where that is
    found.
    """
    if len(text) <= _LONGEST_PIECE:
        return SoughtText(column, text, at_end, whole)
    any_byte = bytes([ANY_BYTE])
    return SoughtText(column, text[:_LONGEST_PIECE], False, whole or any_byte + text + (b"" if at_end else any_byte))


def _column(subject: Expr) -> int | None:
    """The searched column, as in `SoughtText`."""
    if isinstance(subject, AttributeRef):
        return subject.index
    if isinstance(subject, Call) and subject.name == "lower" and isinstance(subject.args[0], AttributeRef):
        return ~subject.args[0].index
    return None


EVALUATORS: dict[str, Evaluator] = {"like": like}
