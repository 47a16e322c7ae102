"""The kinds of parts that a statement has, for counts: joins by their words, subselects, set operations, OVER, …."""

from __future__ import annotations

from collections.abc import Iterator

from psoup_testing.histories.composed_items import Constants, Derived, Ranked, Step
from psoup_testing.histories.composed_parts import (
    Compared,
    Condition,
    Exists,
    Measure,
    Over,
    Scalar,
    Select,
    SetOperation,
    With,
)


def kinds_of(statement: Ranked) -> set[str]:
    """The kinds of all parts of a statement, each once."""
    return set(_kinds(statement))


def _kinds(statement: Ranked) -> Iterator[str]:
    if isinstance(statement, With):
        yield "WITH"
        yield from _kinds(statement.body)
    elif isinstance(statement, SetOperation):
        yield f"{statement.operator}{' ALL' * statement.all}"
        yield from _kinds(statement.left)
        yield from _kinds(statement.right)
    elif isinstance(statement, Select):
        yield from _select(statement)


def _select(select: Select) -> Iterator[str]:
    for step in select.steps:
        for inner in step.steps:
            yield from _step(inner)
        if step.more:
            yield "join in parentheses"
    for condition in select.where:
        yield from _condition(condition)
    outputs = select.outputs
    yield from (str(output.call.split("(")[0]) + " OVER" for output in outputs if isinstance(output, Over))
    for output in outputs:
        if isinstance(output, Scalar):
            yield "scalar subselect"
            yield from _kinds(output.query)
    if any(isinstance(output, Measure) for output in outputs):
        yield "aggregates above"
    flags = {
        "DISTINCT": select.distinct,
        "DISTINCT ON": bool(select.distinct_on),
        "QUALIFY": select.qualify is not None,
        "ORDER BY": bool(select.keys),
        "LIMIT": select.limit is not None,
    }
    yield from (name for name, flag in flags.items() if flag)


def _step(step: Step) -> Iterator[str]:
    word = step.word.replace(" OUTER", "")
    if word:
        yield word
    if step.using:
        yield "NATURAL" if "NATURAL" in word else f"{word} USING"
    if isinstance(step.item, Derived):
        yield "subselect in FROM"
        yield from _kinds(step.item.statement)
    if isinstance(step.item, Constants):
        yield "VALUES"


def _condition(condition: Condition) -> Iterator[str]:
    if isinstance(condition, str):
        return
    if isinstance(condition, Compared):
        yield "scalar subselect"
    else:
        yield f"{'NOT ' * condition.negated}{'EXISTS' if isinstance(condition, Exists) else 'IN'}"
    yield from _kinds(condition.query)
