"""Forms of PostgreSQL that PSoup's SQL lacks, rewritten in PSoup's SQL.

    n = ANY(ARRAY[1, 2])                                ─>  n IN (1, 2)
    s <> ALL('{a,"b c"}'::text[])                       ─>  s NOT IN ('a', 'b c')
    TO_TIMESTAMP('2026-07-01 12:30', 'YYYY-MM-DD …')    ─>  TIMESTAMP '2026-07-01 12:30:00'
    at > NOW()                                          ─>  at > TIMESTAMP '2026-07-01 12:30:00'
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY n)      ─>  QUANTILE_CONT(n, 0.5)

psycopg2 writes lists as arrays, Superset times with their format, and Metabase relative dates and medians.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import PSoupError
from psoup.sql.parser.guards import tokens_of
from psoup.sql.source import StatementText
from psoup_service.pg.statements import present_times
from psoup_service.pg.statements.grouping_forms import closing, quantile, time_bucket
from psoup_service.pg.statements.parameters import ARRAYS, CASTS, constant, operand_start
from psoup_service.pg.statements.present_times import NAMES
from psoup_service.pg.statements.texts import Edit, Edited
from psoup_service.pg.values import types
from psoup_service.pg.values.readers import read_text
from psoup_service.pg.values.zones import Zone

_FORMS = re.compile(
    r"\b(?:ANY|SOME|ALL)\s*\(\s*(?:ARRAY\b|')|\bTO_(?:TIMESTAMP|DATE)\s*\(\s*'|\bWITHIN\s+GROUP\b|\*\s*FLOOR\s*\(",
    re.IGNORECASE,
)
_PRESENT = re.compile(rf"\b(?:{'|'.join(NAMES)})\b", re.IGNORECASE)
_COMPARED = {
    (TokenType.EQ, TokenType.ANY): False,
    (TokenType.EQ, TokenType.SOME): False,
    (TokenType.NEQ, TokenType.ALL): True,
}
"""The comparisons with all elements of an array: whether each is negated."""

_TIMES = {"TO_TIMESTAMP": types.TIMESTAMP, "TO_DATE": types.DATE}
_FORMAT = re.compile(r'YYYY-MM-DD(?:[ T](?:HH24:MI(?::SS(?:\.[MU]S)?)?))?|YYYY-MM-DD"T"HH24:MI:SS(?:\.[MU]S)?')
"""The formats whose texts PSoup reads as times without a change."""


def in_psoup_sql(text: str, zone: Zone, now: Callable[[], int]) -> Edited | None:
    """The statement without these forms; None if it has none. `zone`: of times without one. Raises SqlError.

    `now`: the present time, in microseconds since 1970.
    """
    forms = "(" in text and _FORMS.search(text) is not None
    present = _PRESENT.search(text) is not None
    if not (forms or present):
        return None
    source = StatementText(text)
    tokens, edits = tokens_of(source), list[Edit]()
    if forms:
        possible = (_edit(source, text, tokens, at, zone) for at in range(len(tokens)))
        edits += [edit for edit in possible if edit is not None]
    if present:
        times = present_times.constants(tokens, now(), zone)
        edits += [time for time in times if not any(edit.start <= time.start < edit.stop for edit in edits)]
    return Edited(text, edits) if edits else None


def _edit(source: StatementText, text: str, tokens: Sequence[Token], at: int, zone: Zone) -> Edit | None:
    kinds = tuple(token.token_type for token in tokens[at : at + 3])
    if kinds[:2] in _COMPARED and kinds[2:] == (TokenType.L_PAREN,):
        return _members(source, text, tokens, at, zone)
    if kinds[1:] == (TokenType.L_PAREN, TokenType.STRING):
        return _time(tokens, at, zone) if tokens[at].text.upper() in _TIMES else time_bucket(text, tokens, at)
    return quantile(text, tokens, at)


def _members(source: StatementText, text: str, tokens: Sequence[Token], at: int, zone: Zone) -> Edit | None:
    """The comparison of `tokens[at]` with the elements of a constant array; None for anything else in parentheses."""
    negated = _COMPARED[tokens[at].token_type, tokens[at + 1].token_type]
    close = closing(tokens, at + 2)
    inner = tokens[at + 3 : close]
    if not inner or close == len(tokens):
        return None
    start, stop = tokens[at].start, tokens[close].end + 1
    if inner[0].token_type is TokenType.ARRAY and len(inner) > 1 and inner[1].token_type is TokenType.L_BRACKET:
        last = closing(tokens, at + 4)
        if last + 1 < close and tokens[last + 1].token_type is not TokenType.DCOLON:
            return None
        listed = text[tokens[at + 4].end + 1 : tokens[last].start].strip()
    elif inner[0].token_type is TokenType.STRING and (len(inner) == 1 or inner[1].token_type is TokenType.DCOLON):
        words = [token.text.lower() for token in inner[2:] if token.token_type not in _BRACKETS]
        with source.placed(inner[0].start):
            listed = _elements(inner[0].text, CASTS.get(" ".join(words), types.TEXT_OID), zone)
    else:
        return None
    if not listed and negated:
        return Edit(operand_start(source, start), stop, "TRUE")
    return Edit(start, stop, f"{' NOT' if negated else ''} IN ({listed or 'NULL'})")


_BRACKETS = (TokenType.L_BRACKET, TokenType.R_BRACKET)


def _elements(array: str, oid: int, zone: Zone) -> str:
    """The elements of the text of an array, as constants of a type. Raises InvalidInput."""
    return ", ".join(constant(each, oid, zone) for each in read_text(ARRAYS[oid], array, zone))


def _time(tokens: Sequence[Token], at: int, zone: Zone) -> Edit | None:
    """The constant of `TO_TIMESTAMP('…', 'YYYY-MM-DD …')`; None for another format."""
    rest = tokens[at + 3 : at + 6]
    shape = [token.token_type for token in rest]
    if shape != [TokenType.COMMA, TokenType.STRING, TokenType.R_PAREN] or not _FORMAT.fullmatch(rest[1].text.upper()):
        return None
    oid = _TIMES[tokens[at].text.upper()]
    try:
        value = read_text(oid, tokens[at + 2].text, zone)
    except PSoupError:
        return None
    return Edit(tokens[at].start, rest[2].end + 1, constant(value, oid, zone))
