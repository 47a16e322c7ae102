"""Plans as nodes: the inputs of each node, and the lines with its facts."""

from __future__ import annotations

from psoup.answer.plan_nodes import NOTHING, Findings, plan_lines, plan_nodes
from psoup.expressions.tree import AttributeRef
from psoup.model import BIGINT
from psoup.plan.nodes import Join, Limit, Node, PairFactor, Project, Source
from psoup.sql import create_stream, window_clause

SPEC = create_stream("CREATE STREAM ticks (k BIGINT)")
KEYS = [AttributeRef(BIGINT, 0, "k", place) for place in range(3)]


def _known(node: Node) -> Findings:
    match node:
        case Source():
            return Findings({"matches": 10.0 * node.place}, {"stream": node.spec.name})
        case Join():
            return Findings({"pairs": 4.0}, {"route": "2, 0, 1"}, ("route 2, 0, 1", "4 pairs"))
        case _:
            return NOTHING


def test_a_join_in_a_plan_takes_rows_from_all_its_inputs() -> None:
    sources = [Source(place, SPEC, window_clause("BEGIN (NOW - 10)")) for place in range(3)]
    inner = Join(tuple(sources[:2]), (PairFactor("eq", KEYS[0], KEYS[1]),), (), ())
    outer = Join((inner, sources[2]), (PairFactor("eq", KEYS[1], KEYS[2]),), (), ())
    nodes = plan_nodes(Limit(Project(outer, outer.schema[:1]), 5), _known)
    assert [(node.id, node.operator, node.inputs, node.depth) for node in nodes] == [
        (0, "limit", (1,), 0),
        (1, "project", (2,), 1),
        (2, "join", (3, 6), 2),
        (3, "join", (4, 5), 3),
        (4, "source", (), 4),
        (5, "source", (), 4),
        (6, "source", (), 3),
    ]
    assert [node.figures.get("matches") for node in nodes] == [None, None, None, None, 0.0, 10.0, 20.0]
    assert nodes[0].pattern == "strict" and {node.pattern for node in nodes[1:4]} == {"weak"}
    lines = plan_lines(nodes)
    window = "BEGIN (NOW - 10 SECONDS) END (NOW)"
    window_tuples = "the tuples of ticks of 10 SECONDS"
    assert lines.pop(1) == f"             | state: {' × '.join([window_tuples] * 3)}"
    assert lines[:6] == [
        "  plan     Limit 5 [strict, time, rows of ticks]",
        "             Project k [weak, time]",
        f"               {outer.label} [weak, time]",
        "                 | route 2, 0, 1",
        "                 | 4 pairs",
        f"                 {inner.label} [weak, time]",
    ]
    assert lines[8] == f"                   Source ticks {window} [weakest, time]"
    assert lines[-2].startswith("  updates  strict non-monotonic: a row may leave")
