"""The rows of any plan as columns: expressions computed, rows sorted, told apart, grouped, as its nodes say."""

from __future__ import annotations

from collections.abc import Iterator

from psoup.execution.rows.answer_case import AnswerCase, AnswerPart


def computed_rows(case: AnswerCase) -> Iterator[AnswerPart]:
    """The rows in their order. Raises ResourceExhausted if too many have to be sorted, joined or grouped."""
    outputs = [output.expr for output in case.plan.schema]
    yield from case.rows().columns(outputs, case.most_rows)
