"""The present time in conditions of a SELECT, as a constant.

    WHERE at > NOW() - INTERVAL '1 day'   ─>  WHERE at > TIMESTAMP '2026-07-01 12:30:00' - INTERVAL '1 day'

PSoup's SQL has NOW in the SELECT list and in windows, which also hold for standing queries. A client of PostgreSQL asks
once, so that its NOW is a constant. Tools write relative dates like this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sqlglot.tokenizer_core import Token, TokenType

from psoup_service.pg.statements.parameters import constant
from psoup_service.pg.statements.texts import CLOSING, OPENING, Edit
from psoup_service.pg.values import types
from psoup_service.pg.values.zones import Zone

_CALLED = ("NOW", "TRANSACTION_TIMESTAMP", "STATEMENT_TIMESTAMP", "CLOCK_TIMESTAMP")
_TIMES = ("CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
_DATE = "CURRENT_DATE"
NAMES = (*_CALLED, *_TIMES, _DATE)
"""The names of the present time."""

_LIST, _CONDITION, _WINDOW = range(3)
_PARTS = {
    TokenType.SELECT: _LIST,
    TokenType.FROM: _CONDITION,
    TokenType.BEGIN: _WINDOW,
    TokenType.END: _WINDOW,
}
_DAY = 86_400_000_000


def constants(tokens: Sequence[Token], now: int, zone: Zone) -> Iterator[Edit]:
    """The edits that put constants in the places of the present time. `now`: microseconds since 1970.

    A SELECT list and a window keep theirs.
    """
    parts, cases = [_LIST], 0
    for at, token in enumerate(tokens):
        kind = token.token_type
        if kind in OPENING:
            parts.append(_WINDOW if kind is TokenType.L_BRACKET else parts[-1])
        elif kind in CLOSING:
            parts = parts[:-1] or [_LIST]
        elif kind is TokenType.CASE:
            cases += 1
        elif kind is TokenType.END and cases:
            cases -= 1
        elif kind in _PARTS:
            parts[-1] = _PARTS[kind]
        elif parts[-1] == _CONDITION and token.text.upper() in NAMES:
            stop = _stop(tokens, at)
            if stop is not None:
                yield Edit(token.start, stop, _constant(token.text.upper(), now, zone))


def _stop(tokens: Sequence[Token], at: int) -> int | None:
    """The end of the name of the present time at `at`, with its parentheses; None if it is another name."""
    before = tokens[at - 1].token_type if at else None
    if before is TokenType.DOT or tokens[at].token_type is TokenType.IDENTIFIER:
        return None
    called = [token.token_type for token in tokens[at + 1 : at + 4]]
    if called[:2] == [TokenType.L_PAREN, TokenType.R_PAREN]:
        return int(tokens[at + 2].end) + 1
    if tokens[at].text.upper() in _CALLED:
        return None
    if called == [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]:
        return int(tokens[at + 3].end) + 1
    return int(tokens[at].end) + 1


def _constant(name: str, now: int, zone: Zone) -> str:
    if name != _DATE:
        return constant(now, types.TIMESTAMPTZ, zone)
    offset = int(zone.offsets(np.array([now], np.int64))[0])
    return constant((now + offset * 1_000_000) // _DAY, types.DATE, zone)
