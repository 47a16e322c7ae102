"""Questions that are asked again and again, and a SELECT beside the same query, registered: the same answers.

    rows = rows_of(again(soup.invoke, query, window=window))     asked `TIMES` times; the rows were the same each time

The first questions note what is asked for, and make what is kept; the later ones are answered from it. A test in
`tests/project` finds random tests that ask without this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

from psoup.answer.invoke import Answer
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup_testing.histories.histories import Row
from psoup_testing.histories.values import plain_values
from psoup_testing.suite.kept_structures import KEPT

TIMES = 4
"""The times that each question is asked: structures that the first ones leave serve the last."""


Given = ParamSpec("Given")
Asked = TypeVar("Asked")


def again(ask: Callable[Given, Asked], *given: Given.args, **named: Given.kwargs) -> Asked:
    """Ask a question `TIMES` times, and compare the rows of the answers with one another; returns the last answer."""
    answer, first = None, None
    for time in range(TIMES):
        with KEPT.compared():
            answer = ask(*given, **named)
            facts = _told_by(answer)
            first = facts if time == 0 else first
            assert same_rows(first, facts), f"at first: {first}\nthe {time + 1}. time: {facts}\n{given} {named}"
    assert answer is not None
    return answer


async def again_awaited(ask: Callable[Given, Awaitable[Asked]], *given: Given.args, **named: Given.kwargs) -> Asked:
    """`again` for a coroutine."""
    answers = [await ask(*given, **named) for _ in range(TIMES)]
    replies = iter(answers)
    return again(lambda: next(replies))


def same_rows(first: Any, other: Any) -> bool:
    """Whether two tables, lists of them, or other values are the same; rows of tables may come in any order."""
    if isinstance(first, list):
        return len(first) == len(other) and all(map(same_rows, first, other))
    if not isinstance(first, pa.Table):
        return bool(first == other)
    if first.schema != other.schema:
        return False
    if first.equals(other) or same_bits(first, other):
        return True
    return sorted(map(repr, plain_rows(first))) == sorted(map(repr, plain_rows(other)))


def same_bits(left: pa.Table, right: pa.Table) -> bool:
    """Whether all values of two tables are the same, bit for bit: NaN equals itself, and 0.0 is not -0.0."""
    return _with_bits(left).equals(_with_bits(right))


def _with_bits(table: pa.Table) -> pa.Table:
    """The table with each DOUBLE as the number that its bits are."""
    for place, field in enumerate(table.schema):
        if field.type == pa.float64():
            bits = pa.chunked_array([chunk.view(pa.int64()) for chunk in table.column(place).chunks], pa.int64())
            table = table.set_column(place, field.name, bits)
    return table


def _told_by(answer: Any) -> Any:
    """The rows of an answer, those of a list of answers, or what else it says."""
    if isinstance(answer, list | tuple):
        return [_told_by(each) for each in answer]
    for name in ("to_table", "to_arrow"):
        if hasattr(answer, name):
            return getattr(answer, name)()
    return answer if isinstance(answer, pa.Table) else repr(answer)


def rows_of(answer: Answer) -> list[Row]:
    """All rows of an answer as plain values."""
    return plain_rows(answer.to_table())


def plain_rows(table: pa.Table) -> list[Row]:
    """All rows of a table as plain values."""
    columns = [plain_values(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


Told = tuple[list[Row], Any] | str
"""Rows and completeness, or the message of a refusal."""


def asked_once(
    psoup: LocalPSoup, sql: str, as_of: int | None = None, window: str | None = None, truncation: bool = False
) -> Told:
    """The answer of a SELECT that is not registered; it changes nothing."""
    root, sequence, query_id = psoup.engine.snapshot(), psoup.admission.sequence, psoup.admission.next_query
    outcome = _told(lambda: psoup.ask(sql, as_of, window, truncation))
    assert psoup.engine.snapshot() is root, f"asking has published something: {sql}"
    assert (psoup.admission.sequence, psoup.admission.next_query) == (sequence, query_id), f"an ID was taken: {sql}"
    return outcome


def same_answers(invoke: Callable[[], Answer], expected: Told, sql: str) -> None:
    """The query, registered, answers as it did when it was asked once."""
    outcome = _told(invoke)
    assert repr(outcome) == repr(expected), f"registered: {outcome}\nasked: {expected}\n{sql}"


def _told(invoke: Callable[[], Answer]) -> Told:
    try:
        answer = invoke()
        completeness = answer.completeness
        return rows_of(answer), (completeness.now, completeness.sources, answer.select_errors)
    except PSoupError as problem:
        return str(problem)
