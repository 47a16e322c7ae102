"""Evaluation of bound trees, a column at a time: numbers and times with NumPy, text with Arrow.

    evaluate(price * 2 > volume, rows)  ->  mul  ->  gt  ->  Column(BOOLEAN): values, valid, error

Every subtree is computed for all rows of the scope, once. CASE and COALESCE choose afterwards, so what happens in a
branch not taken leaves no trace. No evaluator loops over rows in Python. Nothing here knows SQL text or types rules.
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Column
from psoup.expressions import casts, comparisons, conditional, like, logic, numeric, rounding, temporal, text
from psoup.expressions.frame import Evaluator, Frame, Scope
from psoup.expressions.tree import Expr

__all__ = ["EVALUATORS", "Scope", "evaluate"]

EVALUATORS: dict[str, Evaluator] = {
    **logic.EVALUATORS,
    **comparisons.EVALUATORS,
    **numeric.EVALUATORS,
    **rounding.EVALUATORS,
    **conditional.EVALUATORS,
    **casts.EVALUATORS,
    **text.EVALUATORS,
    **like.EVALUATORS,
    **temporal.EVALUATORS,
}
"""Canonical name -> how its column is computed; the same names as in `functions.FUNCTIONS`, and the two casts."""


def evaluate(expr: Expr, scope: Scope) -> Column:
    """The value of `expr` in every row of `scope`; never raises for a value, marks the row in `error` instead.

    O(rows * nodes) for numbers and times; text costs what its bytes cost.
    """
    with np.errstate(all="ignore"):
        return Frame(scope, EVALUATORS).column(expr)
