"""Facts about composed plans: sources that may take rows away, roles of sources, patterns, and expressions with NOW."""

from __future__ import annotations

import pytest

from psoup.answer.copies.rows_since import Travel, travel_of
from psoup.answer.plan_nodes import NOTHING, plan_nodes
from psoup.expressions.tree import SET_COLUMNS, AttributeRef, Call, Literal, Now
from psoup.model import BIGINT, BOOLEAN, TIMESTAMP, StreamSpec
from psoup.plan.absences import absences
from psoup.plan.node_exprs import plan_reads_now
from psoup.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Measure,
    Node,
    Output,
    PairFactor,
    PartnerJoin,
    Project,
    Relation,
    SetOperation,
    SetOperator,
    Source,
)
from psoup.plan.source_roles import SourceRole, source_roles
from psoup.sql import create_stream, window_clause

ROWS, OPTIONAL, PARTNER, ABSENCE, SCALAR = SourceRole
SPEC = create_stream("CREATE STREAM ticks (k BIGINT)")
SECOND = create_stream("CREATE STREAM second (k BIGINT, at TIMESTAMP) TIMESTAMP BY at")
SILENT = create_stream("CREATE STREAM silent (k BIGINT, at TIMESTAMP) TIMESTAMP BY at IDLE AFTER 1 MINUTE")
NAMES = "abcd"


def source(place: int, spec: StreamSpec = SPEC, window: str = "BEGIN (START)") -> Source:
    return Source(place, spec, window_clause(window), NAMES[place])


A, B, C, D = map(source, range(4))


def column(place: int) -> AttributeRef:
    return AttributeRef(BIGINT, 0, "k", place)


def key(left: int, right: int) -> PairFactor:
    return PairFactor("eq", column(left), column(right))


def partner(left: Node, right: Node, kind: JoinKind) -> PartnerJoin:
    return PartnerJoin(left, right, kind, (key(left.sources[0].place, right.sources[0].place),))


def select(node: Node, place: int = 0) -> Project:
    return Project(node, (Output("k", column(place)),))


def combined(left: Node, right: Node, operator: SetOperator, *, every: bool = False) -> Relation:
    outputs = (Output("k", AttributeRef(BIGINT, 0, "k", SET_COLUMNS)),)
    return Relation(16, SetOperation(left, right, operator, every, outputs), "", ("k",))


def counted(node: Node) -> Relation:
    return Relation(17, Aggregate(node, (), (Measure("count", (), BIGINT),)), "n", ("n",), single=True)


LEFT, RIGHT, FULL, SEMI, ANTI, ASOF, ASOF_LEFT, NOT_IN, AS_OF, AS_OF_LEFT, AS_OF_SEMI, AS_OF_ANTI = JoinKind
UNION, INTERSECT, EXCEPT = SetOperator


@pytest.mark.parametrize(
    ("plan", "taking", "roles"),
    [
        (A, set(), [ROWS]),
        (Join((A, B), (key(0, 1),), (), ()), set(), [ROWS, ROWS]),
        (partner(A, B, LEFT), {1}, [ROWS, OPTIONAL]),
        (partner(A, B, RIGHT), {0}, [OPTIONAL, ROWS]),
        (partner(A, B, FULL), {0, 1}, [OPTIONAL, OPTIONAL]),
        (partner(A, B, SEMI), set(), [ROWS, PARTNER]),
        (partner(A, B, ANTI), {1}, [ROWS, ABSENCE]),
        (partner(A, B, NOT_IN), {1}, [ROWS, ABSENCE]),
        (partner(A, B, ASOF), {1}, [ROWS, ROWS]),
        (partner(A, B, ASOF_LEFT), {1}, [ROWS, OPTIONAL]),
        (partner(A, B, AS_OF), set(), [ROWS, ROWS]),
        (partner(A, B, AS_OF_LEFT), set(), [ROWS, OPTIONAL]),
        (partner(A, B, AS_OF_SEMI), set(), [ROWS, PARTNER]),
        (partner(A, B, AS_OF_ANTI), set(), [ROWS, ABSENCE]),
        (partner(A, partner(B, C, ANTI), ANTI), {1}, [ROWS, ABSENCE, ABSENCE]),
        (partner(A, partner(B, C, LEFT), SEMI), {2}, [ROWS, PARTNER, PARTNER]),
        (partner(partner(A, B, ANTI), C, LEFT), {1, 2}, [ROWS, ABSENCE, OPTIONAL]),
        (partner(A, counted(partner(B, C, ANTI)), ANTI), {1, 2}, [ROWS, ABSENCE, ABSENCE]),
        (combined(select(A), select(B, 1), UNION), set(), [ROWS, ROWS]),
        (combined(select(A), select(B, 1), INTERSECT), set(), [ROWS, PARTNER]),
        (combined(select(A), select(B, 1), EXCEPT), {1}, [ROWS, ABSENCE]),
        (Join((A, counted(B)), (), (), ()), set(), [ROWS, SCALAR]),
    ],
)
def test_sources_that_take_rows_away(plan: Node, taking: set[int], roles: list[SourceRole]) -> None:
    assert absences(plan) == taking
    assert [source_roles(plan)[place] for place in range(len(roles))] == roles


