"""Aggregates and groups of time as PostgreSQL's tools write them, in PSoup's SQL.

PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY n)  ─>  QUANTILE_CONT(n, 0.5)
DATE_TRUNC('hour', at) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM at) / 5)
                                                ─>  TIME_BUCKET(INTERVAL '5 MINUTE', at)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from psoup_service.pg.statements.texts import CLOSING, OPENING, Edit

_QUANTILES = {"PERCENTILE_CONT": "QUANTILE_CONT", "PERCENTILE_DISC": "QUANTILE_DISC"}
_WITHIN = ["WITHIN", "GROUP", "(", "ORDER BY"]
_INNER = {"HOUR": "MINUTE", "MINUTE": "SECOND"}
"""The unit that each unit has 60 of."""

_STEP = re.compile(r"([1-9]\d?) (MINUTE|SECOND)S?")


def closing(tokens: Sequence[Token], at: int) -> int:
    """The place of the bracket that closes the one at `at`; the number of tokens if there is none."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].token_type in OPENING) - (tokens[place].token_type in CLOSING)
        if depth == 0:
            return place
    return len(tokens)


def quantile(text: str, tokens: Sequence[Token], at: int) -> Edit | None:
    """The quantile of an ordered-set aggregate at `at`; None for anything else, and for descending orders."""
    name = _QUANTILES.get(tokens[at].text.upper())
    if name is None or [token.text.upper() for token in tokens[at + 4 : at + 8]] != _WITHIN:
        return None
    share, last = tokens[at + 2], closing(tokens, at + 6)
    ordered = tokens[at + 8 : last]
    if share.token_type is not TokenType.NUMBER or last == len(tokens) or not ordered:
        return None
    if any(token.token_type in (TokenType.COMMA, TokenType.DESC, TokenType.ASC) for token in ordered):
        return None
    value = text[ordered[0].start : ordered[-1].end + 1]
    return Edit(tokens[at].start, tokens[last].end + 1, f"{name}({value}, {share.text})")


def time_bucket(text: str, tokens: Sequence[Token], at: int) -> Edit | None:
    """The bucket of a time that is cut to an hour or a minute and moved by steps. None for anything else."""
    unit, close = tokens[at + 2].text.upper(), closing(tokens, at + 1)
    inner, moved = _INNER.get(unit), tokens[at + 4 : close]
    if tokens[at].text.upper() != "DATE_TRUNC" or inner is None or not moved or close + 3 >= len(tokens):
        return None
    step = _STEP.fullmatch(tokens[close + 3].text.upper())
    if step is None or step[2] != inner or 60 % int(step[1]):
        return None
    name = [token.text.upper() for token in moved]
    wanted = ["+", "INTERVAL", step[0], "*", "FLOOR", "(", "EXTRACT", "(", inner, "FROM", *name, ")", "/", step[1], ")"]
    last = close + len(wanted)
    if [token.text.upper() for token in tokens[close + 1 : last + 1]] != wanted:
        return None
    column = text[moved[0].start : moved[-1].end + 1]
    return Edit(tokens[at].start, tokens[last].end + 1, f"TIME_BUCKET(INTERVAL '{step[1]} {inner}', {column})")
