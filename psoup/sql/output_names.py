"""The names of the SELECT list, as ORDER BY, GROUP BY and HAVING refer to them.

    SELECT a.k, b.k, b.v AS w … ORDER BY w   ->   b.v
                                ORDER BY k   ->   refused: two columns have the name, with different values

Names do not differ by case. A name may repeat if no part of the statement refers to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from psoup.expressions.tree import Expr
from psoup.plan.nodes import Output
from psoup.sql.source import StatementText

OutputNames = Mapping[str, tuple[Expr, ...]]
"""For each name in lower case, the different expressions of the outputs with that name."""


def output_names(outputs: Iterable[Output]) -> OutputNames:
    """The names of the SELECT list."""
    names: dict[str, dict[Expr, None]] = {}
    for output in outputs:
        names.setdefault(output.name.lower(), {})[output.expr] = None
    return {name: tuple(exprs) for name, exprs in names.items()}


def output_of(source: StatementText, names: OutputNames, node: exp.Expr) -> Expr:
    """The output that the name `node` means. Raises SqlError, reason AMBIGUOUS_COLUMN, if several are possible."""
    exprs = names[node.name.lower()]
    if len(exprs) > 1:
        raise source.error(
            f"{len(exprs)} columns of the SELECT list are called {node.name[:128]!r}, so the name is ambiguous",
            node,
            hint="name one with AS, or write the source before it, or the number of the column in the list",
            reason="AMBIGUOUS_COLUMN",
        )
    return exprs[0]
