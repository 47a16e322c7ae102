"""VALUES, and SELECTs without FROM: rows of constants.

VALUES (1, 'a'), (2, NULL)   ->   rows of col0 BIGINT, col1 TEXT
SELECT 1 AS a, 'x'           ->   a row of a BIGINT, 'x' TEXT
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from psoup.expressions.conversion import cast, common_type
from psoup.expressions.tree import SET_COLUMNS, AttributeRef, Literal, LongNumber
from psoup.model import DataType
from psoup.plan.nodes import Output, Values
from psoup.sql.binder import Binder
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.scope import Scope
from psoup.sql.select_list import listed_outputs

MAX_ROWS = 10_000
"""The most rows of one VALUES."""

_ROW = "VALUES has rows of constants: VALUES (1, 'a'), (2, 'b')"


def values_plan(composition: Composition, node: exp.Values) -> Values:
    """The rows of VALUES. Raises SqlError if they are not constants, or not equally long."""
    source = composition.source
    rows: list[list[Literal]] = []
    binder = Binder(source, Scope(source), composition.parameters)
    for row in node.expressions:
        cells = [_constant(binder, cell) for cell in row.expressions]
        if not cells or len(cells) != len(rows[0] if rows else cells):
            raise source.error("the rows of VALUES have different numbers of values", row, hint=_ROW)
        rows.append(cells)
    if len(rows) > MAX_ROWS:
        raise source.error(
            f"VALUES has at most {MAX_ROWS:,} rows, not {len(rows):,}", node, hint="push them to a stream"
        )
    names = [f"col{place}" for place in range(len(rows[0]))]
    with source.placed(node):
        return _values(names, rows)


def constant_select(composition: Composition, select: exp.Select) -> Values:
    """The row of a SELECT without FROM. Raises SqlError if it is not a list of constants."""
    source = composition.source
    for part in ("where", "group", "having"):
        if (node := select.args.get(part)) is not None:
            raise source.error("FROM is missing", node, hint="name the stream: SELECT ... FROM stream")
    outputs = listed_outputs(source, select, Binder(source, Scope(source), composition.parameters))
    row = []
    for item, output in zip(select.expressions, outputs, strict=True):
        if not isinstance(output.expr, Literal):
            raise source.error("a SELECT without FROM has constants only", item, hint="name the stream: … FROM stream")
        row.append(output.expr)
    return _values([output.name for output in outputs], [row])


def _constant(binder: Binder, node: exp.Expr) -> Literal:
    constant = binder.constant(node)
    if constant is None:
        raise binder.source.error("VALUES has constants only", node, hint=_ROW)
    return constant


def _values(names: Sequence[str], rows: Sequence[Sequence[Literal]]) -> Values:
    """The plan node of some rows, whose columns get common types. Raises InvalidInput."""
    types = [common_type(column, "VALUES") for column in zip(*rows, strict=True)]
    converted = [[_cast(cell, kind) for cell, kind in zip(row, types, strict=True)] for row in rows]
    outputs = [
        Output(name, AttributeRef(kind, place, name, SET_COLUMNS))
        for place, (name, kind) in enumerate(zip(names, types, strict=True))
    ]
    return Values(tuple(map(tuple, converted)), tuple(outputs))


def _cast(cell: Literal, kind: DataType) -> Literal:
    """The constant as a value of a type. A number of many digits becomes a DOUBLE."""
    converted = cast(Literal(cell.type, cell.value) if isinstance(cell, LongNumber) else cell, kind)
    assert isinstance(converted, Literal), "a constant in a cast is folded"
    return converted
