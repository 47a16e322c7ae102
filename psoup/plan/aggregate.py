"""Aggregates in a plan: one row for each group of input rows, and the filter by HAVING.

    Project sym, n / 2          reads the columns of groups, by their place among keys and measures
      Having count(*) > 3       the groups that satisfy a condition
        Aggregate sym; count(*), sum(price)     a row for each value of the keys; without keys one row
          Source trades ...

The columns of an Aggregate are its keys, then its measures. All later nodes read them as attributes of the source
GROUPED.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.tree import GROUPED, AttributeRef, Expr, Literal
from psoup.model import TEXT, DataType
from psoup.plan.above import Above
from psoup.plan.canonical import literal_text
from psoup.plan.inputs import OrderKey, Output, names_of
from psoup.plan.patterns import Operator
from psoup.plan.written_text import written_expr

if TYPE_CHECKING:
    from psoup.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate function over the rows of a group. The function `count` without arguments counts rows.

    `condition`: the condition of FILTER, which a row must satisfy to count. `fraction`: the fraction of a quantile, or
    None. `order`: ORDER BY inside the aggregate: for each key, whether it is descending, and whether its NULLs come
    first. The keys themselves are the last of `args`. `separator`: the text between the values of STRING_AGG.
    """

    function: str
    args: tuple[Expr, ...]
    type: DataType
    distinct: bool = False
    condition: Expr | None = None
    fraction: float | None = None
    order: tuple[tuple[bool, bool], ...] = ()
    separator: str = ""

    def text(self, names: tuple[str, ...] = ()) -> str:
        """The text for people. Equal measures have equal texts. `names` as in `expr_text`."""
        texts = [written_expr(arg, names) for arg in self.args]
        args, keys = texts[: len(texts) - len(self.order)] or ["*"], texts[len(texts) - len(self.order) :]
        if self.fraction is not None:
            args.append(repr(self.fraction))
        if self.function == "string_agg":
            args.append(literal_text(Literal(TEXT, self.separator)))
        sorting = [
            f"{key}{' DESC' * descending}{' NULLS FIRST' * nulls_first}"
            for key, (descending, nulls_first) in zip(keys, self.order, strict=True)
        ]
        order = f" ORDER BY {', '.join(sorting)}" if sorting else ""
        text = f"{self.function}({'DISTINCT ' * self.distinct}{', '.join(args)}{order})"
        return text if self.condition is None else f"{text} FILTER (WHERE {written_expr(self.condition, names)})"


@dataclass(frozen=True, slots=True)
class Aggregate(Above):
    """GROUP BY: computes a row for each group of input rows with equal `keys`, in the order of the keys.

    Without keys, the result is one row.
    """

    input: Node
    keys: tuple[Expr, ...]
    measures: tuple[Measure, ...]

    @property
    def columns(self) -> tuple[AttributeRef, ...]:
        """The node's columns, as later nodes refer to them: the keys, then the measures."""
        names = names_of(self)
        texts = [written_expr(key, names) for key in self.keys] + [measure.text(names) for measure in self.measures]
        types = [key.type for key in self.keys] + [measure.type for measure in self.measures]
        named = enumerate(zip(types, texts, strict=True))
        return tuple(AttributeRef(kind, place, text, GROUPED) for place, (kind, text) in named)

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the node's rows."""
        return tuple(Output(column.name, column) for column in self.columns)

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the node's rows: by the keys."""
        return tuple(map(OrderKey, self.columns[: len(self.keys)]))

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.GROUP_BY

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        names = names_of(self)
        keys = ", ".join(written_expr(key, names) for key in self.keys)
        measures = ", ".join(measure.text(names) for measure in self.measures)
        head = f"Aggregate {measures}".rstrip()
        return f"{head} BY {keys}" if keys else head


@dataclass(frozen=True, slots=True)
class Having(Above):
    """HAVING: keeps the groups of the input that satisfy `condition`. The condition reads the columns of the groups."""

    input: Node
    condition: Expr

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.STRICT

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"Having {written_expr(self.condition, names_of(self))}"