def patterns(plan: Node) -> list[str]:
    return [node.pattern for node in plan_nodes(plan, lambda _: NOTHING)]


def test_patterns_of_joins_and_set_operations() -> None:
    assert patterns(partner(A, B, LEFT))[0] == patterns(partner(A, B, ANTI))[0] == "strict"
    assert patterns(partner(A, B, SEMI))[0] == "monotonic"
    old = source(1, window="BEGIN (NOW - 10)")
    assert patterns(partner(A, old, SEMI))[0] == "weak"
    for operator, every, expected in (
        (UNION, True, "weakest"),
        (UNION, False, "weak"),
        (INTERSECT, True, "weak"),
        (EXCEPT, False, "strict"),
        (EXCEPT, True, "strict"),
    ):
        plan = Project(whole := combined(select(A), select(old, 1), operator, every=every), whole.schema)
        assert patterns(plan)[:3] == [expected] * 3, (operator, every)


def test_a_statement_whose_now_may_step_back_is_strict() -> None:
    """Also where no node joins the two streams: all sources share NOW."""
    timed = [source(0, SECOND), source(1, SILENT)]
    whole = combined(select(timed[0]), select(timed[1], 1), UNION, every=True)
    assert set(patterns(Project(whole, whole.schema))) == {"strict"}
    assert set(patterns(select(partner(*timed, SEMI)))) == {"strict"}
    alone = [source(0, SILENT), source(1, SILENT)]
    assert patterns(select(partner(*alone, SEMI)))[0] == "monotonic"


def test_operators_have_the_names_of_sql() -> None:
    whole = combined(select(partner(A, B, ANTI)), select(C, 2), INTERSECT, every=True)
    names = [node.operator for node in plan_nodes(Project(whole, whole.schema), lambda _: NOTHING)]
    assert names == [
        "project",
        "relation",
        "intersect",
        "project",
        "anti join",
        "source",
        "source",
        "project",
        "source",
    ]


def test_now_is_found_in_every_node() -> None:
    late = Call(BOOLEAN, "gt", (Now(TIMESTAMP), Literal(TIMESTAMP, 0)))
    assert not plan_reads_now(partner(A, B, LEFT))
    assert plan_reads_now(select(Filter(A, late)))
    assert plan_reads_now(PartnerJoin(A, B, LEFT, rest=(late,)))
    inner = Relation(16, Project(A, (Output("n", Now(TIMESTAMP)),)), "t", ("n",))
    assert plan_reads_now(Project(inner, inner.schema))


@pytest.mark.parametrize(
    "plan",
    [
        select(partner(A, B, LEFT)),
        select(partner(A, B, SEMI)),
        select(Join((partner(A, B, ANTI), C), (key(0, 2),), (), ())),
        select(Join((A, counted(B)), (), (), ())),
        select(Filter(A, Literal(BOOLEAN, True))),
        Project(whole := combined(select(A), select(B, 1), UNION, every=True), whole.schema),
    ],
)
def test_copies_of_composed_answers_are_compared(plan: Node) -> None:
    """Only selections and joins of streams are known to need only new rows."""
    assert travel_of(plan) is Travel.AGAIN
