"""The items of WITH: names for subselects. An item is bound anew wherever it is read.

    WITH t AS (SELECT …), u AS (SELECT … FROM t) SELECT … FROM u, t
         └─ reads no item     └─ reads t                    reads t and u

An item reads the items before it, and the items of the statements around it. So no item reads itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class WithItem:
    """An item of WITH. `visible`: the items that its SELECT may read, by their names in lower case."""

    node: exp.CTE
    visible: Mapping[str, WithItem]

    @property
    def columns(self) -> list[exp.Identifier]:
        """The new names of the first columns: a and b of `t(a, b)`."""
        return self.node.args["alias"].args.get("columns") or []


def with_items(query: exp.Expr, visible: Mapping[str, WithItem]) -> Mapping[str, WithItem]:
    """The items that a query may read. `visible`: the items that the statement around it may read."""
    clause = query.args.get("with_")
    for node in () if clause is None else clause.expressions:
        visible = {**visible, node.alias.lower(): WithItem(node, visible)}
    return visible
