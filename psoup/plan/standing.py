"""A standing query after binding: what the engine joins with data."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal

from psoup.model import WindowClause
from psoup.plan.factors import Factor
from psoup.plan.nodes import Node, Output, Source

Parameter = bool | int | float | str | Decimal | datetime.datetime | datetime.date | None
"""A value for a parameter of a statement; a time without a zone is UTC."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a query selects of one stream: FROM and WHERE of a source.

    `clause` is the canonical FROM-WHERE text, the identity of the standing query clause (SQC) that queries share:
    equal clauses of one stream have equal factors. `factors` () matches every tuple.
    """

    source: Source
    clause: str
    factors: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class StandingQuery:
    """A registered text, bound: what it selects of each source of its plan, in the order of FROM.

    Today there is one, and `stream`, `window`, `clause` and `factors` are that one's.
    """

    text: str
    selections: tuple[Selection, ...]
    plan: Node

    @property
    def select(self) -> tuple[Output, ...]:
        """The columns of the answer."""
        return self.plan.schema

    @property
    def stream(self) -> str:
        """The stream's name."""
        (selection,) = self.selections
        return selection.source.spec.name

    @property
    def window(self) -> WindowClause:
        """The window's bounds."""
        (selection,) = self.selections
        return selection.source.window

    @property
    def clause(self) -> str:
        """The canonical FROM-WHERE text."""
        (selection,) = self.selections
        return selection.clause

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What a tuple must satisfy."""
        (selection,) = self.selections
        return selection.factors
