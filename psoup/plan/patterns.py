"""Update patterns: how rows are added to the result of an operator, and removed (Golab and Özsu, SIGMOD 2005).

    monotonic ──> weakest ──> weak ──> strict          each allows more changes than the one on its left

    updates of the inputs ──> RULES[kind of operator] ──> pattern of the result
                          ──> all their clocks ─────────> clocks of the result

The paper labels the leaves (windows) as weakest. Here a window that only grows is monotonic. The paper calls a pattern
weak if the removal time of a row is known when the row is added. For a window of the last n rows that time is not
known. But rows leave in the order of their arrival. So here a pattern is weak if each row leaves with its tuples, at
any time.

The paper has windows of time only, all of one length. Here an edge of a plan also has the clocks by which its rows
leave: time, or the row clock of a stream. Two inputs whose rows leave by different clocks are not in one order.

NOW of a join may step back, a case that the paper lacks. The join ignores an idle stream (IDLE AFTER). When that stream
goes on, it has an earlier time than the other streams. Then rows leave although their tuples stay, and come back later.
So the sources of such a join are strict.

An edge also has a bound of the state that keeping its result up to date takes (`StateBound`, and for each node
`psoup.plan.state_bounds`): a number of rows, the tuples of a time, or no bound, with the reason.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from psoup.phrases import counted


class Pattern(enum.IntEnum):
    """An update pattern. The simplest is the least. An operator's pattern is at least the greatest of its inputs'
    patterns."""

    MONOTONIC = 0
    WEAKEST = 1
    WEAK = 2
    STRICT = 3

    @property
    def title(self) -> str:
        """The name in the paper."""
        return "monotonic" if self is Pattern.MONOTONIC else f"{self.name.lower()} non-monotonic"

    @property
    def meaning(self) -> str:
        """The pattern in plain words, for the rows of an answer."""
        return _MEANINGS[self]


_MEANINGS = {
    Pattern.MONOTONIC: "rows only come; none ever leaves",
    Pattern.WEAKEST: "rows leave in the order in which they came",
    Pattern.WEAK: "a row leaves with the tuples that it is made of, not always in the order in which rows came",
    Pattern.STRICT: "a row may leave or change at any time, as others push it out or NOW moves",
}


class UpdateClock(NamedTuple):
    """A clock by which rows leave: time, or the row clock of a stream, which ticks with each of its tuples.

    `stay`: the ticks from the coming of a row until it leaves; None if they differ from row to row. `stream`: the
    stream that ticks; "" for NOW, which all streams of a statement share.
    """

    stream: str = ""
    rows: bool = False
    stay: int | None = None

    @property
    def text(self) -> str:
        """The clock for people: `time`, or `rows of trades`."""
        return f"rows of {self.stream}" if self.rows else "time"


TIME = UpdateClock()
"""Time, with rows that leave after no fixed stay."""


@dataclass(frozen=True, slots=True)
class Updates:
    """The update pattern of an edge of a plan, and the clocks by which its rows leave: none if it is monotonic.

    `settled`: the simpler updates of rows that the answer has shown for more than `after` microseconds. None if time
    settles nothing.
    """

    pattern: Pattern
    clocks: frozenset[UpdateClock] = frozenset()
    settled: Updates | None = None
    after: int = 0

    @property
    def clock_texts(self) -> tuple[str, ...]:
        """The names of the clocks, `time` first."""
        return tuple(sorted({clock.text for clock in self.clocks}, key=lambda text: (text != TIME.text, text)))

    @property
    def finally_(self) -> Updates:
        """The updates of settled rows."""
        return self.settled or self


class Operator(enum.Enum):
    """The kinds of operators that the rules distinguish."""

    UNARY_WEAKEST = "selection, projection, join with a relation that is not retroactive"
    BINARY_WEAKEST = "merge-union"
    WEAK = "join, duplicate elimination, intersection"
    GROUP_BY = "aggregates by group"
    STRICT = "negation, join with a relation or an idle stream, the first rows of another order than that of arrival"


Rule = Callable[[Sequence[Updates]], Pattern]


def _worst(inputs: Sequence[Updates]) -> Pattern:
    return max(updates.pattern for updates in inputs)


def _merged(inputs: Sequence[Updates]) -> Pattern:
    """The rule of `BINARY_WEAKEST`: the worst input, but weak if rows of two inputs leave after different stays."""
    if _worst(inputs) is not Pattern.WEAKEST:
        return _worst(inputs)
    leaving = {updates.clocks for updates in inputs if updates.pattern is Pattern.WEAKEST}
    (clocks, *more) = leaving
    several = sum(updates.pattern is Pattern.WEAKEST for updates in inputs) > 1
    unsteady = several and any(clock.stay is None for clock in clocks)
    return Pattern.WEAK if more or unsteady else Pattern.WEAKEST


def _weak(inputs: Sequence[Updates]) -> Pattern:
    """The rule of `WEAK`: at least weak, but monotonic if all inputs are monotonic. The paper omits the second case."""
    worst = _worst(inputs)
    return worst if worst is Pattern.MONOTONIC else max(worst, Pattern.WEAK)


RULES: Mapping[Operator, Rule] = {
    Operator.UNARY_WEAKEST: lambda inputs: inputs[0].pattern,
    Operator.BINARY_WEAKEST: _merged,
    Operator.WEAK: _weak,
    Operator.GROUP_BY: lambda inputs: Pattern.WEAK,
    Operator.STRICT: lambda inputs: Pattern.STRICT,
}
"""The rule for each kind of operator: the five rules of section 5.2 of the paper."""

_SETTLING = (Operator.UNARY_WEAKEST, Operator.BINARY_WEAKEST, Operator.WEAK)
"""Operators that remove a row only when a row of an input leaves, so that settled inputs have settled results."""


def combined(operator: Operator, inputs: Sequence[Updates], added: frozenset[UpdateClock] = frozenset()) -> Updates:
    """The updates of an operator's result. `added`: the clocks by which the operator itself removes rows."""
    updates = _combined(operator, inputs, added)
    if operator not in _SETTLING:
        return updates
    settled = _combined(operator, [each.finally_ for each in inputs], added)
    return lowered(updates, settled, max(each.after for each in inputs))


