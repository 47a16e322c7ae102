"""The present time by PostgreSQL's names: in conditions of a SELECT, and in VALUES.

    WHERE at > NOW() - INTERVAL '1 day'   ─>  WHERE at > TIMESTAMP '2026-07-01 12:30:00' - INTERVAL '1 day'

Tools write relative dates like this. PSoup's own NOW stays in the SELECT list and in windows, where a standing query
evaluates it again and again. A statement of the port is evaluated once. So each name in a condition is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

from psoup_service.pg.statements.parameters import constant
from psoup_service.pg.statements.texts import CLOSING, OPENING, Edit
from psoup_service.pg.values import types
from psoup_service.pg.values.zones import Zone

CALLED = ("NOW", "TRANSACTION_TIMESTAMP", "STATEMENT_TIMESTAMP", "CLOCK_TIMESTAMP")
TIMES = ("CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
DATE = "CURRENT_DATE"
NAMES = (*CALLED, *TIMES, DATE)
"""The names of the present time."""

_LIST, _CONDITION, _WINDOW = range(3)
_PARTS = {
    TokenType.SELECT: _LIST,
    TokenType.FROM: _CONDITION,
    TokenType.BEGIN: _WINDOW,
    TokenType.END: _WINDOW,
}
_DAY = 86_400_000_000
_MICROSECONDS = 6
"""The digits of a second's fraction, if a statement states none."""


class Now(NamedTuple):
    """The present in microseconds since 1970: of the transaction, and by the clock."""

    transaction: int
    clock: int


@dataclass(frozen=True, slots=True)
class PresentTime:
    """A present time of the type `oid`, rounded to `digits` of a second's fraction.

    `by_clock`: the time of the clock, and not of the transaction.
    """

    oid: int
    digits: int = _MICROSECONDS
    by_clock: bool = False

    @staticmethod
    def named(name: str, digits: int = _MICROSECONDS) -> PresentTime:
        """The present time with one of `NAMES`."""
        if name == DATE:
            return PresentTime(types.DATE)
        oid = types.TIMESTAMP if name == "LOCALTIMESTAMP" else types.TIMESTAMPTZ
        return PresentTime(oid, digits, name in ("STATEMENT_TIMESTAMP", "CLOCK_TIMESTAMP"))

    def cast(self, oid: int, digits: int = _MICROSECONDS) -> PresentTime:
        """The present time as another type of time. A date stays a date: its time of day is midnight."""
        return self if self.oid == types.DATE else replace(self, oid=oid, digits=min(digits, self.digits))

    def value(self, now: Now, zone: Zone) -> int:
        """The plain value: microseconds since 1970 (of local time for TIMESTAMP), or days."""
        step, micros = 10 ** (_MICROSECONDS - self.digits), now.clock if self.by_clock else now.transaction
        micros = (micros + step // 2) // step * step
        if self.oid == types.TIMESTAMPTZ:
            return micros
        local = zone.local(micros)
        return local // _DAY if self.oid == types.DATE else local


def constants(tokens: Sequence[Token], now: int, zone: Zone) -> Iterator[Edit]:
    """The edits that put constants in the places of the present time. `now`: microseconds since 1970.

    Names in a SELECT list or in a window are left as they are.
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
                time = PresentTime.named(token.text.upper())
                yield Edit(token.start, stop, constant(time.value(Now(now, now), zone), time.oid, zone))


def _stop(tokens: Sequence[Token], at: int) -> int | None:
    """The end of the name of the present time at `at`, with its parentheses; None if it is another name."""
    before = tokens[at - 1].token_type if at else None
    if before is TokenType.DOT or tokens[at].token_type is TokenType.IDENTIFIER:
        return None
    called = [token.token_type for token in tokens[at + 1 : at + 4]]
    if called[:2] == [TokenType.L_PAREN, TokenType.R_PAREN]:
        return int(tokens[at + 2].end) + 1
    if tokens[at].text.upper() in CALLED:
        return None
    if called == [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]:
        return int(tokens[at + 3].end) + 1
    return int(tokens[at].end) + 1
