"""Update patterns: how rows are added to the result of an operator, and removed (Golab and Özsu, SIGMOD 2005).

    monotonic ──> weakest ──> weak ──> strict          each allows more changes than the one on its left

    patterns of the inputs ──> RULES[kind of operator] ──> pattern of the result

The paper labels the leaves (windows) as weakest. Here a window that only grows is monotonic. The paper calls a pattern
weak if the removal time of a row is known when the row is added. For a window of the last n rows that time is not
known. But rows leave in the order of their arrival. So here a pattern is weak if each row leaves with its tuples, at
any time.

NOW of a join may step back, a case that the paper lacks. The join ignores an idle stream (IDLE AFTER). When that stream
goes on, it has an earlier time than the other streams. Then rows leave although their tuples stay, and come back later.
So such a join is strict.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence


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


class Operator(enum.Enum):
    """The kinds of operators that the rules distinguish."""

    UNARY_WEAKEST = "selection, projection, join with a relation that is not retroactive"
    BINARY_WEAKEST = "merge-union"
    WEAK = "join, duplicate elimination, intersection"
    GROUP_BY = "aggregates by group"
    STRICT = "negation, join with a relation or an idle stream, the first rows of another order than that of arrival"


Rule = Callable[[Sequence[Pattern]], Pattern]


def _weak(inputs: Sequence[Pattern]) -> Pattern:
    """The rule of `WEAK`: at least weak, but monotonic if all inputs are monotonic. The paper omits the second case."""
    worst = max(inputs)
    return worst if worst is Pattern.MONOTONIC else max(worst, Pattern.WEAK)


RULES: Mapping[Operator, Rule] = {
    Operator.UNARY_WEAKEST: lambda inputs: inputs[0],
    Operator.BINARY_WEAKEST: max,
    Operator.WEAK: _weak,
    Operator.GROUP_BY: lambda inputs: Pattern.WEAK,
    Operator.STRICT: lambda inputs: Pattern.STRICT,
}
"""The rule for each kind of operator: the five rules of section 5.2 of the paper."""
