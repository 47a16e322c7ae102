"""A standing query after binding: what the engine joins with data."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal

from psoup.expressions.tree import Expr
from psoup.model import DataType, WindowClause
from psoup.plan.factors import Factor

Parameter = bool | int | float | str | Decimal | datetime.datetime | datetime.date | None
"""A value for a parameter of a statement; a time without a zone is UTC."""


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the SELECT list."""

    name: str
    expr: Expr

    @property
    def type(self) -> DataType:
        """The column's type."""
        return self.expr.type


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of ORDER BY; NULLs come last unless `nulls_first`, in both directions."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class StandingQuery:
    """A registered text, bound to one stream.

    `clause` is the canonical FROM-WHERE text, the identity of the standing query clause (SQC) that queries share:
    equal clauses of one stream have equal factors. `factors` () matches every tuple.
    """

    text: str
    stream: str
    clause: str
    select: tuple[Output, ...]
    factors: tuple[Factor, ...]
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    window: WindowClause = WindowClause()
