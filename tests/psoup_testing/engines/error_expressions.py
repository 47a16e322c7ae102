"""Expressions that raise when they are evaluated: at rows that hold a value, or at calls that a test chooses.

    with raising({"abs": poison(13)}):            abs(a) raises MemoryError where a row of a is 13, however few rows
    with raising({"abs": poison(13)}, moods):     and besides whenever `moods()` says so and there is more than one row

The evaluators themselves are replaced, behind the port by which the engine evaluates. The code that catches and
remembers errors is real. A row is poisoned or it is not, so an answer has one truth: such a row has an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from psoup.expressions.evaluate import EVALUATORS
from psoup.expressions.frame import Evaluator, Frame
from psoup.expressions.tree import Call, Literal
from psoup.values.columns import Column

Poison = Callable[[Column], bool]
"""Whether a column of arguments holds a value that cannot be borne."""

PROBLEMS = (MemoryError, RecursionError, KeyError)


def poison(value: int | str) -> Poison:
    """Rows with just this value."""

    def holds(column: Column) -> bool:
        return value in column.to_arrow().to_pylist()

    return holds


@contextmanager
def raising(rules: Mapping[str, Poison], moods: Callable[[], bool] = lambda: False) -> Iterator[list[str]]:
    """The named evaluators raise while this is open; the list tells which did, in order."""
    reasons = list[str]()
    real = {name: EVALUATORS[name] for name in rules}

    def wrapped(name: str, evaluator: Evaluator) -> Evaluator:
        def evaluate(call: Call, frame: Frame) -> Column:
            argument = frame.column(call.args[0])
            if not isinstance(call.args[0], Literal) and (rules[name](argument) or (frame.rows > 1 and moods())):
                reasons.append(name)
                raise PROBLEMS[len(reasons) % len(PROBLEMS)](f"{name} over {frame.rows} rows")
            return evaluator(call, frame)

        return evaluate

    EVALUATORS.update({name: wrapped(name, evaluator) for name, evaluator in real.items()})
    try:
        yield reasons
    finally:
        EVALUATORS.update(real)
