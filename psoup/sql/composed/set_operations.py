"""UNION, INTERSECT and EXCEPT: the plans of two queries with columns of the same types.

    SELECT a FROM s UNION SELECT 1.5        BIGINT and DECIMAL(2,1): both become DECIMAL(18,1)
      SetOperation
        Project cast(a)
        Values cast(1.5)

The first query gives the names of the columns. The column NULL takes the type of the other query's column.
UNION BY NAME puts the columns of one name together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup.expressions.conversion import cast, common_type, is_null_literal
from psoup.expressions.tree import SET_COLUMNS, AttributeRef, Expr, Literal
from psoup.model import BIGINT, MAX_DECIMAL_PRECISION, TEXT, DataType, Kind, decimal, wide
from psoup.plan.nodes import Node, Output, Project, SetOperation, SetOperator
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.shapes import bare
from psoup.sql.parser.compositions import OPERATOR

_EXACT = frozenset({Kind.BIGINT, Kind.DECIMAL, Kind.WIDE})
_BIGINT_DIGITS = 19

PlanOf = Callable[[exp.Expr], Node]
"""A function that returns the plan of a query."""


def operation_plan(composition: Composition, node: exp.SetOperation, plan_of: PlanOf) -> SetOperation:
    """The plan of a set operation without its ORDER BY and LIMIT. Raises SqlError for columns that do not fit."""
    left, right = (_operand(composition, query, plan_of) for query in (node.this, node.args["expression"]))
    at, word = node.meta.get(OPERATOR, 0), node.key.upper()
    if node.args.get("by_name"):
        left, right = _by_name(composition, left, right)
    if len(left.schema) != len(right.schema):
        raise composition.source.error(
            f"{word} of {len(left.schema)} columns with {len(right.schema)}",
            at,
            hint="select the same number of columns; NULL can stand for a missing one",
            reason="COLUMN_COUNT",
        )
    types = []
    for number, (first, second) in enumerate(zip(left.schema, right.schema, strict=True), 1):
        try:
            types.append(_type(first.expr, second.expr))
        except InvalidInput as problem:
            raise composition.source.error(
                f"{word}: column {number} is {first.type} in one SELECT and {second.type} in another",
                at,
                hint=f"cast them to one type: CAST({first.name[:64]} AS TEXT)",
                reason="TYPE_MISMATCH",
            ) from problem
    outputs = [
        Output(output.name, AttributeRef(kind, place, output.name, SET_COLUMNS))
        for place, (output, kind) in enumerate(zip(left.schema, types, strict=True))
    ]
    operator = SetOperator[word]
    left, right = (_converted(composition, plan, types) for plan in (left, right))
    return SetOperation(left, right, operator, node.args.get("distinct") is False, tuple(outputs))


def _operand(composition: Composition, query: exp.Expr, plan_of: PlanOf) -> Node:
    """The plan of an operand. A set operation as an operand needs no relation of its own."""
    inner = bare(query)
    if isinstance(inner, exp.SetOperation) and not any(inner.args.get(part) for part in ("order", "limit", "offset")):
        return operation_plan(composition, inner, plan_of)
    return plan_of(inner)


def _by_name(composition: Composition, left: Node, right: Node) -> tuple[Node, Node]:
    """The two plans with the columns of both: first all of the left, then the rest of the right. NULL stands for a
    missing column."""
    names = {output.name.lower(): output.name for output in (*right.schema, *left.schema)}
    order = dict.fromkeys(output.name.lower() for output in (*left.schema, *right.schema))
    plans = []
    for plan in (left, right):
        plan = _projected(composition, plan)
        columns = {output.name.lower(): output.expr for output in plan.outputs}
        outputs = [Output(names[folded], columns.get(folded, Literal(BIGINT, None))) for folded in order]
        plans.append(Project(plan.input, tuple(outputs)))
    return plans[0], plans[1]


def _projected(composition: Composition, plan: Node) -> Project:
    """The plan with a Project at the top. DISTINCT, ORDER BY and LIMIT stay below it: they are about its columns."""
    if isinstance(plan, Project):
        return plan
    relation = composition.add_relation(plan, "operand", [output.name for output in plan.schema])
    return Project(relation, relation.schema)


def _type(left: Expr, right: Expr) -> DataType:
    """The type of a column that the two columns become. Raises InvalidInput if there is none."""
    if _is_untyped(left) != _is_untyped(right):
        return right.type if _is_untyped(left) else left.type
    if TEXT in (left.type, right.type):
        return TEXT
    refs = [AttributeRef(expr.type, 0, "") for expr in (left, right)]  # a constant does not take another type here
    if {left.type.kind, right.type.kind} <= _EXACT and left.type != right.type:
        scale = max(expr.type.scale for expr in refs)
        digits = scale + max(_whole_digits(expr.type) for expr in refs)
        return decimal(digits, scale) if digits <= MAX_DECIMAL_PRECISION else wide(scale)
    return common_type(refs, "a set operation")


def _is_untyped(expr: Expr) -> bool:
    """Whether a column is the constant NULL without a CAST to a type. A BIGINT fits every number anyway."""
    return is_null_literal(expr) and expr.type == BIGINT


def _whole_digits(kind: DataType) -> int:
    """The digits before the point of an exact number."""
    return _BIGINT_DIGITS if kind.kind is Kind.BIGINT else kind.precision - kind.scale


def _converted(composition: Composition, plan: Node, types: Sequence[DataType]) -> Node:
    """The plan with its columns cast to `types`."""
    if all(output.type == kind for output, kind in zip(plan.schema, types, strict=True)):
        return plan
    plan = _projected(composition, plan)
    outputs = zip(plan.outputs, types, strict=True)
    return Project(plan.input, tuple(Output(output.name, cast(output.expr, kind)) for output, kind in outputs))
