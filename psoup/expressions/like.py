r"""LIKE: `%` any text, `_` one code point, everything else itself; linear in the text whatever the pattern.

'abc'       equal           '%abc%'     contains        anything else: a regular expression for RE2, which keeps
'abc%'      starts with     '%abc'      ends with       sets of states instead of trying one after the other

The few patterns that would have too many states are matched text by text (`wildcards`).
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from psoup.columns import Column
from psoup.expressions.frame import Evaluator, Frame, booleans, finish, null_column, to_large_string
from psoup.expressions.text import by_distinct
from psoup.expressions.tree import Call, Literal
from psoup.expressions.wildcards import ANY, ONE, Token, has_many_states, matches
from psoup.model import BOOLEAN

_REPEAT = 500
"""RE2 allows 1,000 repetitions of an expression."""
MOST_TOKENS = 1_000
"""Longest pattern that becomes a regular expression: RE2 takes time in proportion to pattern times text at worst."""


def like(call: Call, frame: Frame) -> Column:
    """x LIKE pattern [ESCAPE constant]."""
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
    found = by_distinct(columns, lambda text, key: _match(text, key[0], escape), pa.bool_(), frame)
    undecided = pc.is_null(found).to_numpy(zero_copy_only=False)
    return finish(BOOLEAN, booleans(found), columns, undecided)


def _match(text: pa.Array, pattern: str, escape: str) -> pa.Array:
    """Whether each text matches; NULL for all if the pattern is malformed or too long."""
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


def is_plain(tokens: list[Token]) -> bool:
    """Whether only % at the ends are special, so that no regular expression is needed."""
    return all(not special for _, special in tokens[1:-1]) and all(token != ONE for token in tokens)


def too_long(tokens: list[Token]) -> bool:
    """Whether the pattern would take too long to match."""
    return len(tokens) > MOST_TOKENS and not is_plain(tokens)


def tokenize(pattern: str, escape: str) -> list[Token] | None:
    """(character, whether it is a wildcard) in order, runs of % as one; None if the pattern ends with the escape."""
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


EVALUATORS: dict[str, Evaluator] = {"like": like}