def lowered(updates: Updates, settled: Updates, after: int) -> Updates:
    """The updates, with the updates of settled rows if these are simpler."""
    if settled.pattern >= updates.pattern:
        return updates
    return Updates(updates.pattern, updates.clocks, settled, after)


def _combined(operator: Operator, inputs: Sequence[Updates], added: frozenset[UpdateClock]) -> Updates:
    return Updates(RULES[operator](inputs), added.union(*(updates.clocks for updates in inputs)))


class Amount(NamedTuple):
    """A number of rows with a bound, or without one.

    `text`: what bounds them, in words. `rows`: the most rows, None if that is not known beforehand. `place`: the source
    whose tuples they are, None for other rows. `unbounded`: the reason why nothing bounds them, "" if something does.
    """

    text: str
    rows: int | None = None
    place: int | None = None
    unbounded: str = ""


class StateRows(NamedTuple):
    """Rows of a state: at most the product of `factors`. `width`: the bytes of the values of a row, None if not known.

    A join has several factors: each pair of rows may be in it.
    """

    factors: tuple[Amount, ...]
    width: int | None = None

    @property
    def rows(self) -> int | None:
        """The most rows, None if that is not known beforehand."""
        counts = [each.rows for each in self.factors if each.rows is not None]
        return prod(counts) if len(counts) == len(self.factors) else None

    @property
    def nbytes(self) -> int | None:
        """The most bytes of values, None if that is not known beforehand."""
        return None if self.rows is None or self.width is None else self.rows * self.width


@dataclass(frozen=True, slots=True)
class StateBound:
    """The bound of the state that keeping the result of an edge up to date takes: at most the sum of `parts`.

    Without parts, it takes no state. Bytes count the values alone; the tables that find the rows come on top.
    """

    parts: tuple[StateRows, ...] = ()

    @property
    def rows(self) -> int | None:
        """The most rows. None without a bound, or if it depends on the number of tuples."""
        counts = [each.rows for each in self.parts if each.rows is not None]
        return sum(counts) if len(counts) == len(self.parts) else None

    @property
    def nbytes(self) -> int | None:
        """The most bytes of the values. None as for `rows`, or if a value has no fixed size."""
        sizes = [each.nbytes for each in self.parts if each.nbytes is not None]
        return sum(sizes) if len(sizes) == len(self.parts) else None

    @property
    def limitless(self) -> Amount | None:
        """The first amount without a bound. None if the state has a bound."""
        return next((amount for part in self.parts for amount in part.factors if amount.unbounded), None)

    @property
    def unbounded(self) -> str:
        """The reason why the state has no bound. "" if it has one."""
        amount = self.limitless
        return "" if amount is None else amount.unbounded

    @property
    def text(self) -> str:
        """The bound in words."""
        if not self.parts:
            return "no state"
        if self.unbounded:
            return f"unbounded, as {self.unbounded}"
        if self.rows is not None:
            size = f", {counted(self.nbytes, 'byte')}" if self.nbytes else ""
            return f"at most {counted(self.rows, 'row')}{size}"
        texts = Counter(" × ".join(amount.text for amount in part.factors) for part in self.parts)
        return " and ".join(text if times == 1 else f"{times} × {text}" for text, times in texts.items())

    @property
    def facts(self) -> dict[str, Any]:
        """The bound as plain values, for programs."""
        return {"rows": self.rows, "bytes": self.nbytes, "text": self.text, "unbounded": self.unbounded}


NO_STATE = StateBound()
"""The bound of a result that is kept up to date from new tuples alone."""
