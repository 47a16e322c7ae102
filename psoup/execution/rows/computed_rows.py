"""The way that shows any plan: the nodes of the plan sort and group its rows and compute its columns."""

from __future__ import annotations

from collections.abc import Iterator

from psoup.execution.rows.answer_case import AnswerCase, AnswerPart


def computed_rows(case: AnswerCase) -> Iterator[AnswerPart]:
    """Compute the rows, in order. Raises ResourceExhausted if the plan must sort, join or group too many rows."""
    outputs = [output.expr for output in case.plan.schema]
    yield from case.rows().columns(outputs, case.most_rows)
