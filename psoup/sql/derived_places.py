"""The place of a refused clause in the SELECT of a derived stream. It is searched by its words: a plan has no places.

"ORDER BY, LIMIT or OFFSET in a derived stream"  ->  CREATE STREAM x AS (SELECT k FROM t ORDER BY k)
                                                                                        ^
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token

from psoup.plan.inputs import Source
from psoup.sql.parser.dialect import PSoup
from psoup.sql.source import StatementText

_CLAUSES = frozenset(
    ("DISTINCT", "UNION", "EXCEPT", "INTERSECT", "LEFT", "RIGHT", "FULL", "EXISTS", "ORDER", "LIMIT", "OFFSET", "OVER")
) | {"GROUP"}
_WORDS = {"Distinct": "DISTINCT", "Union": "UNION", "Except": "EXCEPT", "Intersect": "INTERSECT", "now": "NOW"}
"""Words of messages, and the words of SQL that they stand for."""
_BEFORE_SOURCES = ("FROM", "JOIN", ",", "(")


def place_of(source: StatementText, at: int, problem: str) -> int:
    """The offset of the clause, the stream or the table that `problem` names. `at`, where the SELECT begins, if none.

    A stream or table is in quotes in the message, and stands after FROM.
    """
    tokens = _tokens(source, at)
    for name in re.findall(r"'([^']+)'", problem):
        later = [token for token in tokens[_from(tokens) :] if token.text.lower() == name.lower()]
        if later:
            return at + later[0].start
    words = [_WORDS.get(word, word) for word in re.findall(r"[A-Za-z]+", problem)]
    words = [word for word in words if word in _CLAUSES or word == "NOW"]
    words += ["SELECT"] * ("subselect" in problem) + ["[", "BEGIN", "END"] * ("window" in problem)
    for word in words:
        later = [token for number, token in enumerate(tokens) if number and not _is_bound(tokens, number)]
        matching = [token for token in later if token.text.upper().split(" ")[0] == word]
        if matching:
            return at + matching[0].start
    return at


def places_of_columns(source: StatementText, at: int) -> dict[str, int]:
    """The offset of the last word for each word of the SELECT list, in lower case.

    `at`: where the SELECT begins. O(length of the statement): call it once for all columns.
    """
    tokens = _tokens(source, at)
    return {token.text.lower(): at + token.start for token in tokens[: _from(tokens)]}


def place_of_source(source: StatementText, at: int, sources: Sequence[Source], place: int) -> int:
    """The offset of a source after FROM, JOIN or a comma. `sources`: all sources of the SELECT, by place.

    A stream may be there several times. `at`, where the SELECT begins, if it is not found.
    """
    name, tokens = sources[place].spec.name.lower(), _tokens(source, at)
    before = sum(each.spec.name.lower() == name for each in sources[:place])
    matching = [
        token
        for earlier, token in pairwise(tokens)
        if token.text.lower() == name and earlier.text.upper() in _BEFORE_SOURCES
    ]
    return at + matching[min(before, len(matching) - 1)].start if matching else at


def place_of_word(source: StatementText, at: int, word: str) -> int:
    """The offset of the first word of this name; `at`, where the SELECT begins, without one."""
    matching = [token for token in _tokens(source, at) if token.text.lower() == word.lower()]
    return at + matching[0].start if matching else at


def _is_bound(tokens: list[Token], number: int) -> bool:
    """Whether a token is the NOW of a window, as in BEGIN (NOW - 1 HOUR)."""
    earlier = [token.text.upper() for token in tokens[max(0, number - 2) : number] if token.text != "("]
    return tokens[number].text.upper() == "NOW" and bool(earlier) and earlier[-1] in ("BEGIN", "END")


def _from(tokens: list[Token]) -> int:
    return next((place for place, token in enumerate(tokens) if token.text.upper() == "FROM"), len(tokens))


def _tokens(source: StatementText, at: int) -> list[Token]:
    try:
        tokens: list[Token] = PSoup().tokenize(source.text[at:])
    except TokenError:
        return []
    return tokens
