"""A SELECT that is asked once beside the same query, registered: the same rows, completeness and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from psoup.answer.invoke import Answer
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup_testing.histories import Row
from psoup_testing.values import plain_values

TIMES = 4
"""The times that each question is asked: structures that the first ones leave serve the last."""


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
    told = _told(lambda: psoup.ask(sql, as_of, window, truncation))
    assert psoup.engine.snapshot() is root, f"asking has published something: {sql}"
    assert (psoup.admission.sequence, psoup.admission.next_query) == (sequence, query_id), f"an ID was taken: {sql}"
    return told


def same_answers(invoke: Callable[[], Answer], asked: Told, sql: str) -> None:
    """The query, registered, answers as it did when it was asked once."""
    told = _told(invoke)
    assert repr(told) == repr(asked), f"registered: {told}\nasked: {asked}\n{sql}"


def _told(invoke: Callable[[], Answer]) -> Told:
    try:
        answer = invoke()
        told = answer.completeness
        return rows_of(answer), (told.now, told.sources, answer.select_errors)
    except PSoupError as problem:
        return str(problem)
